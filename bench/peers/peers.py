"""hastings beside NUTS (NumPyro, BlackJAX) and flowMC, on the same targets, in one run; one table.

Each cell runs in a process of its own (cold start: imports are not counted, compilation is), is kept in a file and never
computed twice. ESS is ArviZ's bulk ESS, least over the coordinates, for all. Every program may use all cores it is given.
"""
import argparse, json, os, subprocess, sys, tempfile, time

DRAWS = {"nuts": 2000, "blackjax": 2000}
POSTERIORS = {"german": "german.data-numeric", "heart": "heart.dat", "australian": "australian.dat"}
TARGETS = ["ring", "mog2", "mog6", "ring5", *POSTERIORS]
METHODS = {"hastings": "hastings", "nuts": "NUTS (NumPyro)", "blackjax": "NUTS (BlackJAX)", "flowmc": "flowMC"}


def log_density(name, data):
    """The target's log density in JAX, and its dimension."""
    import jax.numpy as jnp
    import numpy as np

    if name == "ring":
        return lambda x: -((jnp.sqrt(jnp.sum(x**2) + 1e-12) - 2) ** 2) / 0.32, 2
    if name == "ring5":
        return lambda x: -jnp.min((jnp.sqrt(jnp.sum(x**2) + 1e-12) - jnp.arange(1.0, 6.0)) ** 2) / 0.04, 2
    if name in ("mog2", "mog6"):
        angle = np.arange(1, 7) * np.pi / 3
        means = np.array([[5.0, 0.0], [-5.0, 0.0]]) if name == "mog2" else 5 * np.c_[np.sin(angle), np.cos(angle)]
        from jax.scipy.special import logsumexp

        return lambda x: logsumexp(-jnp.sum((x - means) ** 2, -1) / 0.5), 2
    table = np.loadtxt(os.path.join(data, "uci", POSTERIORS[name]))
    y = (table[:, -1] == table[:, -1].max()).astype(float)
    x = table[:, :-1]
    x = np.c_[(x - x.mean(0)) / x.std(0), np.ones(len(x))]
    signed = jnp.array(x * (2 * y - 1)[:, None])
    return lambda t: -jnp.sum(jnp.logaddexp(0.0, -signed @ t)) - 0.5 * jnp.sum(t**2), x.shape[1]


def run_nuts(name, data, seed):
    import jax, numpyro
    from numpyro.infer import MCMC, NUTS

    numpyro.set_host_device_count(2)
    density, dim = log_density(name, data)
    mcmc = MCMC(NUTS(potential_fn=lambda x: -density(x)), num_warmup=1000, num_samples=DRAWS["nuts"], num_chains=4,
                chain_method="parallel" if jax.local_device_count() >= 4 else "vectorized", progress_bar=False)
    start = 2 * jax.random.normal(jax.random.PRNGKey(seed), (4, dim))
    begin = time.perf_counter()
    mcmc.warmup(jax.random.PRNGKey(seed + 1), init_params=start)
    jax.block_until_ready(mcmc.last_state.z)
    warm = time.perf_counter()
    mcmc.run(mcmc.post_warmup_state.rng_key)
    draws = jax.block_until_ready(mcmc.get_samples(group_by_chain=True))
    return draws, warm - begin, time.perf_counter() - warm


def run_blackjax(name, data, seed):
    import blackjax, jax

    density, dim = log_density(name, data)
    key = jax.random.PRNGKey(seed)
    start = 2 * jax.random.normal(key, (4, dim))

    def one(key, x):
        (state, parameters), _ = blackjax.window_adaptation(blackjax.nuts, density).run(key, x, num_steps=1000)
        return state, parameters

    begin = time.perf_counter()
    states, parameters = jax.block_until_ready(jax.jit(jax.vmap(one))(jax.random.split(key, 4), start))
    warm = time.perf_counter()

    def chain(key, state, parameters):
        kernel = blackjax.nuts(density, **parameters)

        def step(state, key):
            state, _ = kernel.step(key, state)
            return state, state.position

        return jax.lax.scan(step, state, jax.random.split(key, DRAWS["blackjax"]))[1]

    draws = jax.block_until_ready(jax.jit(jax.vmap(chain))(jax.random.split(jax.random.PRNGKey(seed + 1), 4), states, parameters))
    return draws, warm - begin, time.perf_counter() - warm


def run_flowmc(name, data, seed):
    import jax
    from flowMC.resource_strategy_bundle.RQSpline_MALA import RQSpline_MALA_Bundle
    from flowMC.Sampler import Sampler

    density, dim = log_density(name, data)
    chains = 20
    bundle = RQSpline_MALA_Bundle(jax.random.PRNGKey(seed), chains, dim, lambda x, _: density(x), n_local_steps=50, n_global_steps=50,
                                  n_training_loops=20, n_production_loops=20, n_epochs=20)
    sampler = Sampler(n_dim=dim, n_chains=chains, rng_key=jax.random.PRNGKey(seed + 1), resource_strategy_bundles=bundle, checkpoint_interval=0)
    moment = {}
    inner = sampler.strategies["reset_steppers"]

    class Watch:
        def __call__(self, *a, **k):
            moment["trained"] = time.perf_counter()
            return inner(*a, **k)

        def __getattr__(self, field):
            return getattr(inner, field)

    sampler.strategies["reset_steppers"] = Watch()
    start = 2 * jax.random.normal(jax.random.PRNGKey(seed + 2), (chains, dim))
    begin = time.perf_counter()
    sampler.sample(start, {})
    draws = jax.block_until_ready(sampler.resources["positions_production"].data)
    end = time.perf_counter()
    return draws, moment["trained"] - begin, end - moment["trained"]


def run_hastings(name, data, seed, program):
    import numpy as np

    target = name if name not in POSTERIORS else "logistic:" + os.path.join(data, "uci", POSTERIORS[name])
    with tempfile.TemporaryDirectory() as folder:
        out = subprocess.run([program, "sample", target, "--output", folder + "/run", "--seed", str(seed), "--draws", "5000", "--json", "-q"],
                             check=True, capture_output=True, text=True)
        summary = json.loads(out.stdout)
        return np.load(folder + "/run/draws.npz")["draws"], summary["learn_seconds"], summary["sample_seconds"]


def truth_of(name, reference):
    import numpy as np

    if name in POSTERIORS:
        entry = json.load(open(reference))["datasets"][name]
        return np.array(entry["mean"]), np.array(entry["sd"])
    sd = {"ring": [1.4967] * 2, "mog2": [(25 + 0.25) ** 0.5, 0.5], "mog6": [(12.5 + 0.25) ** 0.5] * 2}.get(name)
    if name == "ring5":
        return np.array([3.673]), np.array([1.252])  # of the radius
    return np.zeros(2), np.array(sd)


def mode_error(name, x):
    """Largest error of the weight of a mode or ring."""
    import numpy as np

    flat = x.reshape(-1, x.shape[-1])
    if name == "ring5":
        ring = np.clip(np.rint(np.linalg.norm(flat, axis=1)), 1, 5).astype(int) - 1
        return float(np.abs(np.bincount(ring, minlength=5) / len(ring) - np.arange(1, 6) / 15).max())
    if name == "mog2":
        return float(abs((flat[:, 0] > 0).mean() - 0.5))
    if name == "mog6":
        angle = np.arange(1, 7) * np.pi / 3
        means = 5 * np.c_[np.sin(angle), np.cos(angle)]
        near = ((flat[:, None, :] - means) ** 2).sum(-1).argmin(1)
        return float(np.abs(np.bincount(near, minlength=6) / len(near) - 1 / 6).max())
    return None


def cell(args):
    import arviz, numpy as np

    runs = {"nuts": run_nuts, "blackjax": run_blackjax, "flowmc": run_flowmc}
    if args.method == "hastings":
        draws, warm, sampling = run_hastings(args.target, args.data, args.seed, args.hastings)
    else:
        draws, warm, sampling = runs[args.method](args.target, args.data, args.seed)
    draws = np.asarray(draws, dtype=float)
    statistics = np.linalg.norm(draws, axis=-1, keepdims=True) if args.target == "ring5" else draws
    ess = min(float(arviz.ess(statistics[..., j], method="bulk")) for j in range(statistics.shape[-1]))
    rhat = max(float(arviz.rhat(statistics[..., j])) for j in range(statistics.shape[-1]))
    mean, sd = truth_of(args.target, args.reference)
    flat = statistics.reshape(-1, statistics.shape[-1])
    return {"target": args.target, "method": args.method, "warm_seconds": warm, "sample_seconds": sampling, "draws": int(np.prod(draws.shape[:2])),
            "ess": ess, "ess_per_second": ess / sampling, "cold_start": warm + 5000 * sampling / ess, "rhat": rhat,
            "mode_error": mode_error(args.target, draws), "mean_error": float((np.abs(flat.mean(0) - mean) / sd).max()),
            "sd_error": float(np.abs(flat.std(0) / sd - 1).max())}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hastings", default="build/hastings")
    parser.add_argument("--data", default=os.environ.get("HASTINGS_TEST_DATA", ""))
    parser.add_argument("--reference", default="tests/reference/posterior_truth.json")
    parser.add_argument("--output", default="build-bench/peers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target")
    parser.add_argument("--method")
    parser.add_argument("--cell", action="store_true")
    args = parser.parse_args()
    if args.cell:
        print(json.dumps(cell(args)))
        return
    os.makedirs(args.output, exist_ok=True)
    lines = ["| target | method | learn or warm up, s | ESS/s | cold start to 5,000 ESS, s | R-hat | error of mode weights | error of mean / sd | error of sd, relative |",
             "|---|---|---|---|---|---|---|---|---|"]
    for target in TARGETS:
        if args.target not in (None, target) or (target in POSTERIORS and not os.path.isdir(os.path.join(args.data, "uci"))):
            continue
        for method in METHODS:
            if args.method not in (None, method):
                continue
            path = os.path.join(args.output, f"{target}-{method}-{args.seed}.json")
            if not os.path.exists(path):
                command = [sys.executable, __file__, "--cell", "--target", target, "--method", method]
                for option in ("hastings", "data", "reference", "seed"):
                    command += ["--" + option, str(getattr(args, option))]
                print(f"{target} by {method} ...", file=sys.stderr, flush=True)
                done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu"})
                if done.returncode != 0:
                    print(f"{target} by {method} failed: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
                    continue
                with open(path + ".tmp", "w") as file:
                    file.write(done.stdout.strip().splitlines()[-1] + "\n")
                os.rename(path + ".tmp", path)
            c = json.load(open(path))
            error = "" if c["mode_error"] is None else f"{c['mode_error']:.3f}"
            lines.append(f"| {target} | {METHODS[method]} | {c['warm_seconds']:.1f} | {c['ess_per_second']:.0f} | {c['cold_start']:.1f} | {c['rhat']:.3f} | {error} | {c['mean_error']:.3f} | {c['sd_error']:.3f} |")
    table = "\n".join(lines) + "\n"
    open(os.path.join(args.output, "peers.md"), "w").write(table)
    print(table)


main()
