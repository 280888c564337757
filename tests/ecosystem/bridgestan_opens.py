"""A Stan model that hastings compiled, in the hands of BridgeStan's own client; against the density written out here."""
import math
import sys

import bridgestan
import numpy

library, data = sys.argv[1], sys.argv[2]
y = numpy.array([1.0, 2.5, 0.5])  # as in the data


def density(u):
    mu, sigma = u[0], math.exp(u[1])
    value = -0.5 * mu**2 - 0.5 * math.log(2 * math.pi)  # mu ~ normal(0, 1)
    value += -sigma  # sigma ~ exponential(1)
    value += numpy.sum(-0.5 * ((y - mu) / sigma) ** 2) - len(y) * (u[1] + 0.5 * math.log(2 * math.pi))
    return value + u[1]  # log Jacobian


def gradient(u):
    mu, sigma = u[0], math.exp(u[1])
    r = (y - mu) / sigma
    return numpy.array([-mu + numpy.sum(r) / sigma, -sigma + numpy.sum(r**2) - len(y) + 1])


def hessian(u):
    mu, sigma = u[0], math.exp(u[1])
    r = (y - mu) / sigma
    mixed = -2 * numpy.sum(r) / sigma
    return numpy.array([[-1 - len(y) / sigma**2, mixed], [mixed, -sigma - 2 * numpy.sum(r**2)]])


model = bridgestan.StanModel(library, data, seed=1, capture_stan_prints=False)
u = numpy.array([0.3, -0.4])
checks = {
    "version": model.model_version()[0] == 2,
    "names": model.param_names(include_tp=True, include_gq=True) == ["mu", "sigma", "twice", "again"],
    "unconstrained names": model.param_unc_names() == ["mu", "sigma"],
    "density": abs(model.log_density(u, propto=False) - density(u)) < 1e-12,
    "gradient": numpy.allclose(model.log_density_gradient(u, propto=False)[1], gradient(u), atol=1e-12),
    "proportional": abs(
        (model.log_density(u) - model.log_density(-u)) - (density(u) - density(-u))) < 1e-12,
    "Hessian": numpy.allclose(model.log_density_hessian(u)[2], hessian(u), atol=1e-7),
    "Hessian times vector": numpy.allclose(
        model.log_density_hessian_vector_product(u, numpy.array([1.0, 2.0]))[1], hessian(u) @ [1, 2], atol=1e-7),
    "constrained": numpy.allclose(
        model.param_constrain(u, include_tp=True), [0.3, math.exp(-0.4), 2 * math.exp(-0.4)], atol=1e-14),
    "unconstrained": numpy.allclose(model.param_unconstrain(numpy.array([0.3, math.exp(-0.4)])), u, atol=1e-14),
    "unconstrained from JSON": numpy.allclose(model.param_unconstrain_json('{"mu": 0.3, "sigma": 1}'), [0.3, 0]),
}
generator = model.new_rng(4)
draws = [model.param_constrain(u, include_gq=True, rng=generator)[-1] for _ in range(4000)]
error = abs(numpy.mean(draws) - u[0]) / (math.exp(u[1]) / math.sqrt(4000))
checks["generated quantities"] = error < 4.5
try:
    bridgestan.StanModel(library, '{"N": 3}')
    checks["missing data"] = False
except RuntimeError as problem:
    checks["missing data"] = "y" in str(problem)
wrong = [name for name, right in checks.items() if not right]
if wrong:
    sys.exit(f"FAILED: BridgeStan's client and a model compiled here differ in: {', '.join(wrong)}")
print(f"ok: BridgeStan's client agrees with a model compiled here ({len(checks)} checks)")
