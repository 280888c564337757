# Eight schools (Rubin 1981), non-centred: theta = mu + tau * eta.
import torch
from torch import Tensor


def log_prob(x: Tensor, y: Tensor, sigma: Tensor) -> Tensor:
    mu, tau, eta = x[:, 0:1], x[:, 1:2], x[:, 2:]
    prior = -0.5 * (mu / 5).square().sum(1) - torch.log1p((tau / 5).square()).sum(1) - 0.5 * eta.square().sum(1)
    return prior - 0.5 * ((y - mu - tau * eta) / sigma).square().sum(1)
