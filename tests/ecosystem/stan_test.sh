#!/usr/bin/env bash
# Stan programs of six kinds, compiled and sampled; means and standard deviations against long runs of Stan's own NUTS
# (tests/reference/stan_truth.json). And what goes wrong with a Stan program.  usage: stan_test.sh HASTINGS SOURCE
set -u
hastings=$1
source=$2
home="${XDG_DATA_HOME:-$HOME/.local/share}/hastings"
if [ ! -x "$home/stan/stanc" ] && [ -z "${HASTINGS_STAN:-}" ]; then
  echo "No Stan toolchain here (scripts/setup --stan): skipped."
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
stan="$source/examples/stan"

# Errors: stanc's own line and column; data that do not fit; data that are not JSON.
cat > "$work/wrong.stan" <<'S'
parameters { real x; }
model { x ~ normal(0, y); }
S
"$hastings" check "stan:$work/wrong.stan" -q > /dev/null 2> "$work/err"
[ $? -eq 3 ] && grep -q "line 2, column 22" "$work/err" && grep -q "'y'" "$work/err" || { echo "FAILED: stanc's words"; cat "$work/err"; failed=1; }
(cd "$work" && echo '{"J": 8}' > short.json && echo '{"J": ' > bad.json)
for data in short.json:y bad.json:JSON none.json:none.json; do
  "$hastings" check "stan:$stan/schools.stan" --data "$work/${data%%:*}" -q > /dev/null 2> "$work/err"
  [ $? -eq 3 ] && [ "$(wc -l < "$work/err")" -eq 1 ] && grep -q "${data%%:*}" "$work/err" || { echo "FAILED: data $data"; cat "$work/err"; failed=1; }
done

python="$home/readers/bin/python"
for model in "$stan"/*.stan; do
  name=$(basename "$model" .stan)
  begin=$(date +%s%N)
  "$hastings" sample "stan:$model" --data "$stan/$name.json" -o "$work/$name" -q --seed 3 --draws 5000 --json > "$work/$name.out" 2> "$work/err" ||
    { echo "FAILED: $name"; cat "$work/err"; failed=1; continue; }
  seconds=$(awk "BEGIN { print ($(date +%s%N) - $begin) / 1e9 }")
  if [ -x "$python" ]; then
    "$python" "$source/tests/ecosystem/stan_agrees.py" "$name" "$work/$name" "$source/tests/reference/stan_truth.json" "$seconds" || failed=1
  else
    echo "sampled $name in $seconds s; ArviZ is not here to compare it"
  fi
done
exit $failed
