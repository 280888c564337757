// An independent proposal: draws x together with log q(x), and log q of any point. log q is never optional.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hastings/core/random.h"
#include "hastings/core/tensor.h"

namespace hastings {

struct Draws {
  Tensor x;      // [n, dim] double
  Tensor log_q;  // [n] double
};

class Proposal {
 public:
  virtual ~Proposal() = default;
  virtual int64_t dim() const = 0;

  // Draws are a deterministic function of standard normal noise [n, noise_dim()].
  virtual int64_t noise_dim() const { return dim(); }
  virtual Draws from_noise(const Tensor& noise) const = 0;
  virtual Tensor log_prob(const Tensor& x) const = 0;  // [n, dim] double -> [n] double

  // Every number of it, by name.
  virtual std::map<std::string, Tensor> state() const = 0;
  virtual void load(const std::map<std::string, Tensor>& state) = 0;

  Draws sample(int64_t n, Stream& stream) const { return from_noise(stream.normal({n, noise_dim()})); }
};

// A mixture of Gaussians with fixed components; one component of mean 0 and factor I is the usual base.
struct GaussianMixture {
  Tensor log_weights;  // [components]
  Tensor means;        // [components, dim]
  Tensor factors;      // [components, dim, dim], lower triangular

  int64_t components() const { return means.size(0); }
  int64_t dim() const { return means.size(1); }
  Tensor log_prob(const Tensor& x) const;        // [n]
  Tensor log_joint(const Tensor& x) const;       // [n, components]: log weight + log density
  Tensor gradient(const Tensor& x) const;        // [n, dim] of log_prob
  Tensor from_noise(const Tensor& noise) const;  // [n, dim + 1] -> [n, dim]; the last column picks the component

  static GaussianMixture standard(int64_t dim);
};

// The mixture as a proposal of its own.
std::unique_ptr<Proposal> make_mixture_proposal(const GaussianMixture& mixture);

}  // namespace hastings
