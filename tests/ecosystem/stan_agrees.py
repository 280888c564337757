"""Means and standard deviations within four Monte Carlo standard errors (both runs' together) of Stan's."""
import json
import math
import sys
import warnings

import arviz
import numpy

warnings.filterwarnings("ignore")
name, run, truth, seconds = sys.argv[1], sys.argv[2], json.load(open(sys.argv[3]))[sys.argv[1]]["outputs"], sys.argv[4]
names = [p["name"] for p in json.load(open(f"{run}/summary.json"))["parameters"]]
draws = numpy.load(f"{run}/draws.npz")["draws"]
if sorted(names) != sorted(truth):
    sys.exit(f"FAILED {name}: outputs {names}, Stan has {list(truth)}")
worst = 0
for i, output in enumerate(names):
    x, t = draws[:, :, i], truth[output]
    sd = x.std(ddof=1)
    mean_z = (x.mean() - t["mean"]) / math.hypot(t["mean_error"], sd / math.sqrt(arviz.ess(x, method="mean")))
    # Of a long-tailed quantity the error of the spread is that of its fourth moment.
    square = (x - x.mean()) ** 2
    sd_error = square.std() / (2 * sd) / math.sqrt(arviz.ess(square, method="mean"))
    sd_z = (sd - t["sd"]) / math.hypot(t["sd_error"], sd_error)
    worst = max(worst, abs(mean_z), abs(sd_z))
    if abs(mean_z) > 4 or abs(sd_z) > 4:
        sys.exit(f"FAILED {name}: {output}: mean {x.mean():.5f} ({mean_z:.1f} s.e. off), sd {sd:.5f} ({sd_z:.1f})")
print(f"ok {name}: {len(names)} outputs, worst {worst:.1f} standard errors, {float(seconds):.1f} s in all")
