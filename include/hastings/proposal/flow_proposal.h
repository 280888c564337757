// The proposals hastings learns: base -> flow -> whitening. The flow is in float or double and works on numbers of
// order one; the whitening, fixed by the start, is in double and carries the target's location and scale.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "hastings/flow/layers.h"
#include "hastings/proposal/proposal.h"

namespace hastings {

// The architecture. Everything a stored proposal needs to be built again, but for its numbers. Fields left at their
// defaults here are filled in by resolved().
struct FlowSpec {
  std::string family = "auto";      // auto | spline | bend | coupling | realnvp | gaussian | gaussian-diagonal
  int64_t couplings = 0;            // 0: by family
  std::vector<int64_t> hidden;      // empty: by family
  std::string activation;           // relu | tanh | silu; empty: by family
  int64_t bins = 32;                // of the coupling splines
  double bound = 5.0;               // the splines are the identity beyond this many whitened units
  int64_t radial_bins = -1;         // 0: no radial layer; -1: by family
  double max_log_scale = 0;         // of affine couplings, each; 0: by family
  bool rotations = true;            // fixed rotations between couplings, in three dimensions and more
  std::string precision = "float";  // float | double; log weights are double in either case. Learning ends with a check
                                    // that float was enough, and turns to double where it was not
  double defensive = 0.0;           // weight of a wide Student-t component, mixed in after learning
  int64_t base_components = 1;      // filled in by the start

  void validate() const;  // throws ConfigError naming field and value
  // Every choice made, for a target of this dimension:
  //   spline    up to four dimensions: radial layer, splines, conditional splines
  //   bend      beyond: skewness by a triangular map of degree two
  //   coupling  where that is not enough: small affine couplings between fixed rotations after it
  //   realnvp   the paper's (appendix C.2): 4 couplings, s and t of two layers each, hidden 512
  FlowSpec resolved(int64_t dim) const;

  static constexpr int64_t kMaxBend = 64;  // dimensions up to which a bend layer is affordable
  bool bends(int64_t dim) const;           // is there a bend layer?
  bool shapes(int64_t dim) const;          // is there a layer that can be known before learning?

  template <class Archive>
  void fields(Archive& a) {
    a("family", family);
    a("couplings", couplings);
    a("hidden", hidden);
    a("activation", activation);
    a("bins", bins);
    a("bound", bound);
    a("radial_bins", radial_bins);
    a("max_log_scale", max_log_scale);
    a("rotations", rotations);
    a("precision", precision);
    a("defensive", defensive);
    a("base_components", base_components);
  }
};

struct Whitening {
  Tensor shift;   // [dim]
  Tensor factor;  // [dim, dim] lower triangular
};

// What one thread needs for a recorded pass: buffers, and the gradient it adds to.
class Pass {
 public:
  virtual ~Pass() = default;
  virtual void clear_gradient() = 0;
  virtual void add_gradient_to(std::span<double> total) const = 0;
};

// A proposal with parameters and derivatives with respect to them.
class FlowProposal : public Proposal {
 public:
  virtual const std::vector<ParameterSlot>& slots() const = 0;
  virtual std::vector<double> parameters() const = 0;
  virtual void set_parameters(std::span<const double> values) = 0;

  virtual std::unique_ptr<Pass> make_pass() const = 0;
  // from_noise() and log_prob(), recorded. Each is followed by its derivative before the next on the same pass.
  virtual Draws draw(const Tensor& noise, Pass& pass) const = 0;
  virtual Tensor score(const Tensor& x, Pass& pass) const = 0;
  // A draw, recorded on `pass`, of the points that `scored` has scored last, from where they lie in the base.
  virtual void redraw(const Pass& scored, Pass& pass) const = 0;
  // For dL/dx [n, dim] and dL/dlog_q [n] of the draws: adds dL/dparameters to the pass.
  virtual void draw_derivative(const Tensor& grad_x, const Tensor& grad_log_q, Pass& pass) const = 0;
  virtual void score_derivative(const Tensor& grad_log_q, Pass& pass) const = 0;
};

// A fresh proposal: flow at the identity, so that q is the base pushed through the whitening. The base is given in
// whitened coordinates.
std::unique_ptr<FlowProposal> make_flow_proposal(const FlowSpec& spec, const Whitening& whitening,
                                                 const GaussianMixture& base, uint64_t seed);

// q = (1 - e) inner + e wide, exactly: both densities are evaluated for every draw. The wide component is a
// multivariate Student t with 3 degrees of freedom.
std::unique_ptr<Proposal> make_defensive(std::unique_ptr<Proposal> inner, double weight, const Whitening& wide);

// Of the right shapes, to be filled by load().
std::unique_ptr<Proposal> make_blank_proposal(const FlowSpec& spec, int64_t dim);

}  // namespace hastings
