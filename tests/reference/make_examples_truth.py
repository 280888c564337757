"""Known answers of the scripts in examples/script: quadrature where the dimension allows, else long runs of NumPyro's
NUTS on the same model written in NumPyro.

    python3 -m venv V && V/bin/pip install numpyro==0.16.1 jax==0.4.38 arviz==0.21.0 matplotlib==3.9.4
    V/bin/python make_examples_truth.py ../../examples/script examples_truth.json
"""
import csv
import json
import sys

import numpy as np

folder, out = sys.argv[1], sys.argv[2]
truth = {}


def moments(grid, log_density):
    """Means and sds of the columns of grid under the density on it, and no error to speak of."""
    w = np.exp(log_density - log_density.max())
    w /= w.sum()
    mean = (w[:, None] * grid).sum(0)
    return mean, np.sqrt((w[:, None] * (grid - mean) ** 2).sum(0))


def record(names, mean, sd, error):
    return {n: {"mean": float(m), "sd": float(s), "error": float(e)} for n, m, s, e in zip(names, mean, sd, error)}


# Two moons: a fine grid.
a = np.linspace(-4, 4, 2001)
x = np.stack(np.meshgrid(a, a, indexing="ij"), -1).reshape(-1, 2)
log_p = -0.5 * ((np.hypot(x[:, 0], x[:, 1]) - 2) / 0.2) ** 2 + np.logaddexp(
    -0.5 * ((x[:, 0] - 2) / 0.3) ** 2, -0.5 * ((x[:, 0] + 2) / 0.3) ** 2)
mean, sd = moments(x, log_p)
truth["two_moons"] = record(["x.1", "x.2"], mean, sd, [0, 0])

# The Gaussian process: a grid over the logarithms of its three parameters.
rows = list(csv.DictReader(open(f"{folder}/gaussian_process.csv")))
t, y = (np.array([float(r[k]) for r in rows]) for k in "ty")
axes = [np.linspace(-2.5, 3.5, 90), np.linspace(-3.5, 2.5, 90), np.linspace(-3.2, 1.0, 90)]
apart = (t[:, None] - t[None, :]) ** 2
points, values = [], []
for u in axes[0]:
    for v in axes[1]:
        length, amplitude = np.exp(u), np.exp(v)
        eigen, vectors = np.linalg.eigh(amplitude**2 * np.exp(-0.5 * apart / length**2))
        z = (vectors.T @ y) ** 2
        for w in axes[2]:
            noise = np.exp(w)
            d = eigen + noise**2 + 1e-8
            prior = -2 / length - 3 * u - 0.5 * amplitude**2 - 2 * noise**2 + u + v + w
            points.append((length, amplitude, noise))
            values.append(prior - 0.5 * (z / d).sum() - 0.5 * np.log(d).sum())
mean, sd = moments(np.array(points), np.array(values))
truth["gaussian_process"] = record(["length", "amplitude", "noise"], mean, sd, [0, 0, 0])

import arviz
import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

jax.config.update("jax_enable_x64", True)


def schools():
    y = jnp.array([28.0, 8, -3, 7, -1, 1, 18, 12])
    sigma = jnp.array([15.0, 10, 16, 11, 9, 11, 10, 18])
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    eta = numpyro.sample("eta", dist.Normal(0, 1).expand([8]))
    numpyro.sample("y", dist.Normal(mu + tau * eta, sigma), obs=y)


def hierarchical():
    rows = list(csv.DictReader(open(f"{folder}/hierarchical.csv")))
    x = jnp.array([[float(v) for v in r.values()] for r in csv.DictReader(open(f"{folder}/hierarchical_x.csv"))])
    group, y = jnp.array([int(r["group"]) for r in rows]), jnp.array([int(r["y"]) for r in rows])
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([2]))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([8]))
    numpyro.sample("y", dist.Bernoulli(logits=mu + tau * z[group] + x @ beta), obs=y)


for name, model in (("schools", schools), ("hierarchical", hierarchical)):
    mcmc = MCMC(NUTS(model, target_accept_prob=0.95), num_warmup=2000, num_samples=50000, num_chains=4,
                chain_method="sequential", progress_bar=False)
    mcmc.run(jax.random.PRNGKey(1))
    truth[name] = {}
    for key, draws in mcmc.get_samples(group_by_chain=True).items():
        draws = np.asarray(draws)
        columns = {key: draws} if draws.ndim == 2 else {f"{key}.{i + 1}": draws[:, :, i] for i in range(draws.shape[2])}
        for column, values in columns.items():
            sd = values.std(ddof=1)
            truth[name].update(record([column], [values.mean()], [sd], [sd / np.sqrt(arviz.ess(values, method="mean"))]))
json.dump(truth, open(out, "w"), indent=1)
