// The layers flows are built from. Each starts as the identity.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hastings/core/random.h"
#include "hastings/flow/layer.h"

namespace hastings {

enum class Activation { kRelu, kTanh, kSilu };

// The monotone rational-quadratic spline with linear tails (Durkan et al. 2019): the identity outside
// [-bound, bound].
struct SplineShape {
  int64_t bins = 32;
  double bound = 5.0;
  int64_t parameters() const { return 3 * bins - 1; }  // width and height logits, slopes at the inner knots
};

// The raw parameter of a knot with this slope.
double spline_raw_slope(double slope);

struct CouplingOptions {
  std::vector<int64_t> hidden = {64, 64};
  Activation activation = Activation::kSilu;
  bool separate = false;       // affine couplings: own networks for s and t, as in the paper
  double max_log_scale = 2.0;  // affine couplings: |s| stays below this
  SplineShape spline;          // spline couplings
};

// In all couplings half of the coordinates pass unchanged and condition the map of the other half; `swapped` says
// which. The batch is split, not masked: the networks see only what they use.

// RealNVP (Dinh et al. 2017): y_b = x_b exp(s(x_a)) + t(x_a), s bounded by a tanh. Two dimensions or more.
template <class T>
std::unique_ptr<Layer<T>> make_affine_coupling(Parameters<T>& parameters, const std::string& name, int64_t dim,
                                               bool swapped, const CouplingOptions& options, Stream& random);

// y_b = spline(x_b; parameters(x_a)). Two dimensions or more.
template <class T>
std::unique_ptr<Layer<T>> make_spline_coupling(Parameters<T>& parameters, const std::string& name, int64_t dim,
                                               bool swapped, const CouplingOptions& options, Stream& random);

// A spline of its own for every coordinate.
template <class T>
std::unique_ptr<Layer<T>> make_marginal_splines(Parameters<T>& parameters, const std::string& name, int64_t dim,
                                                const SplineShape& shape);

// y = x g(r) / r, r = |x|, g a monotone spline of [0, reach] onto itself: shells, heavier or lighter tails.
// log det = (dim - 1) log(g / r) + log g'(r).
// The spline's interval is [-b, b] with b = radial_bound(dim), shifted to radii from 0 to 2 b.
double radial_bound(int64_t dim);
template <class T>
std::unique_ptr<Layer<T>> make_radial(Parameters<T>& parameters, const std::string& name, int64_t dim, int64_t bins);

// Triangular, of the lowest degree that carries skewness: y_i = u_i(x_i) exp(s_i) + t_i with s_i linear (bounded by a
// tanh) and t_i quadratic in the coordinates before i, u_i a sinh-arcsinh bend. Its parameters follow from the third
// derivatives of a density near a Gaussian. About dim^3 / 6 parameters.
template <class T>
std::unique_ptr<Layer<T>> make_bend(Parameters<T>& parameters, const std::string& name, int64_t dim,
                                    double max_log_scale);

// A fixed random rotation; mixes coordinates between couplings.
template <class T>
std::unique_ptr<Layer<T>> make_rotation(Parameters<T>& parameters, const std::string& name, int64_t dim,
                                        Stream& random);

// y = L x + b, L lower triangular (or diagonal) with positive diagonal.
template <class T>
std::unique_ptr<Layer<T>> make_affine(Parameters<T>& parameters, const std::string& name, int64_t dim, bool full);

}  // namespace hastings
