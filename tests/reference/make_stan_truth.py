"""Long runs of Stan's own NUTS on the programs of examples/stan: means, standard deviations, their Monte Carlo errors,
and the time it takes to 1,000 effective draws.

    python3 -m venv V && V/bin/pip install pystan==3.10.0 arviz==0.21.0 matplotlib==3.9.4
    V/bin/python make_stan_truth.py ../../examples/stan stan_truth.json [name ...]

Stan's times are of the sampler alone, as httpstan reports them: no compilation, no start of Python.
"""
import json
import sys
import time
from pathlib import Path

import arviz
import numpy
import stan

programs, out = Path(sys.argv[1]), Path(sys.argv[2])
names = sys.argv[3:] or sorted(p.stem for p in programs.glob("*.stan"))
truth = json.loads(out.read_text()) if out.exists() else {}
for name in names:
    data = json.loads((programs / f"{name}.json").read_text())
    model = stan.build((programs / f"{name}.stan").read_text(), data=data, random_seed=1)

    def run(samples, chains):
        begin = time.time()
        fit = model.sample(num_chains=chains, num_samples=samples, num_warmup=1000, delta=0.95 if samples > 5000 else 0.8)
        seconds = time.time() - begin
        columns = {}
        for parameter in fit.constrained_param_names:
            flat = numpy.asarray(fit._draws[len(fit.sample_and_sampler_param_names)
                                            + fit.constrained_param_names.index(parameter)])
            columns[parameter] = flat.T  # [chains, draws]
        return columns, seconds

    columns, _ = run(25000, 4)
    record = {}
    for parameter, draws in columns.items():
        sd = float(draws.std(ddof=1))
        ess = float(arviz.ess(draws, method="mean"))
        ess_sd = float(arviz.ess(draws, method="sd"))
        record[parameter] = {"mean": float(draws.mean()), "sd": sd, "mean_error": sd / ess**0.5,
                             "sd_error": sd / (2 * ess_sd) ** 0.5, "rhat": float(arviz.rhat(draws))}
    quick, seconds = run(1000, 4)
    least = min(float(arviz.ess(d, method="bulk")) for d in quick.values() if d.std() > 0)
    truth[name] = {"outputs": record, "nuts": {"draws": 4000, "least_bulk_ess": least, "seconds": seconds}}
    out.write_text(json.dumps(truth, indent=1) + "\n")
    print(name, len(record), max(r["rhat"] for r in record.values()), least, seconds, flush=True)
