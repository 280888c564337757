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

# A toolchain laid out as CmdStan and BridgeStan have it; print statements are shown, but not for ever; and the compiled
# model serves hastings as a shared object and BridgeStan's own client.
wheel="${HASTINGS_STAN:-$home/stan}"
layout="$work/cmdstan"
if [ -d "$wheel/include/stan" ]; then
  math="$layout/stan/lib/stan_math"
  mkdir -p "$layout/bin" "$layout/stan/src" "$math/lib/eigen_3.4.0" "$math/lib/boost_1.87.0" "$math/lib/tbb_2020.3/include" \
    "$math/lib/sundials_6.1.1/include" "$math/lib/sundials_6.1.1/lib" "$math/lib/tbb" "$layout/stan/lib/rapidjson_1.1.0"
  ln -s "$wheel/stanc" "$layout/bin/stanc"
  ln -s "$wheel/include/stan" "$layout/stan/src/stan"
  ln -s "$wheel/include/stan" "$math/stan"
  ln -s "$wheel/include/Eigen" "$wheel/include/unsupported" "$math/lib/eigen_3.4.0"
  ln -s "$wheel/include/boost" "$math/lib/boost_1.87.0"
  ln -s "$wheel/include/tbb" "$math/lib/tbb_2020.3/include"
  ln -s "$wheel"/include/{sundials,sun*,nvector,cvodes,idas,kinsol,stan_sundials*} "$math/lib/sundials_6.1.1/include" 2> /dev/null
  ln -s "$wheel/include/rapidjson" "$layout/stan/lib/rapidjson_1.1.0"
  ln -s "$wheel"/lib/libtbb* "$math/lib/tbb"
  ln -s "$wheel"/lib/libsundials* "$math/lib/sundials_6.1.1/lib"
  cat > "$work/prints.stan" <<'S'
data { int N; vector[N] y; }
parameters { real mu; real<lower=0> sigma; }
transformed parameters { real twice = 2 * sigma; }
model { print("mu is ", mu); mu ~ normal(0, 1); sigma ~ exponential(1); y ~ normal(mu, sigma); }
generated quantities { real again = normal_rng(mu, sigma); }
S
  echo '{"N": 3, "y": [1, 2.5, 0.5]}' > "$work/prints.json"
  XDG_CACHE_HOME="$work/cache" "$hastings" check "stan:$work/prints.stan" --data "$work/prints.json" -q \
    --stan-toolchain "$layout" > "$work/out" 2> "$work/err"
  [ $? -eq 0 ] || { echo "FAILED: a toolchain laid out as CmdStan's"; cat "$work/out" "$work/err"; failed=1; }
  [ "$(grep -c '^mu is ' "$work/err")" -eq 20 ] && grep -q 'further prints' "$work/err" ||
    { echo "FAILED: print statements"; head -30 "$work/err"; failed=1; }
  cp "$work"/cache/hastings/stan/model-*.so "$work/prints.so"
  "$hastings" sample "stan:$work/prints.so" --data "$work/prints.json" -q -o "$work/so" --draws 500 > /dev/null 2> "$work/err" ||
    { echo "FAILED: a compiled model"; cat "$work/err"; failed=1; }
  if [ -x "$python" ] && "$python" -c 'import bridgestan' 2> /dev/null; then
    "$python" "$source/tests/ecosystem/bridgestan_opens.py" "$work/prints.so" "$work/prints.json" > "$work/out" 2> "$work/err" ||
      { cat "$work/err"; failed=1; }
    grep '^ok' "$work/out"
  else
    echo "BridgeStan's client is not here: its part is skipped."
  fi
fi

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
