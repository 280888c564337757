"""Posterior truth for Bayesian logistic regression on three UCI data sets.

Run:      OMP_NUM_THREADS=1 XLA_FLAGS=--xla_cpu_multi_thread_eigen=false \
          taskset -c 1 venv/bin/python make_posterior_truth.py [output.json]
Versions: Python 3.11, numpy 1.26.4, scipy 1.14.1; cross-check: jax 0.4.38, numpyro 0.16.1, arviz 0.21.0

Model: y_i ~ Bernoulli(sigmoid(x_i . theta)), theta ~ N(0, I) on the weights and the
bias.  Columns standardised with the population sd, a column of ones is the LAST one.

Method 1 (the numbers): self-normalised importance sampling, double precision, from a
mixture of multivariate t's.  Its centre and scale come from a pilot run that started at the Laplace
mode; the main run uses fresh antithetic pairs.  Standard errors are delta-method ones
over independent batches, so they account for the antithetic pairs.
Method 2 (cross-check): NUTS (numpyro, float64), 4 chains, and for log Z the
Meng-Wong bridge estimator with the NUTS draws and fresh proposal draws.
"""

import json
import platform
import sys
import time

import numpy as np
import scipy
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.special import gammaln, logsumexp

DATA = os.environ.get("HASTINGS_TEST_DATA", "data") + "/uci/"
DATASETS = {
    "german": ("german.data-numeric", lambda c: c == 2),
    "heart": ("heart.dat", lambda c: c == 2),
    "australian": ("australian.dat", lambda c: c == 1),
}
PILOT_DRAWS = 2**19
MAIN_DRAWS = 2**24
BATCH = 2**13
NU_GRID = (8, 15, 30, 60)
WIDE, INFLATE = 0.2, 3.0
NUTS_WARMUP, NUTS_DRAWS, NUTS_CHAINS = 2000, 50000, 4


def load(name):
    file, positive = DATASETS[name]
    raw = np.loadtxt(DATA + file)
    x, y = raw[:, :-1], positive(raw[:, -1]).astype(float)
    assert (x.std(axis=0) > 0).all() and not np.isnan(raw).any()
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    return np.column_stack([x, np.ones(len(y))]), y


class Posterior:
    def __init__(self, x, y):
        self.x, self.y, self.d = x, y, x.shape[1]
        self.signed_t = np.ascontiguousarray((x * (2 * y - 1)[:, None]).T)

    def log_density(self, theta):
        """log likelihood + normalised log prior, theta of shape [n, d]."""
        m = theta @ self.signed_t
        np.negative(m, out=m)
        assert m.max() < 700
        np.exp(m, out=m)
        m += 1.0
        np.log(m, out=m)
        prior = -0.5 * np.einsum("ij,ij->i", theta, theta) - 0.5 * self.d * np.log(2 * np.pi)
        return prior - m.sum(axis=1)

    def laplace(self):
        """Newton iterations; returns mode, covariance and the Laplace log evidence."""
        theta = np.zeros(self.d)
        for _ in range(50):
            p = 1 / (1 + np.exp(-self.x @ theta))
            grad = self.x.T @ (self.y - p) - theta
            hess = (self.x * (p * (1 - p))[:, None]).T @ self.x + np.eye(self.d)
            step = cho_solve(cho_factor(hess), grad)
            theta = theta + step
        assert np.abs(step).max() < 1e-12
        cov = np.linalg.inv(hess)
        logz = (self.log_density(theta[None])[0] + 0.5 * self.d * np.log(2 * np.pi)
                - 0.5 * np.linalg.slogdet(hess)[1])
        return theta, cov, logz


class Proposal:
    """Mixture of multivariate t's, symmetric about the centre.

    With probability 1 - WIDE the scale matrix is S; otherwise it is S + INFLATE * v v' with
    v = S e_j / sqrt(S_jj) for a random coordinate j, which widens coordinate j by
    sqrt(1 + INFLATE) and covers posteriors with one skewed coordinate (german).
    """

    def __init__(self, centre, scale, nu):
        self.centre, self.nu, self.d = centre, nu, len(centre)
        self.chol = np.linalg.cholesky(scale)
        self.sd = np.sqrt(np.diag(scale))
        self.directions = scale / self.sd[:, None]
        self.const = (gammaln((nu + self.d) / 2) - gammaln(nu / 2) - 0.5 * self.d * np.log(nu * np.pi)
                      - np.log(np.diag(self.chol)).sum())

    def _log_density(self, off, r2):
        power = -0.5 * (self.nu + self.d)
        u2 = (off / self.sd) ** 2
        wide = np.exp(power * np.log1p((r2[:, None] - u2 * (INFLATE / (1 + INFLATE))) / self.nu)
                      - power * np.log1p(r2 / self.nu)[:, None]).mean(axis=1) / np.sqrt(1 + INFLATE)
        return self.const + power * np.log1p(r2 / self.nu) + np.log((1 - WIDE) + WIDE * wide)

    def _whiten(self, off):
        return solve_triangular(self.chol, off.T, lower=True)

    def offsets(self, rng, n):
        """n offsets from the centre with their log densities (the same for +offset and -offset)."""
        off = rng.standard_normal((n, self.d)) @ self.chol.T
        j = rng.integers(self.d, size=n)
        extra = np.sqrt(INFLATE) * rng.standard_normal(n) * (rng.random(n) < WIDE)
        off += extra[:, None] * self.directions[j]
        off /= np.sqrt(rng.chisquare(self.nu, n) / self.nu)[:, None]
        return off, self._log_density(off, (self._whiten(off) ** 2).sum(axis=0))

    def log_density(self, theta):
        off = theta - self.centre
        return self._log_density(off, (self._whiten(off) ** 2).sum(axis=0))


def plain_sample(post, q, rng, n):
    """Antithetic draws and log weights kept in memory (pilot runs)."""
    thetas, lws = [], []
    for _ in range(n // BATCH):
        off, logq = q.offsets(rng, BATCH // 2)
        theta = np.concatenate([q.centre + off, q.centre - off])
        thetas.append(theta)
        lws.append(post.log_density(theta) - np.tile(logq, 2))
    return np.concatenate(thetas), np.concatenate(lws)


def fit_proposal(post, rng):
    """Laplace -> t at the mode -> t at the pilot mean with the pilot covariance, nu by pilot ESS."""
    mode, cov, laplace_logz = post.laplace()
    theta, lw = plain_sample(post, Proposal(mode, cov, 30), rng, PILOT_DRAWS)
    w = np.exp(lw - logsumexp(lw))
    mean = w @ theta
    cov = (theta - mean).T @ ((theta - mean) * w[:, None])
    best = None
    for nu in NU_GRID:
        q = Proposal(mean, cov * (nu - 2) / nu, nu)
        _, lw = plain_sample(post, q, rng, PILOT_DRAWS // 8)
        eff = np.exp(2 * logsumexp(lw) - logsumexp(2 * lw)) / len(lw)
        if best is None or eff > best[0]:
            best = (eff, nu, q)
    return best[2], mode, laplace_logz


def importance_sampling(post, q, rng):
    import arviz as az

    d, nb = post.d, MAIN_DRAWS // BATCH
    s0, s1, s2, lws = np.empty(nb), np.empty((nb, d)), np.empty((nb, d)), np.empty((nb, BATCH))
    ref = post.log_density(q.centre[None])[0] - q.log_density(q.centre[None])[0]
    for b in range(nb):
        off, logq = q.offsets(rng, BATCH // 2)
        off = np.concatenate([off, -off])
        lw = post.log_density(q.centre + off) - np.tile(logq, 2) - ref
        w = np.exp(lw)
        s0[b], s1[b], s2[b] = w.sum(), w @ off, w @ off**2
        lws[b] = lw
    w0 = s0.sum()
    m1, m2 = s1.sum(axis=0) / w0, s2.sum(axis=0) / w0
    var = m2 - m1**2
    sd = np.sqrt(var)
    # influence functions summed per batch (batches are independent, their sums average to zero)
    inf_mean = (s1 - s0[:, None] * m1) / w0
    inf_var = (s2 - 2 * m1 * s1 + s0[:, None] * (m1**2 - var)) / w0
    scale = nb / (nb - 1)
    mcse_mean = np.sqrt(scale * (inf_mean**2).sum(axis=0))
    mcse_sd = np.sqrt(scale * (inf_var**2).sum(axis=0)) / (2 * sd)
    return dict(
        mean=q.centre + m1, sd=sd, mcse_mean=mcse_mean, mcse_sd=mcse_sd,
        log_z=ref + np.log(w0 / MAIN_DRAWS), mcse_log_z=s0.std(ddof=1) / np.sqrt(nb) / s0.mean(),
        weight_ess=w0**2 / np.exp(2 * lws).sum(), max_weight_over_mean_weight=np.exp(lws.max()) / w0 * MAIN_DRAWS,
        pareto_khat_of_weights=float(az.psislw(lws.ravel())[1]))


def nuts(post, start, seed):
    import jax
    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    from numpyro.infer import MCMC, NUTS

    signed = jnp.asarray(post.signed_t.T)

    def potential(theta):
        return jnp.logaddexp(0.0, -signed @ theta).sum() + 0.5 * theta @ theta

    kernel = NUTS(potential_fn=potential, dense_mass=True, target_accept_prob=0.8)
    mcmc = MCMC(kernel, num_warmup=NUTS_WARMUP, num_samples=NUTS_DRAWS, num_chains=NUTS_CHAINS,
                chain_method="sequential", progress_bar=False)
    rng = np.random.default_rng(seed)
    init = jnp.asarray(start + 0.2 * rng.standard_normal((NUTS_CHAINS, post.d)))
    mcmc.run(jax.random.PRNGKey(seed), init_params=init, extra_fields=("diverging", "num_steps"))
    extra = mcmc.get_extra_fields()
    return (np.asarray(mcmc.get_samples(group_by_chain=True), dtype=float),
            int(np.asarray(extra["diverging"]).sum()), float(np.asarray(extra["num_steps"]).mean()))


def bridge(post, q, draws, ess, rng):
    """Meng-Wong optimal bridge between q and the posterior; standard error of Fruehwirth-Schnatter."""
    n1 = len(draws)
    lp = np.concatenate([post.log_density(c) for c in np.array_split(draws, max(1, n1 // BATCH))])
    l1 = lp - q.log_density(draws)
    off, logq = q.offsets(rng, n1)
    l2 = np.concatenate([post.log_density(q.centre + c) for c in np.array_split(off, max(1, n1 // BATCH))]) - logq
    s1, s2 = ess / (ess + n1), n1 / (ess + n1)
    logz = np.median(l2)
    for _ in range(1000):
        num = logsumexp(l2 - np.logaddexp(np.log(s1) + l2, np.log(s2) + logz)) - np.log(n1)
        den = logsumexp(-np.logaddexp(np.log(s1) + l1, np.log(s2) + logz)) - np.log(n1)
        new = num - den
        if abs(new - logz) < 1e-13 * abs(new):
            break
        logz = new
    f2 = np.exp(l2 - logz - np.logaddexp(np.log(s1) + l2 - logz, np.log(s2)))
    f1 = np.exp(-np.logaddexp(np.log(s1) + l1 - logz, np.log(s2)))
    se = np.sqrt(f2.var() / f2.mean()**2 / n1 + f1.var() / f1.mean()**2 / ess)
    return new, se


def cross_check(post, q, mode, truth, seed):
    import arviz as az

    draws, divergences, steps = nuts(post, mode, seed)
    flat = draws.reshape(-1, post.d)
    mean, sd = flat.mean(axis=0), flat.std(axis=0, ddof=1)
    col = lambda f: np.array([float(f(np.ascontiguousarray(draws[:, :, j]))) for j in range(post.d)])
    ess = col(lambda a: az.ess(a, method="mean"))
    se_mean, se_sd = col(lambda a: az.mcse(a, method="mean")), col(lambda a: az.mcse(a, method="sd"))
    z_mean = (mean - truth["mean"]) / np.hypot(se_mean, truth["mcse_mean"])
    z_sd = (sd - truth["sd"]) / np.hypot(se_sd, truth["mcse_sd"])
    ess_bulk_min = float(col(lambda a: az.ess(a, method="bulk")).min())
    bz, bz_se = bridge(post, q, flat, min(ess_bulk_min, len(flat)), np.random.default_rng(seed + 1))
    return dict(
        method=f"numpyro NUTS float64, dense mass, {NUTS_CHAINS} chains x {NUTS_DRAWS} draws "
               f"after {NUTS_WARMUP} warmup; log Z by Meng-Wong bridge sampling",
        divergences=divergences, mean_leapfrog_steps=steps,
        max_rhat=float(col(lambda a: az.rhat(a)).max()), min_ess_bulk=ess_bulk_min, min_ess_mean=float(ess.min()),
        mean=mean, sd=sd, mcse_mean=se_mean, mcse_sd=se_sd,
        max_abs_difference_mean_in_standard_errors=float(np.abs(z_mean).max()),
        max_abs_difference_sd_in_standard_errors=float(np.abs(z_sd).max()),
        chi2_mean_per_coordinate=float((z_mean**2).mean()), chi2_sd_per_coordinate=float((z_sd**2).mean()),
        max_abs_difference_mean_in_posterior_sds=float(np.abs((mean - truth["mean"]) / truth["sd"]).max()),
        max_relative_difference_sd=float(np.abs(sd / truth["sd"] - 1).max()),
        log_z_bridge=bz, mcse_log_z_bridge=bz_se,
        log_z_difference_in_standard_errors=float((bz - truth["log_z"]) / np.hypot(bz_se, truth["mcse_log_z"])))


def main(path):
    import arviz, jax, numpyro

    result = {
        "made_by": "make_posterior_truth.py",
        "model": "y ~ Bernoulli(sigmoid(X theta)), theta ~ N(0, I) incl. bias; columns (x - mean)/population sd, "
                 "column of ones LAST; labels: german and heart class 2 -> 1, australian class 1 -> 1",
        "log_z": "natural log of the marginal likelihood, integral of prod p(y|x,theta) N(theta|0,I) dtheta "
                 "(prior normalised)",
        "method": "self-normalised importance sampling, mixture of multivariate t's centred at the pilot mean "
                  "with the pilot posterior covariance (a fifth of the draws widened twofold along one random coordinate),"
                  f" {MAIN_DRAWS} draws in antithetic pairs, float64; sd is the posterior standard "
                  f"deviation; mcse by the delta method over {MAIN_DRAWS // BATCH} independent batches",
        "versions": {"python": platform.python_version(), "numpy": np.__version__, "scipy": scipy.__version__,
                     "jax": jax.__version__, "numpyro": numpyro.__version__, "arviz": arviz.__version__},
        "datasets": {},
    }
    as_lists = lambda d: {k: v.tolist() if isinstance(v, (np.ndarray, np.generic)) else v for k, v in d.items()}
    for i, name in enumerate(DATASETS):
        t0 = time.time()
        post = Posterior(*load(name))
        seed = 20240 + 100 * i
        q, mode, laplace_logz = fit_proposal(post, np.random.default_rng(seed))
        truth = importance_sampling(post, q, np.random.default_rng(seed + 1))
        t1 = time.time()
        check = cross_check(post, q, mode, truth, seed + 2)
        ratio_mean, ratio_sd = truth["mcse_mean"] / truth["sd"], truth["mcse_sd"] / truth["sd"]
        assert ratio_mean.max() <= 0.001 and ratio_sd.max() <= 0.002
        result["datasets"][name] = {
            "file": DATASETS[name][0], "rows": len(post.y), "dim": post.d, "positives": int(post.y.sum()),
            **as_lists(truth),
            "max_mcse_mean_in_posterior_sds": float(ratio_mean.max()),
            "max_relative_mcse_sd": float(ratio_sd.max()),
            "proposal_nu": q.nu, "seed": seed, "draws": MAIN_DRAWS,
            "laplace_mode": mode.tolist(), "laplace_log_z": float(laplace_logz),
            "cross_check": as_lists(check),
        }
        print(name, f"n={len(post.y)} d={post.d} nu={q.nu} ESS/N={truth['weight_ess'] / MAIN_DRAWS:.3f} "
              f"max w/mean w {truth['max_weight_over_mean_weight']:.0f} khat {truth['pareto_khat_of_weights']:.2f} "
              f"mcse mean/sd {ratio_mean.max():.2e} sd {ratio_sd.max():.2e} "
              f"log Z {truth['log_z']:.6f} +- {truth['mcse_log_z']:.1e} (Laplace {laplace_logz:.4f}) "
              f"IS {t1 - t0:.0f}s NUTS {time.time() - t1:.0f}s")
        print("  check", {k: v for k, v in check.items() if np.isscalar(v) and not isinstance(v, str)}, flush=True)
        with open(path, "w") as f:
            json.dump(result, f, indent=1, allow_nan=False)
            f.write("\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "posterior_truth.json")
