#include "hastings/target/zoo.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <boost/math/quadrature/gauss_kronrod.hpp>
#include <boost/math/special_functions/bessel.hpp>
#include <cmath>
#include <numbers>

#include "hastings/core/error.h"

namespace hastings {
namespace {

using std::numbers::pi;
const double kLogTwoPi = std::log(2 * pi);

double integrate(const std::function<double(double)>& f, double from, double to) {
  return boost::math::quadrature::gauss_kronrod<double, 61>::integrate(f, from, to, 12, 1e-13);
}

class Named : public Target {
 public:
  Named(std::string name, int64_t dim) : name_(std::move(name)), dim_(dim) {}
  std::string name() const override { return name_; }
  int64_t dim() const override { return dim_; }

 private:
  std::string name_;
  int64_t dim_;
};

// ---- Densities of the radius alone ---------------------------------------------------------------

// log p(x) = -u(r) in the plane. The radius has density r e^{-u(r)}, which is tabulated once: moments by
// quadrature, exact draws by inverting the cumulative sum on a fine grid.
class Radial : public Named {
 public:
  // `knots`: where u is not smooth; the quadrature goes from knot to knot.
  Radial(std::string name, std::function<double(double)> u, std::vector<double> knots)
      : Named(std::move(name), 2), u_(std::move(u)), knots_(std::move(knots)) {
    moment_[0] = moment(0);
    moment_[1] = moment(1) / moment_[0];
    moment_[2] = moment(2) / moment_[0];
  }

  bool has_exact_sampler() const override { return true; }
  double scale() const override { return knots_.back() / 2; }

  // Rejection from the uniform on [0, r_max] under the largest value of r e^{-u}.
  Tensor exact_draws(int64_t n, Stream& stream) const override {
    const double r_max = knots_.back();
    double top = 0;
    for (int i = 0; i <= 20000; ++i) {
      const double r = r_max * i / 20000;
      top = std::max(top, r * std::exp(-u_(r)));
    }
    top *= 1.01;
    Tensor out = at::empty({n, 2}, at::kDouble);
    double* x = out.data_ptr<double>();
    std::vector<double> v(3 * 1024);
    for (int64_t made = 0; made < n;) {
      stream.uniform(v);
      for (size_t i = 0; i < v.size() && made < n; i += 3) {
        const double r = r_max * v[i];
        if (v[i + 1] * top >= r * std::exp(-u_(r))) continue;
        x[2 * made] = r * std::cos(2 * pi * v[i + 2]);
        x[2 * made + 1] = r * std::sin(2 * pi * v[i + 2]);
        ++made;
      }
    }
    return out;
  }

 protected:
  double mean_radius() const { return moment_[1]; }
  double mean_square_radius() const { return moment_[2]; }
  double log_z() const { return std::log(2 * pi * moment_[0]); }

  static Tensor radius(const Tensor& x) { return at::linalg_vector_norm(x, 2, -1); }

 private:
  double moment(int power) const {
    double sum = 0;
    for (size_t i = 0; i + 1 < knots_.size(); ++i) {
      sum += integrate([&](double r) { return std::pow(r, power + 1) * std::exp(-u_(r)); }, knots_[i], knots_[i + 1]);
    }
    return sum;
  }

  std::function<double(double)> u_;
  std::vector<double> knots_;
  double moment_[3];
};

class Ring final : public Radial {
 public:
  Ring() : Radial("ring", [](double r) { return (r - 2) * (r - 2) / 0.32; }, {0, 1, 2, 3, 6}) {}
  Tensor log_prob(const Tensor& x) const override { return (radius(x) - 2).square() / -0.32; }
  Truth truth() const override {
    return {at::zeros({2}, at::kDouble), at::full({2}, std::sqrt(mean_square_radius() / 2), at::kDouble), log_z()};
  }
};

class Ring5 final : public Radial {
 public:
  Ring5()
      : Radial("ring5",
               [](double r) {
                 const double i = std::clamp(std::round(r), 1.0, 5.0);
                 return (r - i) * (r - i) / 0.04;
               },
               {0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 8}) {}
  Tensor log_prob(const Tensor& x) const override {
    const Tensor r = radius(x);
    const Tensor nearest = r.detach().round().clamp(1, 5);
    return (r - nearest).square() / -0.04;
  }
  Tensor statistics(const Tensor& x) const override { return radius(x).unsqueeze(-1); }
  Truth truth() const override {
    const double mean = mean_radius();
    return {at::full({1}, mean, at::kDouble), at::full({1}, std::sqrt(mean_square_radius() - mean * mean), at::kDouble),
            log_z()};
  }
  std::optional<Regions> regions() const override {
    Regions regions;
    std::vector<double> mass(5);
    double total = 0;
    for (int i = 1; i <= 5; ++i) {
      const double from = i == 1 ? 0 : i - 0.5, to = i == 5 ? 8 : i + 0.5;
      auto density = [i](double r) { return r * std::exp(-(r - i) * (r - i) / 0.04); };
      mass[i - 1] = integrate(density, from, i) + integrate(density, i, to);
      total += mass[i - 1];
      regions.names.push_back(fmt::format("ring {}", i));
    }
    regions.weights = at::tensor(mass, at::kDouble) / total;
    return regions;
  }
  Tensor region_of(const Tensor& x) const override { return (radius(x).round().clamp(1, 5) - 1).to(at::kLong); }
};

// ---- Mixtures of Gaussians -----------------------------------------------------------------------

class IsotropicMixture final : public Named {
 public:
  IsotropicMixture(std::string name, Tensor means, Tensor sds, std::vector<std::string> labels)
      : Named(std::move(name), means.size(1)),
        means_(std::move(means)),
        sds_(std::move(sds)),
        labels_(std::move(labels)) {
    const auto d = static_cast<double>(dim());
    log_scale_ = -d * sds_.log() - d / 2 * kLogTwoPi - std::log(static_cast<double>(means_.size(0)));
    precision_half_ = 0.5 / sds_.square();
  }

  // log-sum-exp over the components: no underflow anywhere.
  Tensor log_prob(const Tensor& x) const override {
    const Tensor squared = (x.unsqueeze(1) - means_).square().sum(-1);  // [batch, components]
    return at::logsumexp(log_scale_ - squared * precision_half_, {1});
  }
  Truth truth() const override {
    const Tensor mean = means_.mean(0);
    const Tensor second = means_.square().mean(0) + sds_.square().mean();
    return {mean, (second - mean.square()).sqrt(), 0.0};
  }
  bool has_exact_sampler() const override { return true; }
  Tensor exact_draws(int64_t n, Stream& stream) const override {
    const Tensor k = stream.integers(n, means_.size(0));
    return means_.index_select(0, k) + sds_.index_select(0, k).unsqueeze(1) * stream.normal({n, dim()});
  }
  // The cells of the nearest mean: of equal mass by symmetry. toy has no such symmetry and no labels.
  std::optional<Regions> regions() const override {
    if (labels_.empty()) return std::nullopt;
    const int64_t k = means_.size(0);
    return Regions{labels_, at::full({k}, 1.0 / static_cast<double>(k), at::kDouble)};
  }
  Tensor region_of(const Tensor& x) const override { return (x.unsqueeze(1) - means_).square().sum(-1).argmin(1); }
  double scale() const override { return means_.abs().max().item<double>(); }

 private:
  Tensor means_, sds_;  // [components, dim], [components]
  Tensor log_scale_, precision_half_;
  std::vector<std::string> labels_;
};

// ---- Gaussians -----------------------------------------------------------------------------------

// N(0, A A^T) with A a rotation times scales.
class ZeroMeanGaussian final : public Named {
 public:
  ZeroMeanGaussian(std::string name, Tensor factor)
      : Named(std::move(name), factor.size(0)),
        factor_(std::move(factor)),
        inverse_t_(at::linalg_inv(factor_).t().contiguous()) {}
  ZeroMeanGaussian(std::string name, Tensor sds, bool /*diagonal*/)
      : Named(std::move(name), sds.size(0)), sds_(std::move(sds)) {}

  Tensor log_prob(const Tensor& x) const override {
    const Tensor z = sds_.defined() ? x / sds_ : at::matmul(x, inverse_t_);
    return z.square().sum(-1) * -0.5;
  }
  Truth truth() const override {
    const Tensor sd = sds_.defined() ? sds_ : factor_.square().sum(1).sqrt();
    const Tensor log_det = sds_.defined() ? sds_.log().sum() : std::get<1>(at::linalg_slogdet(factor_));
    return {at::zeros({dim()}, at::kDouble), sd, static_cast<double>(dim()) / 2 * kLogTwoPi + log_det.item<double>()};
  }
  bool has_exact_sampler() const override { return true; }
  Tensor exact_draws(int64_t n, Stream& stream) const override {
    const Tensor z = stream.normal({n, dim()});
    return sds_.defined() ? z * sds_ : at::matmul(z, factor_.t());
  }

 private:
  Tensor factor_, inverse_t_;  // full form
  Tensor sds_;                 // diagonal form
};

// ---- The rest ------------------------------------------------------------------------------------

class RoughWell final : public Named {
 public:
  RoughWell() : Named("rough_well", 2) {}
  static constexpr double kEta = 0.01;
  Tensor log_prob(const Tensor& x) const override { return -(x.square() * 0.5 + kEta * (x / kEta).cos()).sum(-1); }
  // e^{-eta cos(x/eta)} = I_0(eta) + 2 sum_k (-1)^k I_k(eta) cos(k x/eta), and the Gaussian mean of cos(k x/eta)
  // is e^{-k^2/(2 eta^2)} = 0 to the last bit: so Z = (sqrt(2 pi) I_0(eta))^2, and the variance is 1.
  Truth truth() const override {
    return {at::zeros({2}, at::kDouble), at::ones({2}, at::kDouble),
            kLogTwoPi + 2 * std::log(boost::math::cyl_bessel_i(0, kEta))};
  }
  bool has_exact_sampler() const override { return true; }
  Tensor exact_draws(int64_t n, Stream& stream) const override {
    Tensor out = at::empty({n * 2}, at::kDouble);
    double* x = out.data_ptr<double>();
    for (int64_t made = 0; made < 2 * n;) {  // rejection from N(0, 1), coordinate by coordinate
      const Tensor z = stream.normal({2048}), u = stream.uniform({2048});
      const double *zp = z.data_ptr<double>(), *up = u.data_ptr<double>();
      for (int i = 0; i < 2048 && made < 2 * n; ++i) {
        if (up[i] < std::exp(-kEta * (std::cos(zp[i] / kEta) + 1))) x[made++] = zp[i];
      }
    }
    return out.view({n, 2});
  }
};

class Funnel final : public Named {
 public:
  explicit Funnel(int64_t dim) : Named(dim == 2 ? "funnel" : fmt::format("funnel:{}", dim), dim) {}
  Tensor log_prob(const Tensor& x) const override {
    const Tensor v = x.select(1, 0);
    const Tensor rest = x.slice(1, 1);
    const auto m = static_cast<double>(dim() - 1);
    return v.square() / -18.0 - 0.5 * (rest.square().sum(-1) * (-v).exp() + m * v);
  }
  Truth truth() const override {
    Tensor sd = at::full({dim()}, std::exp(9.0 / 4), at::kDouble);  // Var x_i = E e^v = e^{9/2}
    sd[0] = 3;
    return {at::zeros({dim()}, at::kDouble), sd, static_cast<double>(dim()) / 2 * kLogTwoPi + std::log(3.0)};
  }
  bool has_exact_sampler() const override { return true; }
  Tensor exact_draws(int64_t n, Stream& stream) const override {
    Tensor z = stream.normal({n, dim()});
    Tensor v = z.select(1, 0).mul_(3);
    z.slice(1, 1).mul_((v * 0.5).exp().unsqueeze(1));
    return z;
  }
  double scale() const override { return 3; }
};

class Banana final : public Named {
 public:
  Banana() : Named("banana", 2) {}
  static constexpr double kBend = 0.03;
  Tensor log_prob(const Tensor& x) const override {
    const Tensor a = x.select(1, 0), b = x.select(1, 1);
    return a.square() / -200.0 - 0.5 * (b - kBend * (100 - a.square())).square();
  }
  Truth truth() const override {  // Var x_2 = 1 + kBend^2 Var(x_1^2), Var(x_1^2) = 2 * 100^2
    return {at::zeros({2}, at::kDouble), at::tensor({10.0, std::sqrt(1 + kBend * kBend * 2e4)}, at::kDouble),
            kLogTwoPi + std::log(10.0)};
  }
  bool has_exact_sampler() const override { return true; }
  Tensor exact_draws(int64_t n, Stream& stream) const override {
    Tensor z = stream.normal({n, 2});
    Tensor a = z.select(1, 0).mul_(10);
    z.select(1, 1).add_(kBend * (100 - a.square()));
    return z;
  }
  double scale() const override { return 10; }
};

std::string with_dim(const std::string& name, int64_t dim, int64_t usual) {
  return dim == usual ? name : fmt::format("{}:{}", name, dim);
}

void require_dim(const char* name, int64_t dim, int64_t least) {
  if (dim < least) throw ConfigError(fmt::format("target {}: dimension {} is below {}", name, dim, least));
}

}  // namespace

std::unique_ptr<Target> make_ring() { return std::make_unique<Ring>(); }
std::unique_ptr<Target> make_ring5() { return std::make_unique<Ring5>(); }

std::unique_ptr<Target> make_mog2() {
  return std::make_unique<IsotropicMixture>("mog2", at::tensor({5.0, 0.0, -5.0, 0.0}, at::kDouble).view({2, 2}),
                                            at::full({2}, 0.5, at::kDouble), std::vector<std::string>{"right", "left"});
}

std::unique_ptr<Target> make_mog6() {
  const Tensor angle = at::arange(1, 7, at::kDouble) * (pi / 3);
  std::vector<std::string> labels;
  for (int i = 1; i <= 6; ++i) labels.push_back(fmt::format("mode {}", i));
  return std::make_unique<IsotropicMixture>("mog6", 5 * at::stack({angle.sin(), angle.cos()}, 1),
                                            at::full({6}, 0.5, at::kDouble), labels);
}

std::unique_ptr<Target> make_mog() {
  return std::make_unique<IsotropicMixture>("mog", at::tensor({2.0, 0.0, -2.0, 0.0}, at::kDouble).view({2, 2}),
                                            at::full({2}, std::sqrt(0.1), at::kDouble),
                                            std::vector<std::string>{"right", "left"});
}

std::unique_ptr<Target> make_toy() {
  return std::make_unique<IsotropicMixture>("toy", at::tensor({-2.0, 2.0}, at::kDouble).view({2, 1}),
                                            at::tensor({0.5, 0.7}, at::kDouble), std::vector<std::string>{});
}

std::unique_ptr<Target> make_icg(int64_t dim) {
  require_dim("icg", dim, 1);
  const Tensor sds = at::logspace(-1, 1, dim, 10.0, at::kDouble);  // variances 1e-2 .. 1e2
  return std::make_unique<ZeroMeanGaussian>(with_dim("icg", dim, 50), sds, true);
}

std::unique_ptr<Target> make_scg() {
  const double c = std::sqrt(0.5);
  const Tensor rotation = at::tensor({c, -c, c, c}, at::kDouble).view({2, 2});
  return std::make_unique<ZeroMeanGaussian>("scg", rotation * at::tensor({0.1, 10.0}, at::kDouble));
}

std::unique_ptr<Target> make_gaussian(int64_t dim) {
  require_dim("gaussian", dim, 1);
  return std::make_unique<ZeroMeanGaussian>(with_dim("gaussian", dim, 2), at::ones({dim}, at::kDouble), true);
}

std::unique_ptr<Target> make_rough_well() { return std::make_unique<RoughWell>(); }

std::unique_ptr<Target> make_funnel(int64_t dim) {
  require_dim("funnel", dim, 2);
  return std::make_unique<Funnel>(dim);
}

std::unique_ptr<Target> make_banana() { return std::make_unique<Banana>(); }

}  // namespace hastings
