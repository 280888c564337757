"""Time to 1,000 effective draws on the programs of examples/stan: hastings beside Stan's own NUTS, in one run.

    python3 -m venv V && V/bin/pip install pystan==3.10.0 arviz==0.21.0 matplotlib==3.9.4
    V/bin/python bench/peers/stan_nuts.py build/hastings [seeds]

Both on all cores, four chains, models compiled before the clock starts. hastings: learning and sampling until the least
bulk ESS is 1,000. NUTS: 1,000 steps of warm-up, and as much of 1,000 draws a chain as 1,000 effective ones need; from its
time that of a run of one draw without warm-up is taken off, which is the overhead of the service around it.
"""
import contextlib
import io
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import arviz
import numpy
import stan

begin_of_all = time.time()  # httpstan keeps fits by their seed and would hand back an old one in no time
hastings, seeds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
programs = Path(__file__).parent.parent.parent / "examples" / "stan"
print("| program | parameters | hastings: learning s | to 1,000 effective draws s | then ESS/s | NUTS: to 1,000 effective draws s | ESS/s |")
print("|---|---|---|---|---|---|---|")
for path in sorted(programs.glob("*.stan")):
    data = path.with_suffix(".json")
    ours, learn, speed = [], [], []
    for seed in range(1, seeds + 1):
        with tempfile.TemporaryDirectory() as work:
            run = subprocess.run([hastings, "sample", f"stan:{path}", "--data", data, "-o", f"{work}/run", "-q", "--json",
                                  "--seed", str(seed), "--target-ess", "1000", "--draws", "300"],
                                 capture_output=True, text=True, check=True)
            s = json.loads(run.stdout)
            dim = json.load(open(f"{work}/run/config.json"))["dimension"]
        learn.append(s["learn_seconds"])
        ours.append(s["learn_seconds"] + s["sample_seconds"] * min(1, 1000 / s["min_ess_bulk"]))
        speed.append(s["ess_per_second"])
    theirs, rate = [], []
    for seed in range(1, seeds + 1):
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            model = stan.build(path.read_text(), data=json.loads(data.read_text()), random_seed=int(begin_of_all) + seed)
            times = []
            for warmup, draws in ((1, 1), (1000, 1), (1000, 1000)):
                begin = time.time()
                fit = model.sample(num_chains=4, num_warmup=warmup, num_samples=draws)
                times.append(time.time() - begin)
        skip = len(fit.sample_and_sampler_param_names)
        columns = [numpy.asarray(fit._draws[skip + i]).T for i in range(len(fit.constrained_param_names))]
        least = min(float(arviz.ess(c, method="bulk")) for c in columns if c.std() > 0)
        warm, sampling = max(times[1] - times[0], 0), max(times[2] - times[1], 1e-3)
        theirs.append(warm + sampling * 1000 / least)
        rate.append(least / sampling)
    m = statistics.median
    print(f"| {path.stem} | {dim} | {m(learn):.2f} | {m(ours):.2f} | {m(speed):,.0f} | {m(theirs):.2f} | {m(rate):,.0f} |", flush=True)
