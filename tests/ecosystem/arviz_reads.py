"""ArviZ opens our NetCDF and our Stan CSV and finds the same ESS and R-hat in them."""
import glob
import json
import sys
import warnings

import arviz
import numpy

warnings.filterwarnings("ignore")
work = sys.argv[1]
compared = 0


def flat(dataset):
    """name.1.2 -> [chains, draws]"""
    out = {}
    for name, variable in dataset.data_vars.items():
        values = variable.values
        for index in numpy.ndindex(*values.shape[2:]):
            out[".".join([name, *(str(i + 1) for i in index)])] = values[(slice(None), slice(None), *index)]
    return out


def compare(run, columns, what, tolerance):
    global compared
    summary = json.load(open(f"{work}/{run}/summary.json"))
    names = [p["name"] for p in summary["parameters"]]
    if sorted(names) != sorted(columns):
        sys.exit(f"{what}: has {sorted(columns)}, not {names}")
    for p in summary["parameters"]:
        draws = columns[p["name"]]
        for ours, theirs in ((p["ess_bulk"], arviz.ess(draws, method="bulk")), (p["ess_tail"], arviz.ess(draws, method="tail")),
                             (p["rhat"], arviz.rhat(draws)), (p["mean"], draws.mean()), (p["sd"], draws.std(ddof=1))):
            if abs(ours - theirs) > tolerance * (1 + abs(ours)):
                sys.exit(f"{what}: {p['name']}: {ours} against {theirs}")
            compared += 1


for run in ("schools", "logistic"):
    data = arviz.from_netcdf(f"{work}/{run}/draws.nc")
    archive = numpy.load(f"{work}/{run}/draws.npz")
    assert {"posterior", "sample_stats", "observed_data"} <= set(data.groups()), data.groups()
    assert data.posterior.attrs["inference_library"] == "hastings"
    assert numpy.array_equal(data.sample_stats["lp"].values, archive["lp"])
    assert numpy.array_equal(data.sample_stats["acceptance_rate"].values, archive["accept_stat"])
    compare(run, flat(data.posterior), f"{run}, NetCDF", 1e-6)
    if run == "schools":
        assert {"warmup_posterior", "warmup_sample_stats"} <= set(data._groups_all), data._groups_all
        assert data.posterior["eta"].shape[2] == 8 and data.warmup_posterior.sizes["draw"] == 200
        assert list(data.observed_data["y"].values) == [28, 8, -3, 7, -1, 1, 18, 12]
        arviz.summary(data)
    csv = arviz.from_cmdstan(sorted(glob.glob(f"{work}/{run}/chain-*.csv")))
    compare(run, flat(csv.posterior), f"{run}, Stan CSV", 1e-6)
print(f"ok ArviZ {arviz.__version__}: {compared} figures agree")
