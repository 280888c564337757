#!/usr/bin/env bash
# Every script of examples/ checked and sampled on a small budget, its means against answers computed independently
# (tests/reference/examples_truth.json: quadrature for the 2- and 3-d ones, long runs of NUTS for the others).
# usage: examples_test.sh HASTINGS SOURCE
set -u
hastings=$1
source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
for script in "$source"/examples/script/*.py; do
  name=$(basename "$script" .py)
  "$hastings" check "script:$script" > "$work/check" 2>&1 || { echo "FAIL check $name"; cat "$work/check"; failed=1; continue; }
  "$hastings" sample "script:$script" -o "$work/$name" -q --json --seed 5 --draws 2000 --target-acceptance 0.93 > "$work/$name.json" || { echo "FAIL sample $name"; failed=1; continue; }
  python3 - "$name" "$work/$name.json" "$source/tests/reference/examples_truth.json" <<'PY' || failed=1
import json, math, sys
name, run, truth = sys.argv[1], json.load(open(sys.argv[2])), json.load(open(sys.argv[3]))[sys.argv[1]]
worst = 0
for p in run["parameters"]:
    t = truth.get(p["name"])
    if t is None: continue
    z = abs(p["mean"] - t["mean"]) / math.hypot(p["mcse"], t["error"])
    s = abs(p["sd"] / t["sd"] - 1) * math.sqrt(2 * min(p["ess_bulk"], p["ess_tail"]))
    worst = max(worst, z)
    if z > 4 or s > 8: sys.exit(f"FAIL {name}: {p['name']} mean {p['mean']:.4f} sd {p['sd']:.4f}, known {t['mean']:.4f} {t['sd']:.4f} ({z:.1f} s.e.)")
print(f"ok {name}: {len(truth)} known, worst {worst:.1f} standard errors, {run['learn_seconds']:.1f} s learning, acceptance {run['acceptance']:.3f}")
PY
done
exit $failed
