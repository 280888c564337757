# Regression with a Gaussian process: length scale, amplitude and noise of a squared-exponential kernel.
import torch
from torch import Tensor


def log_prob(x: Tensor, t: Tensor, y: Tensor) -> Tensor:
    length, amplitude, noise = x[:, 0], x[:, 1], x[:, 2]
    prior = -2 / length - 3 * torch.log(length) - 0.5 * amplitude.square() - 2 * noise.square()
    apart = (t.unsqueeze(0) - t.unsqueeze(1)).square()
    kernel = amplitude.square().view(-1, 1, 1) * torch.exp(-0.5 * apart / length.square().view(-1, 1, 1))
    identity = torch.eye(t.size(0), dtype=x.dtype)
    covariance = kernel + (noise.square() + 1e-8).view(-1, 1, 1) * identity
    factor = torch.linalg_cholesky_ex(covariance)[0]
    white = torch.linalg_solve_triangular(factor, y.unsqueeze(1).expand(x.size(0), -1, 1), upper=False)
    return prior - 0.5 * white.square().sum([1, 2]) - torch.log(torch.diagonal(factor, 0, 1, 2)).sum(1)
