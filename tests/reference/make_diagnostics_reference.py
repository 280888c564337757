"""Reference values of the convergence diagnostics, computed by the real ArviZ.

Run:      venv/bin/python make_diagnostics_reference.py [output.json]
Versions: Python 3.11, arviz 0.21.0, numpy 1.26.4, scipy 1.14.1
          (pandas 2.2.3, xarray 2024.11.0, matplotlib 3.9.4 only so that arviz imports)

The draws come from a tiny deterministic generator (splitmix64, uniforms on the
2^-53 grid, normals as a sum of 12 uniforms minus 6) which needs no libm, so any
language with IEEE doubles reproduces them bit for bit.  GENERATOR below is the
full specification and is copied into the JSON.
"""

import json
import math
import platform
import struct
import sys
import warnings

warnings.filterwarnings("ignore")

import arviz as az
import numpy as np
import scipy

MASK = (1 << 64) - 1

GENERATOR = [
    "All arithmetic is IEEE-754 binary64, round to nearest, each operation rounded on its own: "
    "NO fused multiply-add (gcc/clang: -ffp-contract=off), no -ffast-math.",
    "splitmix64, uint64 state s, initialised to the case's 'seed' (nothing is discarded): next(): "
    "s += 0x9E3779B97F4A7C15; x = s; x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9; "
    "x = (x ^ (x >> 27)) * 0x94D049BB133111EB; return x ^ (x >> 31)  (all modulo 2^64).",
    "uniform(): u = (double)(next() >> 11) * 2^-53, so u is in [0, 1).",
    "normal(): a = 0.0; repeat 12 times: a = a + uniform(); return a - 6.0.",
    "Order: ONE generator per case, seeded once; chain-major: all draws of chain 0 (the first chain), "
    "then all of chain 1, and so on, with the generator state carried on from chain to chain.",
    "kind 'iid': x[t] = normal().",
    "kind 'iid_shifted': as iid, then 'shift' is added to every draw of the LAST chain only "
    "(x[t] = normal() + shift).",
    "kind 'ar1': per chain x = 0.0; for i = 0 .. discard+draws-1: z = normal(); p = phi * x; x = p + z; "
    "the value is kept when i >= discard. (Innovations have unit sd; marginal sd is 1/sqrt(1-phi^2).)",
    "kind 'sticky': per chain, for t = 0 .. draws-1: u = uniform(); z = normal(); (both always drawn, in "
    "this order) x[t] = x[t-1] if (t > 0 and u < p_stay) else z.",
    "kind 'ratio': x[t] = a / b with a = normal() drawn first, then b = normal().",
    "kind 'constant': x[t] = value; no random numbers.",
    "PSIS cases: one generator per case; for i = 0 .. n-1: kind 'lw_normal': lw[i] = scale * normal(); "
    "kind 'lw_exponential': lw[i] = -log(uniform()) * scale (the only place with libm: log may differ in "
    "the last bit).",
    "checksum: XOR over all values, in order j = 0, 1, ... (chain-major index), of the 64-bit pattern of "
    "the double rotated left by (j mod 64) bits; written as 16 hex digits.",
]


class Generator:
    def __init__(self, seed):
        self.state = seed & MASK

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        x = self.state
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
        return x ^ (x >> 31)

    def uniform(self):
        return (self.next() >> 11) * 2.0**-53

    def normal(self):
        a = 0.0
        for _ in range(12):
            a += self.uniform()
        return a - 6.0


def make_chain(case, gen, chain):
    kind, draws = case["kind"], case["draws"]
    if kind == "iid":
        return [gen.normal() for _ in range(draws)]
    if kind == "iid_shifted":
        shift = case["shift"] if chain == case["chains"] - 1 else 0.0
        return [gen.normal() + shift for _ in range(draws)]
    if kind == "ar1":
        x, out = 0.0, []
        for i in range(case["discard"] + draws):
            x = case["phi"] * x + gen.normal()
            if i >= case["discard"]:
                out.append(x)
        return out
    if kind == "sticky":
        out = []
        for t in range(draws):
            u, z = gen.uniform(), gen.normal()
            out.append(out[-1] if t > 0 and u < case["p_stay"] else z)
        return out
    if kind == "ratio":
        out = []
        for _ in range(draws):
            a = gen.normal()
            out.append(a / gen.normal())
        return out
    if kind == "constant":
        return [case["value"]] * draws
    raise ValueError(kind)


def make_draws(case):
    gen = Generator(case["seed"])
    return np.array([make_chain(case, gen, c) for c in range(case["chains"])])


def make_log_weights(case):
    gen = Generator(case["seed"])
    if case["kind"] == "lw_normal":
        return np.array([case["scale"] * gen.normal() for _ in range(case["n"])])
    return np.array([-math.log(gen.uniform()) * case["scale"] for _ in range(case["n"])])


def checksum(values):
    acc = 0
    for j, v in enumerate(np.ravel(values)):
        (b,) = struct.unpack("<Q", struct.pack("<d", v))
        r = j % 64
        acc ^= ((b << r) | (b >> (64 - r))) & MASK
    return f"{acc:016x}"


def diagnostics(x):
    out = {
        "rhat_rank": az.rhat(x, method="rank"),
        "rhat_split": az.rhat(x, method="split"),
        "rhat_bulk": az.rhat(x, method="z_scale"),
        "rhat_folded": az.rhat(x, method="folded"),
        "ess_bulk": az.ess(x, method="bulk"),
        "ess_tail": az.ess(x, method="tail"),
        "ess_mean": az.ess(x, method="mean"),
        "ess_sd": az.ess(x, method="sd"),
        "ess_quantile_0.05": az.ess(x, method="quantile", prob=0.05),
        "ess_quantile_0.95": az.ess(x, method="quantile", prob=0.95),
        "mcse_mean": az.mcse(x, method="mean"),
        "mcse_sd": az.mcse(x, method="sd"),
        "mcse_quantile_0.05": az.mcse(x, method="quantile", prob=0.05),
        "mcse_quantile_0.95": az.mcse(x, method="quantile", prob=0.95),
    }
    return {k: number(v) for k, v in out.items()}


def number(v):
    """A float for the JSON (repr round-trips: at most 17 digits); NaN and inf become null."""
    v = float(v)
    return v if math.isfinite(v) else None


CASES = [
    dict(name="iid", kind="iid", chains=4, draws=1000, seed=1001),
    dict(name="ar1_phi0.9", kind="ar1", chains=4, draws=1000, seed=1002, phi=0.9, discard=100),
    dict(name="ar1_phi-0.5", kind="ar1", chains=4, draws=500, seed=1003, phi=-0.5, discard=100),
    dict(name="shifted_chain", kind="iid_shifted", chains=4, draws=400, seed=1004, shift=1.0),
    dict(name="sticky", kind="sticky", chains=4, draws=1000, seed=1005, p_stay=0.3),
    dict(name="odd_ar1_phi0.5", kind="ar1", chains=3, draws=333, seed=1006, phi=0.5, discard=100),
    dict(name="heavy_tailed_ratio", kind="ratio", chains=4, draws=1000, seed=1007),
    dict(name="one_chain_ar1_phi0.7", kind="ar1", chains=1, draws=1000, seed=1008, phi=0.7, discard=100),
    dict(name="constant", kind="constant", chains=4, draws=100, seed=1009, value=1.5),
]

PSIS_CASES = [
    dict(name=f"{label}_n{n}", kind=kind, n=n, seed=seed + (n == 5000) * 10, scale=scale)
    for label, kind, scale, seed in [
        ("normal_0.5", "lw_normal", 0.5, 2001),
        ("normal_2", "lw_normal", 2.0, 2002),
        ("exponential_0.9", "lw_exponential", 0.9, 2003),
    ]
    for n in (1000, 5000)
]


NOTES = [
    "Splitting an odd number of draws drops the middle draw of each chain.",
    "rhat_rank/rhat_folded take the median after splitting (middle draws already dropped); the quantiles of "
    "ess_quantile/ess_tail/mcse_quantile and the means of ess_sd/mcse_sd/mcse_mean use all draws, unsplit.",
    "rhat is NaN for fewer than 2 chains (ArviZ asks for 2 chains although splitting would make 2).",
    "Constant draws: ESS is chains*draws, mcse_mean and mcse_quantile are 0, rhat and mcse_sd are NaN (0/0).",
    "Quantiles are R type 7; the indicator is x <= quantile.",
    "ESS may exceed chains*draws; it is capped at S*log10(S) (S = split size), as in ar1_phi-0.5: ess_bulk = ess_mean.",
    "ess_sd is the ESS of (x - mean)^2 and mcse_sd = sqrt((m4 - m2^2) / ess_sd / m2) / 2 with 1/N moments. "
    "These two depend on the ArviZ release: 0.17.1 and 0.19.0 were run too and give other ess_sd and mcse_sd (and 0, "
    "not NaN, for the mcse_sd of the constant case); every other figure agrees, and 0.22.0 agrees in all.",
    "Folding an even number of draws at the median (a+b)/2 makes the two middle draws an exact tie here (average "
    "ranks); a median computed with another rounding would break that tie.",
    "Tolerance: replacing the FFT autocovariance by direct sums changed no figure by more than 2e-15 relative.",
]


def main(path):
    cases = []
    for case in CASES:
        x = make_draws(case)
        cases.append({
            **case,
            "first_5_draws_of_first_chain": [float(v) for v in x[0, :5]],
            "last_draw_of_last_chain": float(x[-1, -1]),
            "checksum": checksum(x),
            "expected": diagnostics(x),
        })
        print(case["name"], cases[-1]["expected"])

    psis = []
    for case in PSIS_CASES:
        lw = make_log_weights(case)
        smoothed, khat = az.psislw(lw, reff=1.0)
        psis.append({
            **case,
            "reff": 1.0,
            "first_5_log_weights": [float(v) for v in lw[:5]],
            "last_log_weight": float(lw[-1]),
            "checksum": checksum(lw) if case["kind"] == "lw_normal" else None,
            "expected": {
                "khat": number(khat),
                "smoothed_log_weights_first_5": [float(v) for v in smoothed[:5]],
                "smoothed_log_weights_max": float(smoothed.max()),
            },
        })
        print(case["name"], float(khat))

    result = {
        "made_by": "make_diagnostics_reference.py",
        "how": "Draws from the generator below, passed as numpy [chains, draws] arrays to az.rhat(method='rank'|"
               "'split'|'z_scale'|'folded'; rhat_bulk is z_scale, rhat_rank = max(rhat_bulk, rhat_folded)), "
               "az.ess(method='bulk'|'tail'|'mean'|'sd'|'quantile', prob=...), az.mcse(method='mean'|'sd'|"
               "'quantile', prob=...), and log weights to az.psislw(reff=1). Floats are written with the shortest "
               "repr that round-trips (at most 17 significant digits). null stands for NaN.",
        "versions": {
            "python": platform.python_version(),
            "arviz": az.__version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
        },
        "generator": GENERATOR,
        "notes": NOTES,
        "cases": cases,
        "psis_cases": psis,
    }
    with open(path, "w") as f:
        json.dump(result, f, indent=1, allow_nan=False)
        f.write("\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "diagnostics_reference.json")
