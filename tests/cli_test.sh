#!/usr/bin/env bash
# The program as its users call it: results, files, exit codes, bad input, kills, a full disk.
hastings=$1
. "$(dirname "$(readlink -f "$0")")/cli_support.sh"

leaves_nothing() { check "nothing left in $1" [ -z "$(ls -A "$1" 2>/dev/null)" ]; }

quick=(--max-iterations 20 -q)

"$hastings" targets >out; check "targets" grep -q '^mog6' out
"$hastings" targets --json | python3 -c 'import json,sys; json.load(sys.stdin)' 2>/dev/null || command -v python3 >/dev/null && check "targets --json" true
"$hastings" --help >out; check "help" grep -q 'sample' out
"$hastings" sample --help >out; check "help shows defaults" grep -q -- '--draws.*1000' out

"$hastings" fit banana "${quick[@]}" --output run >out 2>err; check "fit" [ $? -eq 0 ]
check "fit says where" grep -q 'run' out
for f in config.json proposal.pt history.csv; do check "fit writes $f" [ -s run/$f ]; done
"$hastings" sample run --draws 300 -q >out 2>err; check "sample RUN" [ $? -eq 0 ]
for f in chain-1.csv chain-4.csv draws.npz summary.json; do check "sample writes $f" [ -s run/$f ]; done
check "three hundred draws" [ "$(grep -vc '^#' run/chain-1.csv)" -eq 301 ]
check "no scratch" [ -z "$(find run -name '.sampling*' -o -name '*.tmp')" ]
"$hastings" summary run >out; check "summary" grep -q 'ESS_bulk' out
"$hastings" summary run --json >out; check "summary --json" grep -q '"min_ess_bulk"' out
cp run/chain-1.csv first.csv
"$hastings" sample run --draws 300 -q --threads 1 >/dev/null; cmp -s <(grep -v '^#' first.csv) <(grep -v '^#' run/chain-1.csv); check "same draws with one thread" [ $? -eq 0 ]
"$hastings" sample run --draws 100 --chains 2 -q >/dev/null; check "chains of an earlier run are gone" [ ! -e run/chain-3.csv ]
"$hastings" sample banana --output run --draws 50 >out 2>/dev/null; check "sample TARGET uses the run" grep -q 'Using the proposal' out
"$hastings" sample gaussian "${quick[@]}" --json >out 2>err; check "sample TARGET fits first" [ -s runs/gaussian/summary.json ]
check "json on standard output only" [ ! -s err ]

mkdir bad; cd bad || exit 1
fails 2 "nearest names are ring" fit rign
fails 2 "draws is 0" sample gaussian --draws 0
fails 2 "seed" sample gaussian --seed -1
fails 2 "chains is 0" sample gaussian --chains 0
fails 2 "couplings" fit gaussian --couplings 99
fails 2 "objective 'elbo'" fit gaussian --objective elbo
fails 2 "flow 'maf'" fit gaussian --flow maf
fails 2 "init 'guess'" fit gaussian --init guess
fails 2 "local_moves 'nuts'" sample gaussian --local-moves nuts
fails 2 "no-such-option" fit gaussian --no-such-option
fails 2 "is required" fit
fails 2 "fixed dimension" fit ring:3
fails 3 "cannot be opened" fit logistic:/no/such/file
fails 2 "no such run" summary /no/such/run
printf '1,2,0\n3,x,1\n' >../t.csv; fails 3 "line 2, column 2" fit logistic:../t.csv
printf '1,2,0\n3,4,1\n5,6,2\n' >../t.csv; fails 3 "two classes" fit logistic:../t.csv
printf '1,7,0\n3,7,1\n' >../t.csv; fails 3 "constant" fit logistic:../t.csv
fails 3 "cannot be" fit gaussian "${quick[@]}" --output /proc/nowhere/run
rm -f out err
leaves_nothing .
cd ..
mv bad/err . 2>/dev/null
fails 2 "is a run of target banana" sample gaussian --output run
fails 2 "holds a run already" fit banana --output run
mkdir empty; fails 2 "not a run folder" sample empty
echo garbage >run/proposal.pt; fails 3 "damaged" sample run

# Experiments and reports.
"$hastings" reproduce list >out 2>err; check "reproduce list" grep -q "^table1" out
fails 2 "unknown experiment 'nosuch'" reproduce nosuch
fails 2 "--only nosuch: there are ring, mog2" reproduce table1 --only nosuch -o rep
fails 2 "has no parts" reproduce toy --only ring -o rep
fails 2 "seeds: is 0, must be at least 1" reproduce table1 --seeds 0 -o rep
fails 2 "threads: is -1, must be at least 0" reproduce table1 --threads -1 -o rep
"$hastings" fit mog2 --max-iterations 1 -q --output bare >/dev/null
fails 2 "has no draws yet" report bare
if command -v gnuplot >/dev/null; then
  "$hastings" reproduce semimetric --quick -o rep >out 2>err; check "reproduce semimetric" [ $? -eq 0 ]
  for file in semimetric.csv semimetric.md semimetric.png semimetric.svg semimetric.dat; do
    check "reproduce writes $file" [ -s "rep/semimetric-quick/$file" ]
  done
  check "the semimetric's example" grep -q "1.33333333333333,1.33333333333333" rep/semimetric-quick/semimetric.csv
  # A finished cell is never computed twice.
  env -u HASTINGS_TEST_DATA "$hastings" reproduce table1 --quick --only hmc --seeds 1 -o rep -q >out 2>err; check "a row of table 1" [ $? -eq 0 ]
  before=$(cat rep/table1-quick/cells/* | cksum)
  env -u HASTINGS_TEST_DATA "$hastings" reproduce table1 --quick --only hmc --seeds 1 -o rep -q >out 2>err
  check "finished cells are read back" [ "$before" = "$(cat rep/table1-quick/cells/* | cksum)" ]
  check "nothing is computed again" [ "$(grep -c " by " out)" -eq 0 ]
  echo damaged >rep/table1-quick/cells/ring-hmc-1.json
  env -u HASTINGS_TEST_DATA "$hastings" reproduce table1 --quick --only hmc --seeds 1 -o rep -q >out 2>err
  check "a damaged cell is computed again, and alone" grep -q "1 of 1: ring by hmc" out
  check "the table has a figure" [ -s rep/table1-quick/table1.svg ]
  # One file with all cells is enough to make the table again, elsewhere.
  cells=rep/table1-quick/cells.json
  env -u HASTINGS_TEST_DATA "$hastings" reproduce table1 --quick --only hmc --seeds 1 -o rep-from --from $cells -q >out 2>err
  check "the table from a file of cells" cmp rep/table1-quick/table1.md rep-from/table1-quick/table1.md
  check "without computing any" [ "$(grep -c " by " out)" -eq 0 ]
  check "and the cells go on" cmp $cells rep-from/table1-quick/cells.json
  fails 2 "of table1-quick, not of table1" reproduce table1 --only hmc -o rep-from --from $cells
  echo '[]' >wrong.json
  fails 3 "not a cells.json" reproduce table1 --quick -o rep-from --from wrong.json
  fails 3 "nosuch.json" reproduce table1 --quick -o rep-from --from nosuch.json
  # Targets and methods together: the cells they share. Results do not depend on how many are computed at a time.
  for threads in 1 2; do
    "$hastings" reproduce table1 --quick --only rough_well,mog,hmc --seeds 1 --threads $threads -o "rep$threads" -q >out 2>err
    check "two cells on $threads threads" [ "$(ls "rep$threads/table1-quick/cells")" = "mog-hmc-1.json
rough_well-hmc-1.json" ]
  done
  check "the same on one thread and on two" [ "$(grep -h '"ess"' rep1/table1-quick/cells/*)" = "$(grep -h '"ess"' rep2/table1-quick/cells/*)" ]
fi

# A kill at any moment leaves a run that is whole, or none.
"$hastings" fit mog2 "${quick[@]}" --output k >/dev/null
for delay in 0.7 0.8 0.9 1.0 1.1 1.3; do
  "$hastings" sample k --draws 200000 -q >/dev/null 2>&1 &
  pid=$!
  sleep $delay
  kill -9 $pid 2>/dev/null
  wait $pid 2>/dev/null
  if [ -e k/summary.json ]; then check "after a kill summary belongs to draws" [ -s k/draws.npz ]; fi
  "$hastings" sample k --draws 50 -q >/dev/null 2>err; check "sampling after a kill" [ $? -eq 0 ]
done
for delay in 0.6 0.8 0.9 1.0 1.1 1.2; do
  "$hastings" fit mog2 --max-iterations 1 -q --output kf >/dev/null 2>&1 &
  pid=$!
  sleep $delay
  kill -9 $pid 2>/dev/null
  wait $pid 2>/dev/null
  if [ -e kf/proposal.pt ]; then  # there means complete
    "$hastings" sample kf --draws 50 -q >/dev/null 2>err; check "a fit that is there is whole" [ $? -eq 0 ]
  else
    "$hastings" fit mog2 --max-iterations 1 -q --output kf >/dev/null 2>err; check "fitting after a kill" [ $? -eq 0 ]
  fi
  rm -rf kf .kf* kf.*
done
# Ctrl-C ends cleanly with its own exit code and the draws there are.
"$hastings" sample k --draws 50000000 -q >/dev/null 2>err &
pid=$!
for _ in $(seq 200); do [ -s k/.sampling/draws-1 ] && break; sleep 0.1; done  # it draws, so it listens
kill -INT $pid
wait $pid
check "interrupt exits with 130" [ $? -eq 130 ]
draws() { grep -c '^[^#l]' k/chain-1.csv; }
there=$(draws)
check "interrupt leaves draws" [ "$there" -gt 10 ]
check "interrupt leaves a summary of them" grep -q "\"draws\": $there" k/summary.json
"$hastings" sample k --more 11 -q >/dev/null 2>err; check "more draws after an interrupt" [ $? -eq 0 ]
check "eleven more" [ "$(draws)" -eq $((there + 11)) ]
check "no scratch is left" [ ! -e k/.sampling ]

# Densities that users bring; stopping where they ask.
cat > m.py <<'S'
def log_prob(x: Tensor) -> Tensor:
    return -0.5 * x.square().sum(1)
S
echo '{"dim": 2}' > m.json
"$hastings" check script:m.py > out 2>err; check "check a script" [ $? -eq 0 ]
check "check says so" grep -q "Nothing wrong was found" out
"$hastings" check script:m.py --json > out 2>err; check "check --json" grep -q '"dimension": 2' out
"$hastings" sample script:m.py "${quick[@]}" --target-ess 3000 --draws 100 --output ms --json > out 2>err
check "sample a script" [ $? -eq 0 ]
check "until the ESS is there" grep -q '"stopped": "target-ess"' out
for format in csv netcdf npz; do
  "$hastings" convert ms --to $format > out 2>err; check "convert to $format" [ $? -eq 0 ]
  check "convert says where" [ -e "$(head -1 out)" ]
done
"$hastings" sample ms --draws 100000000 --max-seconds 0.2 -q --json > out 2>err; check "sample --max-seconds" [ $? -eq 0 ]
check "and stops there" grep -q '"stopped": "max-seconds"' out
printf 'def log_prob(x: Tensor) -> Tensor:\n    return -0.5 * x[:, 0].square()\n' > flat.py
echo '{"dim": 2}' > flat.json
"$hastings" check script:flat.py > out 2>err; check "check finds a flat coordinate" [ $? -eq 4 ]
check "and names it" grep -q "does not depend on x.2" out
printf 'def log_prob(x: Tensor) -> Tensor:\n    return y\n' > bad.py
echo '{"dim": 2}' > bad.json
fails 3 "bad.py, line 2" fit script:bad.py
cp m.py bad.py
echo '{"dim": ' > bad.json
fails 3 "bad.json" check script:bad.py
fails 3 "none.py" check script:none.py
fails 3 "none.pt" check module:none.pt
fails 3 "none.so" check plugin:none.so
fails 3 "none.stan" check stan:none.stan
fails 3 "is not a usable shared object" check plugin:m.json
fails 2 "data belongs to stan" check script:m.py --data m.json
fails 2 "must be csv, netcdf or npz" convert ms --to xls
fails 2 "no such run" convert nowhere --to csv
fails 2 "no interrupted sampling" sample ms --resume
fails 2 "nothing to resume" fit ms --resume
fails 2 "no interrupted learning" fit nowhere --resume
fails 2 "name its folder" sample gaussian --more 5
fails 2 "excludes" sample ms --more 5 --chains 2

# A full disk: a file system of two megabytes, where mounting is allowed.
mkdir full
if mount -t tmpfs -o size=2m tmpfs full 2>/dev/null; then
  "$hastings" fit gaussian "${quick[@]}" --output full/run >/dev/null
  cd full || exit 1
  fails 3 "No space left" sample run --draws 200000 -q 2>/dev/null
  rm -f out err
  check "a full disk leaves no half run" [ -z "$(find run -name 'chain-*' -o -name '*.npz' -o -name '.sampling*')" ]
  cd ..
  umount full
  if command -v gnuplot >/dev/null; then
    # Room for the tables and for one of the two pictures.
    mount -t tmpfs -o size=64k tmpfs full
    fails 3 "is the disk full?" reproduce semimetric --quick -o full/rep
    check "a full disk leaves no half picture" [ -z "$(find full -name '*.png' -o -name '*.svg')" ]
    check "nor one under another name" [ -z "$(find full -name '*.drawing*')" ]
    umount full
  fi
else
  echo "skipped: no permission to mount a small file system"
fi

finish
