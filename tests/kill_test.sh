#!/usr/bin/env bash
# SIGKILL at random moments of learning and of sampling; after each the run goes on, and ends the same, bit for bit, as
# the run that was never killed.  usage: kill_test.sh HASTINGS [KILLS [SEED]]
set -u
hastings=$1
kills=${2:-10}
RANDOM=${3:-7}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
learn=(--flow bend --target-acceptance 1 --max-iterations 700 --max-seconds 0 --threads 1 -q --checkpoint-seconds 0)
draw=(--draws 30000 --chains 3 --threads 1 -q --checkpoint-seconds 0)
target=logistic:simulated
failed=0

begin=$(date +%s%N)
"$hastings" fit $target -o whole "${learn[@]}" > /dev/null || exit 1
fit_ms=$((($(date +%s%N) - begin) / 1000000))
begin=$(date +%s%N)
"$hastings" sample whole "${draw[@]}" > /dev/null || exit 1
sample_ms=$((($(date +%s%N) - begin) / 1000000))
body() { sed '/^#  Elapsed/,$d' "$1"; }

# Every other kill waits for a stored state first, however slow the machine: else nothing might ever be taken up.
stored() { for _ in $(seq 100); do [ -e "$1" ] && break; kill -0 $pid 2> /dev/null || break; sleep 0.05; done; }

resumed=0
"$hastings" fit $target -o killed "${learn[@]}" > /dev/null & pid=$!
for ((k = 0; k < kills; ++k)); do
  [ $((k % 2)) -eq 0 ] && stored killed/.fitting/state.pt
  sleep "$(printf '0.%03d' $((RANDOM % 400)))"
  [ $((RANDOM % 2)) -eq 0 ] && sleep "$(awk "BEGIN { print $((RANDOM % 1000)) / 1000 * $fit_ms / 4000 }")"
  kill -9 $pid 2> /dev/null
  wait $pid 2> /dev/null
  if [ -e killed/proposal.pt ]; then
    cmp -s whole/proposal.pt killed/proposal.pt || { echo "FAILED: proposal differs after $k kills"; failed=1; }
    rm -rf killed
  fi
  if [ -e killed/.fitting/state.pt ]; then
    resumed=$((resumed + 1))
    "$hastings" fit killed --resume --threads $((k % 2 + 1)) -q --checkpoint-seconds 0 > /dev/null 2> err & pid=$!
  else
    "$hastings" fit $target -o killed "${learn[@]}" > /dev/null 2> err & pid=$!
  fi
done
wait $pid || { echo "FAILED: learning after the last kill"; cat err; failed=1; }
cmp -s whole/proposal.pt killed/proposal.pt || { echo "FAILED: proposal differs in the end"; failed=1; }
[ "$(cut -d, -f1-7 whole/history.csv)" = "$(cut -d, -f1-7 killed/history.csv)" ] || { echo "FAILED: history differs"; failed=1; }
[ ! -e killed/.fitting ] || { echo "FAILED: leftovers of learning"; failed=1; }
[ $resumed -gt 0 ] || { echo "FAILED: learning was never taken up"; failed=1; }
echo "learning ($fit_ms ms): $kills kills, taken up $resumed times"

resumed=0
same() {
  cmp -s whole/draws.npz killed/draws.npz || { echo "FAILED: draws differ ($1)"; failed=1; }
  for c in 1 2 3; do
    [ "$(body whole/chain-$c.csv | md5sum)" = "$(body killed/chain-$c.csv | md5sum)" ] || { echo "FAILED: chain-$c.csv differs ($1)"; failed=1; }
  done
}
"$hastings" sample killed "${draw[@]}" > /dev/null & pid=$!
for ((k = 0; k < kills; ++k)); do
  [ $((k % 2)) -eq 0 ] && stored killed/.sampling/state.pt
  sleep "$(awk "BEGIN { print 0.4 + $((RANDOM % 1000)) / 1000 * $sample_ms / 2000 }")"
  kill -9 $pid 2> /dev/null
  wait $pid 2> /dev/null
  if [ -e killed/.sampling/state.pt ]; then
    resumed=$((resumed + 1))
    "$hastings" sample killed --resume --threads $((k % 2 + 1)) -q --checkpoint-seconds 0 > /dev/null 2> err & pid=$!
  else
    if [ -e killed/summary.json ] && [ ! -e killed/.sampling ]; then
      same "after $k kills"
      rm -f killed/summary.json killed/draws.npz
    fi
    "$hastings" sample killed "${draw[@]}" > /dev/null 2> err & pid=$!
  fi
done
wait $pid || { echo "FAILED: sampling after the last kill"; cat err; failed=1; }
same "in the end"
[ ! -e killed/.sampling ] || { echo "FAILED: leftovers of sampling"; failed=1; }
[ $resumed -gt 0 ] || { echo "FAILED: sampling was never taken up"; failed=1; }
echo "sampling ($sample_ms ms): $kills kills, taken up $resumed times"
exit $failed
