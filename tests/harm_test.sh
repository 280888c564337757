#!/usr/bin/env bash
# No harm: what is not ours stays byte for byte, one owner at a time, every end is told, and within a second.
hastings=$1
. "$(dirname "$(readlink -f "$0")")/cli_support.sh"
quick=(--max-iterations 20 -q)
small=(--networks mlp --width 16 --latent 4 --batch 20 --threads 1 --calibrate-images 200 --reference-images 200 -q)
have_python=$(command -v python3)
export HOME=$work/home XDG_CACHE_HOME=$work/cache
mkdir -p "$HOME"

# Images to train on: 700 of 8x8 in an npy file.
{ printf '\x93NUMPY\x01\x00\x76\x00'
  head=$(printf "{'descr': '|u1', 'fortran_order': False, 'shape': (700, 8, 8, 1), }")
  printf '%-117s\n' "$head"
  awk 'BEGIN { srand(1); for (i = 0; i < 44800; ++i) printf "%c", 33 + int(90 * rand()) }'; } >images.npy
"$hastings" fit banana "${quick[@]}" -o run >/dev/null 2>err; check "a run" [ -s run/proposal.pt ]
"$hastings" sample run --draws 100 -q >/dev/null 2>err
"$hastings" gan train images.npy -o gan "${small[@]}" --iterations 60 >/dev/null 2>err; check "a GAN" [ -s gan/pair.json ]
"$hastings" gan calibrate gan --witness none -q >/dev/null 2>err; check "calibrated" [ -s gan/calibration.json ]

# --- 1. Nothing of anybody else's is touched. -------------------------------------------------------------------------
# A folder with a stranger's files in it: some with names of ours.
stranger() {
  rm -rf "$1"
  mkdir -p "$1/sub"
  for name in thesis.tex proposal.pt config.json pair.json splits.json summary.json cells.json samples.npz .hidden sub/deep; do
    echo "precious $name" >"$1/$name"
  done
}
# kept NAME FOLDER COMMAND...: the command is refused in one line, and the folder is what it was
kept() {
  local name=$1 folder=$2
  shift 2
  ours() { (cd "$folder" && find . -type f ! -name .hastings ! -path "*/out" ! -path "*/err" -exec cksum {} + | sort); }
  local before
  before=$(ours)
  "$hastings" "$@" >out 2>err </dev/null
  local code=$?
  check "$name is refused (exit $code)" [ $code -eq 2 ]
  check "$name in one line" [ "$(wc -l <err)" -eq 1 ]
  check "$name: everything is still there" [ -z "$(comm -23 <(echo "$before") <(ours))" ]
}
for overwrite in "" --overwrite; do
  stranger p2
  kept "fit $overwrite" p2 fit banana "${quick[@]}" -o p2 $overwrite
  kept "sample $overwrite" p2 sample banana "${quick[@]}" -o p2 $overwrite
  kept "gan train $overwrite" p2 gan train images.npy -o p2 "${small[@]}" --iterations 2 $overwrite
done
kept "fit --resume" p2 fit p2 --resume
kept "sample RUN" p2 sample p2
kept "gan sample -o" p2 gan sample gan -n 20 -q -o p2
kept "gan calibrate PAIR -o" p2 gan calibrate gan/pair.json --data images.npy -q -o p2
kept "gan train --resume" p2 gan train p2 --resume -q
kept "convert" p2 convert p2 --to csv
kept "report" p2 report p2
mkdir -p rep && stranger rep/semimetric-quick
kept "reproduce" rep/semimetric-quick reproduce semimetric --quick -o rep -q
kept "data fetch" p2 data fetch mnist --to p2 -q
kept "a pair over a trained run" gan gan calibrate gan/pair.json --data images.npy -q -o gan
# A run of another kind is a stranger too.
kept "a GAN's run over a run" run gan train images.npy -o run "${small[@]}" --overwrite
kept "a run over a GAN's" gan fit banana "${quick[@]}" -o gan --overwrite
kept "samples over a run" run gan sample gan -n 20 -q -o run
# A file, the working folder, those above it, the root and the home.
echo precious >file; kept "a file" . fit banana "${quick[@]}" -o file --overwrite
mkdir -p inner/most && echo mine >inner/mine && cd inner/most || exit 1
for place in . .. ../.. "$PWD" ./ / "$HOME" "$HOME/." ../most; do
  kept "fit -o $place" "$work/inner" fit banana "${quick[@]}" --overwrite -o "$place"
  kept "gan sample -o $place" "$work/inner" gan sample ../../gan -n 20 -q -o "$place"
  kept "gan train -o $place" "$work/inner" gan train ../../images.npy "${small[@]}" --iterations 2 --overwrite -o "$place"
done
cd "$work" || exit 1
# In a run of ours a stranger's file survives a new run, and is never written over.
echo notes >run/notes.txt
"$hastings" fit banana "${quick[@]}" -o run --overwrite >/dev/null 2>err; check "a run is replaced" [ $? -eq 0 ]
check "notes in it stay" [ "$(cat run/notes.txt)" = notes ]
check "old draws go" [ ! -e run/draws.npz ]
"$hastings" sample run --draws 100 -q >/dev/null 2>err
echo mine >run/report.html; mkdir -p run/report; echo mine >run/report/trace.png; echo mine >run/draws.nc
if command -v gnuplot >/dev/null; then kept "report over a stranger's page" run report run; fi
kept "netcdf over a stranger's file" run convert run --to netcdf
echo precious >gan/notes
"$hastings" gan train images.npy -o gan2 "${small[@]}" --iterations 40 >/dev/null 2>err
echo precious >gan2/samples/mine.png
"$hastings" gan train images.npy -o gan2 "${small[@]}" --iterations 20 --overwrite >/dev/null 2>err; check "a GAN is replaced" [ $? -eq 0 ]
check "a stranger's file in it stays" [ "$(cat gan2/samples/mine.png)" = precious ]
check "its own old pictures go" [ ! -e gan2/samples/0000040.png ]
"$hastings" gan sample gan -n 20 --images -q -o shots >/dev/null 2>err; check "samples" [ -s shots/images/0000019.png ]
echo precious >shots/images/mine.png
"$hastings" gan sample gan -n 10 --images -q -o shots >/dev/null 2>err; check "samples again" [ $? -eq 0 ]
check "a stranger's picture stays" [ "$(cat shots/images/mine.png)" = precious ]
check "old ones go" [ ! -e shots/images/0000019.png ]
ln -s "$work/p2" link; kept "a link to a stranger's folder" p2 fit banana "${quick[@]}" -o link --overwrite
# A list that was tampered with leads nowhere else, nor does a link.
"$hastings" fit banana "${quick[@]}" -o evil >/dev/null 2>err
mkdir -p victim/empty; echo precious >victim/trace.png; ln -s ../victim evil/lnk; echo mine >evil/mine
printf '../file\n/%s\nnowhere/../../file\n./\n.\n/\nlnk/empty/x\nlnk/trace.png\nreport/trace.png\n' "${work#/}/file" >>evil/.hastings
"$hastings" fit banana "${quick[@]}" -o evil --overwrite >/dev/null 2>err; check "a run with such a list is replaced" [ $? -eq 0 ]
check "no file outside is removed" [ "$(cat file)" = precious ]
check "nor a folder" [ -d victim/empty ]
check "nor a stranger's file inside" [ "$(cat evil/mine)" = mine ]
"$hastings" sample evil --draws 50 -q >/dev/null 2>err
ln -s ../victim evil/report; echo report/trace.png >>evil/.hastings
if command -v gnuplot >/dev/null; then fails 2 "lies behind a link" report evil; fi
check "nothing is written through a link" [ "$(cat victim/trace.png)" = precious ]
ln -s ../victim/trace.png evil/.draws.nc.hastings-tmp
"$hastings" convert evil --to netcdf >/dev/null 2>err; check "convert past a link" [ -s evil/draws.nc ]
check "which it does not follow" [ "$(cat victim/trace.png)" = precious ]
fails 2 "no name" reproduce toy --quick -o ''
# Names from a file are text to gnuplot too, not commands.
printf '`touch %s/owned`,y\n1,0\n3,1\n5,0\n2,1\n' "$work" >tick.csv
"$hastings" sample logistic:tick.csv "${quick[@]}" -o tick --draws 100 >/dev/null 2>err
if command -v gnuplot >/dev/null; then "$hastings" report tick >/dev/null 2>err; check "a report of odd names" [ $? -eq 0 ]; fi
sed -i "s/\"name\": \"[^\"]*\"/\"name\": \"\`touch ${work//\//\\/}\/owned\`\"/" tick/summary.json
if command -v gnuplot >/dev/null; then "$hastings" report tick >/dev/null 2>err; fi
check "no name is run" [ ! -e owned ]
# A folder that was made for nothing is gone again; an empty one may be used.
"$hastings" fit script:none.py -o nothing >/dev/null 2>err; check "no folder for nothing" [ ! -e nothing ]
mkdir void; "$hastings" fit banana "${quick[@]}" -o void/ >/dev/null 2>err; check "an empty folder is used" [ -s void/proposal.pt ]

# --- 2. One owner at a time. ------------------------------------------------------------------------------------------
"$hastings" sample run --draws 1000000000 --checkpoint-seconds 0 -q >/dev/null 2>err2 & pid=$!
for _ in $(seq 100); do [ -e run/.sampling/state.pt ] && break; sleep 0.1; done
for command in "fit banana -o run --overwrite" "sample run" "sample banana -o run" "convert run --to csv" "report run"; do
  fails 3 "process $pid is writing it" $command
done
"$hastings" summary run >out 2>err; check "it may be read" [ $? -eq 0 ]
kill -9 $pid; wait $pid 2>/dev/null
"$hastings" sample run --draws 50 -q >/dev/null 2>err; check "a dead process lets go" [ $? -eq 0 ]
"$hastings" gan train images.npy -o gan3 "${small[@]}" --iterations 1000000 --checkpoint-seconds 0 >/dev/null 2>err2 & pid=$!
for _ in $(seq 100); do [ -e gan3/state.safetensors ] && break; sleep 0.1; done
fails 3 "process $pid is writing it" gan train images.npy -o gan3 --overwrite "${small[@]}"
fails 3 "process $pid is writing it" gan train gan3 --resume -q
rm -rf gan3 2>/dev/null || rm -rf gan3
for _ in $(seq 50); do kill -0 $pid 2>/dev/null || break; sleep 0.1; done
wait $pid; check "a removed folder ends it" [ $? -eq 3 ]
check "with a clear line" grep -q "was removed or replaced\|was it removed" err2
"$hastings" sample run --draws 1000000000 --checkpoint-seconds 0 -q >/dev/null 2>err2 & pid=$!
for _ in $(seq 100); do [ -e run/.sampling/state.pt ] && break; sleep 0.1; done
mv run moved
for _ in $(seq 50); do kill -0 $pid 2>/dev/null || break; sleep 0.1; done
wait $pid; check "a folder that moved ends it" [ $? -eq 3 ]
check "with that line" grep -q "was removed or replaced\|was it removed" err2
rm -rf run; mv moved run

# --- 5. Numbers, options, what is printed. ----------------------------------------------------------------------------
fails 2 "18446744073709551616 is too large" sample banana --seed 18446744073709551616
fails 2 "18446744073709551616 is too large" gan train images.npy --seed 18446744073709551616
fails 2 "1.5 is not a whole number" sample banana --seed 1.5
fails 2 "is inf, must be at most" sample banana --target-ess inf
fails 2 "must be at most" sample banana --target-ess 1e300
fails 2 "must be from 0 to 1" fit banana --target-acceptance 2
fails 2 "warmup is 9223372036854775807" sample banana --warmup 9223372036854775807
fails 2 "max-learn-seconds: is -1" sample banana --max-learn-seconds -1
fails 2 "local-step: inf is not a finite number" sample banana --local-step inf
fails 2 "is too large" fit banana --max-iterations 99999999999999999999
fails 2 "epochs: nan is not" gan train images.npy --epochs nan
good='def log_prob(x: Tensor) -> Tensor:
    return -x.square().sum(1)'
echo "$good" >m.py
echo '{"dim": 2.5}' >m.json; fails 3 "dim is 2.5, must be a whole number" fit script:m.py
echo '{"dim": 1e12}' >m.json; fails 3 "dim is 1000000000000, must be from 1 to 100000" fit script:m.py
echo '{"parameters": [{"name": "a", "size": 1000000000000}]}' >m.json; fails 2 "more than 100000" fit script:m.py
echo '{"parameters": ["a", "b", "a"]}' >m.json; fails 2 "two parameters are called 'a'" fit script:m.py
# One valid JSON document on standard output, whatever happens.
json() { # json CODE ARGS...
  local code=$1
  shift
  "$hastings" "$@" >out 2>err
  local got=$?
  check "hastings $* exits with $code (was $got)" [ $got -eq "$code" ]
  if [ -n "$have_python" ]; then check "hastings $* prints one JSON document" python3 -c 'import json; json.load(open("out"))'; fi
}
json 2 fit nosuch --json
json 2 sample banana --draws 0 --json
json 2 sample banana --seed x --json
json 2 fit --json
json 2 nothing --json
json 3 fit logistic:none.csv --json
json 2 summary none --json
json 3 gan train none.npy --json
json 2 gan sample nowhere --json
json 0 data fetch list --json
json 2 data fetch imagenet --json
json 0 targets --json
json 0 sample run --draws 40 --json -q
json 0 summary run --json
json 0 convert run --to csv --json
json 0 check banana --json
check "an error has its words and its code" grep -q '"code":2' <("$hastings" fit nosuch --json 2>/dev/null)
if [ -e /dev/full ]; then
  for command in "targets" "targets --json" "summary run" "summary run --json" "--help" "reproduce list" "data fetch list" "fit --help" "--version" "fit nosuch --json"; do
    "$hastings" $command >/dev/full 2>err; code=$?
    check "hastings $command > /dev/full ends with 3 (was $code)" [ $code -eq 3 ]
  done
fi
(ulimit -f 8; "$hastings" fit banana "${quick[@]}" -o limited >out 2>err); check "a limit on file sizes is an error (exit $?)" grep -q "cannot be written: File too large" err
printf 'def log_prob(x: Tensor) -> Tensor:\n    y = torch.zeros([1000000, 10000000])\n    return -x.square().sum(1) + y[0, 0]\n' >big.py
echo '{"dim": 2}' >big.json
fails 5 "out of memory" fit script:big.py -q

# --- 4. Code that a user names. ---------------------------------------------------------------------------------------
echo '{"dim": 2}' >w.json
printf 'def log_prob(x: Tensor) -> Tensor:\n    torch.save(x, "stolen")\n    return -x.square().sum(1)\n' >w.py
fails 3 "w.py, line 2: uses aten::save" fit script:w.py -q
printf 'def helper(x: Tensor) -> Tensor:\n    if x.size(0) > 3:\n        return torch.from_file("images.npy", False, 10)\n    return x\ndef log_prob(x: Tensor) -> Tensor:\n    return -helper(x).square().sum(1)\n' >w.py
fails 3 "w.py, line 3: uses aten::from_file" fit script:w.py -q
check "nothing was written" [ ! -e stolen ]
printf 'def log_prob(x: Tensor) -> Tensor:\n    print("hello from the script")\n    return -x.square().sum(1)\n' >w.py
"$hastings" sample script:w.py "${quick[@]}" -o printed --draws 20 --json >out 2>err; check "a script may print" [ $? -eq 0 ]
check "to standard error" grep -q "hello from the script" err
check "and not for ever" [ "$(grep -c hello err)" -le 20 ]
if [ -n "$have_python" ]; then check "standard output is JSON alone" python3 -c 'import json; json.load(open("out"))'; fi
printf 'import torch\ndef log_prob(x: Tensor) -> Tensor:\n    if x.size(1) != 3:\n        raise RuntimeError("three are wanted")\n    return -(x.to(dtype=torch.double) + torch.zeros([3], dtype=torch.float64)).square().sum(1)\n' >w.py
fails 2 "three are wanted" fit script:w.py -q
echo '{"dim": 3}' >w.json; "$hastings" fit script:w.py "${quick[@]}" -o typed >out 2>err; check "dtype=torch.double" [ $? -eq 0 ]
# A script that crashes LibTorch is told, too.
echo '{"dim": 2}' >w.json
printf 'def log_prob(x: Tensor) -> Tensor:\n    n = 1 %% (x.size(0) - x.size(0))\n    return -x.square().sum(1) + n\n' >w.py
fails 3 "w.py: its code" fit script:w.py -q -o crash
{ printf 'def log_prob(x: Tensor) -> Tensor:\n    return '; head -c 100000 /dev/zero | tr '\0' '('; printf 'x'; head -c 100000 /dev/zero | tr '\0' ')'; echo '.sum(1)'; } >w.py
fails 3 "w.py: its code" fit script:w.py -q -o crash
if command -v cc >/dev/null; then
  for way in 'abort()' 'exit(0)' 'quick_exit(0)' '*(volatile int*)0 = 1' 'f(n)' 'raise(SIGFPE)'; do
    cat >p.c <<C
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
int64_t hastings_dim(void) { return 2; }
static volatile int sink;
static int f(int64_t n) { volatile char big[4096]; big[0] = (char)n; sink += big[0]; return n == -1 ? 0 : f(n + 1) + big[0]; }
int hastings_log_prob(const double* x, int64_t n, double* value, double* gradient) {
  static int64_t calls = 0; calls += n; (void)f;
  for (int64_t i = 0; i < n; ++i) {
    value[i] = -0.5 * (x[2 * i] * x[2 * i] + x[2 * i + 1] * x[2 * i + 1]);
    if (gradient) { gradient[2 * i] = -x[2 * i]; gradient[2 * i + 1] = -x[2 * i + 1]; }
  }
  if (calls > 2000) { $way; }
  return 0;
}
C
    cc -O0 -shared -fPIC -o p.so p.c 2>err || continue
    "$hastings" sample plugin:./p.so "${quick[@]}" -o plug >out 2>err; code=$?
    check "a plugin that does $way is told (exit $code)" [ $code -eq 3 ]
    check "by name" grep -q "p.so: its code" err
    rm -rf plug
  done
fi

# --- 7. A density that is noisy. --------------------------------------------------------------------------------------
printf 'def log_prob(x: Tensor) -> Tensor:\n    return -x.square().sum(1) + 0.01 * torch.rand([x.size(0)])\n' >w.py
fails 4 "it is not a function" sample script:w.py -q -o noisy
check "and leaves nothing" [ ! -e noisy ]

# Runs that were tampered with.
cp -r gan broken
sed -i 's/"method": "[a-z]*"/"method": "platt"/; s/"coefficients": \[[^]]*\]/"coefficients": []/' broken/calibration.json
tr -d '\n' <broken/calibration.json | sed 's/"coefficients": *\[[^]]*\]/"coefficients": []/' >c.json; cp c.json broken/calibration.json
fails 3 "its numbers are not those it needs" gan sample broken -n 20 -q
fails 2 "outputs 9223372036854775807" gan sample gan -n 9223372036854775807 -q
fails 2 "proposals per output" gan sample gan -n 20 --per-output 9223372036854775807 -q
fails 2 "epochs 1e+300" gan train images.npy -o e "${small[@]}" --epochs 1e300
cp -r run fifo; rm -f fifo/summary.json; mkfifo fifo/summary.json
fails 3 "cannot be read" summary fifo
json 2 fit nosuch --json=true

# --- 8. Messages. -----------------------------------------------------------------------------------------------------
printf '\xef\xbb\xbfa,b,y\n1,2,0\n3,4,1\n5,1,0\n2,2,1\n' >bom.csv
"$hastings" fit logistic:bom.csv "${quick[@]}" -o bom >out 2>err; check "a byte order mark" [ $? -eq 0 ]
printf '"height, cm","b",y\n1,2,0\n3,4,1\n5,1,0\n2,2,1\n' >quoted.csv
"$hastings" fit logistic:quoted.csv "${quick[@]}" -o quoted >out 2>err; check "a comma in quotes" [ $? -eq 0 ]
printf '1,2,0\n3,a\0b,1\n' >nul.csv; fails 3 'a\\x00b' fit logistic:nul.csv
sed 's/"image": \[[^]]*\]/"image": "x"/' gan/pair.json | tr -d '\n' | sed 's/"image": *\[[^]]*\]/"image": "x"/' >pair.json
fails 2 "'image' is \"x\": must be \[channels, height, width\]" gan calibrate pair.json --data images.npy
fails 3 "at least 100 each" gan train images.npy -o few --calibrate-images 50 -q
check "no folder for it" [ ! -e few ]

# --- 6. Stopping within a second. -------------------------------------------------------------------------------------
# Loading LibTorch takes half a second, or twice that on a slow machine: so long a command does not listen yet, and what
# it takes longer there it may take longer to end.
loading=100000
for _ in 1 2 3; do
  begin=$(date +%s%N); "$hastings" --version >/dev/null; ms=$((($(date +%s%N) - begin) / 1000000))
  [ $ms -lt $loading ] && loading=$ms
done
late=$((loading > 500 ? loading - 500 : 0))
patience=${patience:-$((1000 + late))}
# stops SIGNAL SECONDS NAME COMMAND...: after so long the signal; the command must end with 130 within a second
stops() {
  local signal=$1 name=$3
  local after
  after=$(awk "BEGIN { print $2 + $late / 1000 }")
  shift 3
  "$@" >out 2>err & pid=$!
  sleep "$after"
  if ! kill -0 $pid 2>/dev/null; then
    wait $pid; echo "not stopped: $name had ended by itself ($?)"
    return
  fi
  kill -"$signal" $pid
  local begin code
  begin=$(date +%s%N)
  wait $pid; code=$?
  local ms=$((($(date +%s%N) - begin) / 1000000))
  check "$name ends with 130 (was $code)" [ $code -eq 130 ]
  check "$name ends within a second ($ms ms)" [ $ms -lt "$patience" ]
}
for signal in INT TERM; do
  stops $signal 1.5 "fit" "$hastings" fit ring5 -o s1 --overwrite -q
  stops $signal 2 "sample" "$hastings" sample run --draws 2000000000 -q
  stops $signal 2 "sample --json" "$hastings" sample run --draws 2000000000 -q --json
  if [ -n "$have_python" ]; then check "its JSON" python3 -c 'import json; json.load(open("out"))'; fi
  stops $signal 1.5 "gan train" "$hastings" gan train images.npy -o s2 --overwrite "${small[@]}" --iterations 10000000
  stops $signal 1.5 "gan train, slow steps" "$hastings" gan train images.npy -o s3 --overwrite -q --networks mlp --width 4096 --loss wgan-gp --batch 300 --iterations 1000 --calibrate-images 200 --reference-images 200
  stops $signal 1.5 "gan sample" "$hastings" gan sample gan -n 2000000 --per-output 50 -q -o s4
  stops $signal 0.7 "gan calibrate" "$hastings" gan calibrate gan -q --witness none
  stops $signal 1.5 "reproduce" "$hastings" reproduce table1 -o s5 -q --only ring,ar
done
mkdir -p slow && cat >slow/gnuplot <<'S'
#!/bin/sh
sleep 30
S
chmod +x slow/gnuplot
"$hastings" sample run --draws 1000 -q >/dev/null 2>err
rm -rf run/report run/report.html
stops INT 1.2 "report" env PATH="$work/slow:$PATH" "$hastings" report run
sleep 0.3; check "the program it waited for is ended too" [ -z "$(pgrep -f "$work/slow/gnuplot")" ]
"$hastings" sample run --draws 3000000 --chains 1 -q >/dev/null 2>err; rm -f run/draws.nc
stops INT 1.0 "convert" "$hastings" convert run --to csv
printf 'def log_prob(x: Tensor) -> Tensor:\n    n = 0\n    while n >= 0:\n        n = 1 - n\n    return -x.square().sum(1)\n' >w.py
stops INT 1.5 "a script that never ends" "$hastings" fit script:w.py -q -o s6
finish
