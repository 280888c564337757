#!/usr/bin/env bash
# SIGKILL at random moments of every command that works for long. After each kill the same command is given again; what
# it ends with is the same, byte for byte, as if nobody had killed it.
# usage: kill_test.sh HASTINGS [KILLS [SEED [COMMANDS]]]   (COMMANDS: a regular expression; all)
set -u
hastings=$1
kills=${2:-42}
RANDOM=${3:-7}
only=${4:-.}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0
wrong() { echo "FAILED: $*"; failed=1; }
now() { echo $(($(date +%s%N) / 1000000)); }

# Without what depends on the clock.
rows() { sed '/^#  Elapsed/,$d' "$1"; }
timeless() { cut -d, -f1-"$1" "$2"; }

# kill_often NAME BEGIN FINISHED SAME AGAIN: BEGIN starts the command (or goes on with it) in the background as $pid;
# FINISHED: its result is there; SAME: it is what it should be; AGAIN: puts it back to nothing.
kill_often() {
  [[ $1 =~ $only ]] || return
  local name=$1 begin=$2 finished=$3 same=$4 again=$5
  local share=$(((kills + 5) / 6)) done=0 started ms
  started=$(now); $begin; wait $pid || wrong "$name: without kills"; ms=$(($(now) - started))
  $same || wrong "$name: without kills"
  $again
  for ((k = 0; k < share; ++k)); do
    $begin
    # Anywhere between the start of the program and somewhat after its end.
    sleep "$(awk "BEGIN { print (0.2 + 0.85 * $RANDOM / 32768) * $ms / 1000 }")"
    kill -9 $pid 2> /dev/null
    wait $pid 2> /dev/null
    if $finished; then
      done=$((done + 1))
      $same || wrong "$name: differs after $k kills"
      $again
    fi
  done
  $finished || { $begin; wait $pid; } || { wrong "$name: after the last kill"; cat err; }
  $finished || wrong "$name: not finished in the end"
  $same || wrong "$name: differs in the end"
  leftovers=$(find . -name '*.hastings-tmp' -o -name .sampling -o -name .fitting -o -name .writing -o -name .converting | grep -v whole)
  [ -z "$leftovers" ] || wrong "$name: leaves $leftovers"
  echo "$name ($ms ms): $share kills, finished $done times in between"
}

# --- learning ---------------------------------------------------------------------------------------------------------
learn=(--flow bend --target-acceptance 1 --max-iterations 700 --max-seconds 0 -q --checkpoint-seconds 0)
"$hastings" fit logistic:simulated -o whole "${learn[@]}" --threads 1 > /dev/null || exit 1
fit() { "$hastings" fit logistic:simulated -o killed "${learn[@]}" --threads $((RANDOM % 2 + 1)) > /dev/null 2> err & pid=$!; }
fit_finished() { [ -e killed/proposal.pt ]; }
fit_same() { cmp -s whole/proposal.pt killed/proposal.pt && cmp -s <(timeless 7 whole/history.csv) <(timeless 7 killed/history.csv); }
fit_again() { rm -rf killed; }
kill_often fit fit fit_finished fit_same fit_again

# --- sampling, and going on -------------------------------------------------------------------------------------------
draw=(--draws 30000 --chains 3 -q --checkpoint-seconds 0)
"$hastings" sample whole "${draw[@]}" --threads 1 > /dev/null || exit 1
same_draws() {
  cmp -s "$1/draws.npz" killed/draws.npz && cmp -s "$1/sampler.pt" killed/sampler.pt || return 1
  for c in 1 2 3; do cmp -s <(rows "$1/chain-$c.csv") <(rows killed/chain-$c.csv) || return 1; done
}
sample() { "$hastings" sample killed "${draw[@]}" --threads $((RANDOM % 2 + 1)) > /dev/null 2> err & pid=$!; }
sample_finished() { [ -e killed/summary.json ] && [ ! -e killed/.sampling ]; }
sample_same() { same_draws whole; }
sample_again() { rm -f killed/summary.json killed/draws.npz killed/sampler.pt; }
kill_often sample sample sample_finished sample_same sample_again

cp -r whole base
cp -r whole whole-more
"$hastings" sample whole-more --more 20000 -q > /dev/null || exit 1
rm -rf killed; cp -r base killed
# What was killed is resumed; given again after it had just ended, --more would add as many once more.
more() {
  local how=(--more 20000)
  [ -e killed/.sampling/request.json ] && how=(--resume)
  "$hastings" sample killed "${how[@]}" --threads $((RANDOM % 2 + 1)) -q --checkpoint-seconds 0 > /dev/null 2> err & pid=$!
}
more_finished() { grep -q '"draws": 50000' killed/summary.json; }
more_same() { same_draws whole-more; }
more_again() { rm -rf killed; cp -r base killed; }
kill_often "sample --more" more more_finished more_same more_again

# --- a GAN's life -----------------------------------------------------------------------------------------------------
{ printf '\x93NUMPY\x01\x00\x76\x00'
  printf '%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': (700, 8, 8, 1), }"
  awk 'BEGIN { srand(1); for (i = 0; i < 44800; ++i) printf "%c", 33 + int(90 * rand()) }'; } > images.npy
train=(--networks mlp --width 16 --latent 4 --batch 20 --threads 1 --calibrate-images 200 --reference-images 200 --iterations 1200 -q --checkpoint-seconds 0)
"$hastings" gan train images.npy -o whole-gan "${train[@]}" > /dev/null || exit 1
train() {
  if [ -e gan/config.json ]; then
    "$hastings" gan train gan --resume -q --checkpoint-seconds 0 > /dev/null 2> err & pid=$!
  else
    "$hastings" gan train images.npy -o gan "${train[@]}" > /dev/null 2> err & pid=$!
  fi
}
train_finished() { [ -e gan/pair.json ]; }
train_same() {
  for file in generator.safetensors discriminator.safetensors pair.json state.safetensors; do cmp -s whole-gan/$file gan/$file || return 1; done
  cmp -s <(timeless 4 whole-gan/history.csv) <(timeless 4 gan/history.csv) && [ "$(ls whole-gan/samples)" = "$(ls gan/samples)" ]
}
train_again() { rm -rf gan; }
kill_often "gan train" train train_finished train_same train_again

"$hastings" gan calibrate whole-gan --witness none --method platt --protocol chain --per-output 10 -q > /dev/null || exit 1
"$hastings" gan sample whole-gan -n 3000 -q --images -o whole-shots > /dev/null || exit 1
shoot() { "$hastings" gan sample whole-gan -n 3000 -q --images -o shots --threads $((RANDOM % 2 + 1)) > /dev/null 2> err & pid=$!; }
shoot_finished() { [ -e shots/sampling.json ]; }
shoot_same() { cmp -s whole-shots/samples.npz shots/samples.npz && cmp -s whole-shots/grid.png shots/grid.png && [ "$(ls whole-shots/images | cksum)" = "$(ls shots/images | cksum)" ]; }
shoot_again() { rm -rf shots; }
kill_often "gan sample" shoot shoot_finished shoot_same shoot_again

# --- experiments ------------------------------------------------------------------------------------------------------
experiment=(reproduce table1 --quick --only rough_well,mog,hmc --seeds 1 -q)
"$hastings" "${experiment[@]}" -o whole-rep > /dev/null 2> err || { cat err; exit 1; }
figures() { grep -h '"ess"' "$1"/table1-quick/cells/*.json; }
reproduce() { "$hastings" "${experiment[@]}" -o rep > /dev/null 2> err & pid=$!; }
reproduce_finished() { [ -e rep/table1-quick/cells.json ]; }
reproduce_same() { [ "$(figures whole-rep)" = "$(figures rep)" ] && [ "$(ls whole-rep/table1-quick)" = "$(ls rep/table1-quick)" ]; }
reproduce_again() { rm -rf rep; }
if command -v gnuplot > /dev/null; then kill_often reproduce reproduce reproduce_finished reproduce_same reproduce_again; fi
exit $failed
