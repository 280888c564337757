# Logistic regression with an intercept for every group: logit P(y = 1) = mu + tau z[group] + x beta.
import torch
from torch import Tensor


def log_prob(p: Tensor, x: Tensor, group: Tensor, y: Tensor) -> Tensor:
    mu, tau, beta, z = p[:, 0:1], p[:, 1:2], p[:, 2:4], p[:, 4:]
    prior = -0.5 * (mu / 2).square().sum(1) - 0.5 * tau.square().sum(1) - 0.5 * beta.square().sum(1) \
        - 0.5 * z.square().sum(1)
    logit = mu + tau * z[:, group] + beta @ x.t()
    return prior + torch.log_sigmoid(logit * (2 * y - 1)).sum(1)
