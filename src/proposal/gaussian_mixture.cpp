#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

#include "hastings/proposal/proposal.h"

namespace hastings {

Tensor GaussianMixture::log_joint(const Tensor& x) const {
  const double constant = -0.5 * static_cast<double>(dim()) * std::log(2 * std::numbers::pi);
  std::vector<Tensor> columns;
  for (int64_t k = 0; k < components(); ++k) {
    const Tensor factor = factors[k];
    const Tensor inverse = at::linalg_solve_triangular(factor, at::eye(dim(), at::kDouble), /*upper=*/false);
    const Tensor z = at::matmul(x - means[k], inverse.t());
    columns.push_back(z.square().sum(-1) * -0.5 - factor.diagonal().log().sum() + log_weights[k] + constant);
  }
  return at::stack(columns, 1);
}

Tensor GaussianMixture::log_prob(const Tensor& x) const {
  const Tensor joint = log_joint(x);
  return components() == 1 ? joint.select(1, 0) : at::logsumexp(joint, {1});
}

Tensor GaussianMixture::gradient(const Tensor& x) const {
  const Tensor responsibility = at::softmax(log_joint(x), 1);
  Tensor sum = at::zeros_like(x);
  for (int64_t k = 0; k < components(); ++k) {
    const Tensor inverse = at::linalg_solve_triangular(factors[k], at::eye(dim(), at::kDouble), /*upper=*/false);
    const Tensor pull = at::matmul(at::matmul(x - means[k], inverse.t()), inverse);  // precision (x - m)
    sum.sub_(pull * responsibility.narrow(1, k, 1));
  }
  return sum;
}

Tensor GaussianMixture::from_noise(const Tensor& noise) const {
  const Tensor z = noise.narrow(1, 0, dim());
  if (components() == 1) return at::addmm(means[0], z, factors[0].t());
  const Tensor u = 0.5 * at::erfc(noise.select(1, dim()) * -std::sqrt(0.5));
  const Tensor edges = log_weights.exp().cumsum(0);
  const Tensor k = at::searchsorted(edges, u.contiguous(), false, /*right=*/true).clamp_max(components() - 1);
  const Tensor turned = at::matmul(factors.index_select(0, k), z.unsqueeze(2)).squeeze(2);
  return means.index_select(0, k) + turned;
}

GaussianMixture GaussianMixture::standard(int64_t dim) {
  return {at::zeros({1}, at::kDouble), at::zeros({1, dim}, at::kDouble), at::eye(dim, at::kDouble).unsqueeze(0)};
}

namespace {

class MixtureProposal final : public Proposal {
 public:
  explicit MixtureProposal(GaussianMixture mixture) : mixture_(std::move(mixture)) {}
  int64_t dim() const override { return mixture_.dim(); }
  int64_t noise_dim() const override { return mixture_.dim() + 1; }
  Draws from_noise(const Tensor& noise) const override {
    const Tensor x = mixture_.from_noise(noise);
    return {x, mixture_.log_prob(x)};
  }
  Tensor log_prob(const Tensor& x) const override { return mixture_.log_prob(x); }
  std::map<std::string, Tensor> state() const override {
    return {{"log_weights", mixture_.log_weights}, {"means", mixture_.means}, {"factors", mixture_.factors}};
  }
  void load(const std::map<std::string, Tensor>& state) override {
    mixture_ = {state.at("log_weights"), state.at("means"), state.at("factors")};
  }

 private:
  GaussianMixture mixture_;
};

}  // namespace

std::unique_ptr<Proposal> make_mixture_proposal(const GaussianMixture& mixture) {
  return std::make_unique<MixtureProposal>(mixture);
}

}  // namespace hastings
