#include "hastings/proposal/flow_proposal.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "hastings/core/error.h"

namespace hastings {
namespace {

const double kLogTwoPi = std::log(2 * std::numbers::pi);

Activation parse_activation(const std::string& name) {
  if (name == "relu") return Activation::kRelu;
  if (name == "tanh") return Activation::kTanh;
  if (name == "silu") return Activation::kSilu;
  throw ConfigError(fmt::format("activation '{}': must be relu, tanh or silu", name));
}

template <class T>
Flow<T> build_flow(const FlowSpec& spec, int64_t dim, uint64_t seed) {
  Flow<T> flow;
  flow.dim = dim;
  Stream random(seed, Phase::kBuild, 0, Purpose::kWeights);
  CouplingOptions options;
  options.hidden = spec.hidden;
  options.activation = parse_activation(spec.activation);
  options.separate = spec.family == "realnvp";
  options.max_log_scale = spec.max_log_scale;
  options.spline = {spec.bins, spec.bound};
  const bool affine = spec.family == "realnvp" || spec.family == "coupling", splines = spec.family == "spline";
  auto& p = flow.parameters;
  auto name = [&](const char* kind) { return fmt::format("flow.{}.{}.", flow.layers.size(), kind); };
  if ((affine || splines) && spec.radial_bins > 0 && dim > 1) {
    flow.layers.push_back(make_radial<T>(p, name("radial"), dim, spec.radial_bins));
  }
  if (spec.bends(dim)) flow.layers.push_back(make_bend<T>(p, name("bend"), dim, spec.max_log_scale));
  if (splines) flow.layers.push_back(make_marginal_splines<T>(p, name("marginal"), dim, options.spline));
  for (int64_t i = 0; i < spec.couplings && (affine || splines) && dim > 1; ++i) {
    if (i > 0 && spec.rotations && dim > 2) flow.layers.push_back(make_rotation<T>(p, name("rotation"), dim, random));
    flow.layers.push_back(affine ? make_affine_coupling<T>(p, name("coupling"), dim, i % 2 == 1, options, random)
                                 : make_spline_coupling<T>(p, name("coupling"), dim, i % 2 == 1, options, random));
  }
  flow.layers.push_back(make_affine<T>(p, name("affine"), dim, spec.family != "gaussian-diagonal"));
  return flow;
}

template <class T>
class PassOf final : public Pass {
 public:
  explicit PassOf(size_t parameters) : gradient(parameters, T(0)) {}
  void clear_gradient() override { std::fill(gradient.begin(), gradient.end(), T(0)); }
  void add_gradient_to(std::span<double> total) const override {
    for (size_t i = 0; i < gradient.size(); ++i) total[i] += static_cast<double>(gradient[i]);
  }
  Workspace<T> work_draw, work_score;
  std::vector<T> gradient;
  Tensor z;  // [n, dim] end point of the score pass
};

// [n, dim] double <-> [dim, n] T.
template <class T>
void to_features(const Tensor& rows, T* out) {
  const int64_t n = rows.size(0), d = rows.size(1);
  const double* in = rows.data_ptr<double>();
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < d; ++j) out[j * n + i] = static_cast<T>(in[i * d + j]);
  }
}
template <class T>
Tensor to_rows(const T* features, int64_t n, int64_t d) {
  Tensor rows = at::empty({n, d}, at::kDouble);
  double* out = rows.data_ptr<double>();
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < d; ++j) out[i * d + j] = static_cast<double>(features[j * n + i]);
  }
  return rows;
}

template <class T>
class FlowProposalOf final : public FlowProposal {
 public:
  FlowProposalOf(const FlowSpec& spec, const Whitening& whitening, const GaussianMixture& base, uint64_t seed)
      : dim_(whitening.shift.size(0)),
        standard_(spec.base_components == 1),
        base_{base.log_weights.clone(), base.means.clone(), base.factors.clone()},
        flow_(build_flow<T>(spec, dim_, seed)) {
    set_whitening(whitening.shift, whitening.factor);
  }

  int64_t dim() const override { return dim_; }
  int64_t noise_dim() const override { return standard_ ? dim_ : dim_ + 1; }

  Draws from_noise(const Tensor& noise) const override {
    static thread_local Workspace<T> work;
    return draw_with(base_point(noise), work, false);
  }
  Tensor log_prob(const Tensor& x) const override {
    static thread_local Workspace<T> work;
    Tensor z;
    return score_with(x, work, false, z);
  }

  const std::vector<ParameterSlot>& slots() const override { return flow_.parameters.slots; }
  std::vector<double> parameters() const override {
    return {flow_.parameters.values.begin(), flow_.parameters.values.end()};
  }
  void set_parameters(std::span<const double> values) override {
    auto& own = flow_.parameters.values;
    TORCH_INTERNAL_ASSERT(values.size() == own.size());
    for (size_t i = 0; i < own.size(); ++i) own[i] = static_cast<T>(values[i]);
  }

  std::unique_ptr<Pass> make_pass() const override {
    return std::make_unique<PassOf<T>>(flow_.parameters.values.size());
  }
  Draws draw(const Tensor& noise, Pass& pass) const override {
    return draw_with(base_point(noise), static_cast<PassOf<T>&>(pass).work_draw, true);
  }
  void redraw(const Pass& scored, Pass& pass) const override {
    draw_with(static_cast<const PassOf<T>&>(scored).z, static_cast<PassOf<T>&>(pass).work_draw, true);
  }
  Tensor score(const Tensor& x, Pass& pass) const override {
    auto& mine = static_cast<PassOf<T>&>(pass);
    return score_with(x, mine.work_score, true, mine.z);
  }
  // log q = log base(z) - log det, x = whitening(flow(z)), z fixed.
  void draw_derivative(const Tensor& grad_x, const Tensor& grad_log_q, Pass& pass) const override {
    auto& mine = static_cast<PassOf<T>&>(pass);
    const int64_t n = grad_x.size(0);
    std::vector<T> gradient(static_cast<size_t>(dim_ * n));
    to_features(at::matmul(grad_x, factor_).contiguous(), gradient.data());
    std::vector<T> grad_log_det(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i)
      grad_log_det[static_cast<size_t>(i)] = static_cast<T>(-grad_log_q.data_ptr<double>()[i]);
    flow_.forward_derivative(gradient.data(), grad_log_det.data(), n, mine.work_draw, mine.gradient.data());
  }
  // log q = log base(z) + log det of the inverse, z = flow^-1(...x).
  void score_derivative(const Tensor& grad_log_q, Pass& pass) const override {
    auto& mine = static_cast<PassOf<T>&>(pass);
    const int64_t n = grad_log_q.size(0);
    std::vector<T> gradient(static_cast<size_t>(dim_ * n));
    const Tensor grad_base = standard_ ? mine.z.neg() : base_.gradient(mine.z);
    to_features((grad_base * grad_log_q.unsqueeze(1)).contiguous(), gradient.data());
    std::vector<T> grad_log_det(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i)
      grad_log_det[static_cast<size_t>(i)] = static_cast<T>(grad_log_q.data_ptr<double>()[i]);
    flow_.inverse_derivative(gradient.data(), grad_log_det.data(), n, mine.work_score, mine.gradient.data());
  }

  std::map<std::string, Tensor> state() const override {
    std::map<std::string, Tensor> all = {{"whitening.shift", shift_}, {"whitening.factor", factor_}};
    if (!standard_) {
      all["base.log_weights"] = base_.log_weights;
      all["base.means"] = base_.means;
      all["base.factors"] = base_.factors;
    }
    for (const auto& slot : flow_.parameters.slots) {
      Tensor t = at::empty(slot.shape, c10::CppTypeToScalarType<T>::value);
      std::copy_n(flow_.parameters.values.begin() + slot.offset, slot.size, t.data_ptr<T>());
      all[slot.name] = t;
    }
    return all;
  }
  void load(const std::map<std::string, Tensor>& state) override {
    auto find = [&](const std::string& name, at::IntArrayRef shape) {
      const auto found = state.find(name);
      if (found == state.end()) throw DataError(fmt::format("stored proposal: '{}' is missing", name));
      if (found->second.sizes() != shape)
        throw DataError(fmt::format("stored proposal: '{}' has the wrong shape", name));
      return found->second;
    };
    set_whitening(find("whitening.shift", shift_.sizes()).to(at::kDouble),
                  find("whitening.factor", factor_.sizes()).to(at::kDouble));
    if (!standard_) {
      base_.log_weights = find("base.log_weights", base_.log_weights.sizes()).to(at::kDouble);
      base_.means = find("base.means", base_.means.sizes()).to(at::kDouble);
      base_.factors = find("base.factors", base_.factors.sizes()).to(at::kDouble);
    }
    for (const auto& slot : flow_.parameters.slots) {
      const Tensor t = find(slot.name, slot.shape).to(c10::CppTypeToScalarType<T>::value).contiguous();
      std::copy_n(t.data_ptr<T>(), slot.size, flow_.parameters.values.begin() + slot.offset);
    }
  }

 private:
  void set_whitening(const Tensor& shift, const Tensor& factor) {
    shift_ = shift.clone();
    factor_ = factor.clone();
    factor_t_ = factor_.t().contiguous();
    inverse_t_ = at::linalg_solve_triangular(factor_, at::eye(dim_, at::kDouble), /*upper=*/false).t().contiguous();
    log_scale_ = factor_.diagonal().log().sum().item<double>();
  }

  Tensor log_base(const Tensor& z) const {
    if (standard_) return z.square().sum(-1).mul_(-0.5).sub_(0.5 * static_cast<double>(dim_) * kLogTwoPi);
    return base_.log_prob(z);
  }

  Tensor base_point(const Tensor& noise) const { return (standard_ ? noise : base_.from_noise(noise)).contiguous(); }

  Draws draw_with(const Tensor& z, Workspace<T>& work, bool record) const {
    const int64_t n = z.size(0);
    Tensor log_det = at::full({n}, log_scale_, at::kDouble);
    std::vector<T> h(static_cast<size_t>(dim_ * n));
    to_features(z, h.data());
    flow_.forward(h.data(), log_det.data_ptr<double>(), n, work, record);
    return {at::addmm(shift_, to_rows(h.data(), n, dim_), factor_t_), log_base(z).sub_(log_det)};
  }

  Tensor score_with(const Tensor& x, Workspace<T>& work, bool record, Tensor& z) const {
    const int64_t n = x.size(0);
    Tensor log_det = at::full({n}, -log_scale_, at::kDouble);
    std::vector<T> h(static_cast<size_t>(dim_ * n));
    to_features(at::matmul(x - shift_, inverse_t_).contiguous(), h.data());
    flow_.inverse(h.data(), log_det.data_ptr<double>(), n, work, record);
    z = to_rows(h.data(), n, dim_);
    return log_base(z).add_(log_det);
  }

  int64_t dim_;
  bool standard_;
  GaussianMixture base_;
  Flow<T> flow_;
  Tensor shift_, factor_, factor_t_, inverse_t_;
  double log_scale_ = 0;
};

// Multivariate Student t, 3 degrees of freedom: z / sqrt(chi2_3 / 3), chi2_3 the sum of three squared normals.
class DefensiveProposal final : public Proposal {
 public:
  DefensiveProposal(std::unique_ptr<Proposal> inner, double weight, const Whitening& wide)
      : inner_(std::move(inner)), weight_(weight), shift_(wide.shift.clone()), factor_(wide.factor.clone()) {}

  int64_t dim() const override { return inner_->dim(); }
  int64_t noise_dim() const override { return inner_->noise_dim() + 4; }

  Draws from_noise(const Tensor& noise) const override {
    const int64_t inner_dim = inner_->noise_dim();
    const Tensor u = 0.5 * at::erfc(noise.select(1, inner_dim) * -std::sqrt(0.5));
    const Tensor wide_rows = at::lt(u, weight_).nonzero().squeeze(1);
    Draws draws = inner_->from_noise(noise.narrow(1, 0, inner_dim));
    if (wide_rows.size(0) > 0) {
      const Tensor z = noise.narrow(1, 0, dim()).index_select(0, wide_rows);
      const Tensor chi2 = noise.narrow(1, inner_dim + 1, 3).index_select(0, wide_rows).square().sum(1, true);
      const Tensor x = at::addmm(shift_, z / (chi2 / kDegrees).sqrt(), factor_.t());
      draws.x = draws.x.index_copy(0, wide_rows, x);
      draws.log_q = draws.log_q.index_copy(0, wide_rows, inner_->log_prob(x));
    }
    draws.log_q = mixed(draws.log_q, draws.x);
    return draws;
  }
  Tensor log_prob(const Tensor& x) const override { return mixed(inner_->log_prob(x), x); }

  std::map<std::string, Tensor> state() const override {
    auto all = inner_->state();
    all["wide.shift"] = shift_;
    all["wide.factor"] = factor_;
    return all;
  }
  void load(const std::map<std::string, Tensor>& state) override {
    inner_->load(state);
    for (auto [name, tensor] : {std::pair("wide.shift", &shift_), std::pair("wide.factor", &factor_)}) {
      const auto found = state.find(name);
      if (found == state.end() || found->second.sizes() != tensor->sizes()) {
        throw DataError(fmt::format("stored proposal: '{}' is missing or has the wrong shape", name));
      }
      *tensor = found->second.to(at::kDouble);
    }
  }

 private:
  static constexpr double kDegrees = 3.0;
  Tensor mixed(const Tensor& log_inner, const Tensor& x) const {
    const auto d = static_cast<double>(dim());
    const Tensor inverse = at::linalg_solve_triangular(factor_, at::eye(dim(), at::kDouble), /*upper=*/false);
    const Tensor square = at::matmul(x - shift_, inverse.t()).square().sum(-1);
    const double constant =
        std::lgamma((kDegrees + d) / 2) - std::lgamma(kDegrees / 2) - d / 2 * std::log(kDegrees * std::numbers::pi);
    const Tensor log_wide =
        constant - factor_.diagonal().log().sum() - (kDegrees + d) / 2 * (square / kDegrees).log1p();
    return at::logaddexp(log_inner + std::log1p(-weight_), log_wide + std::log(weight_));
  }
  std::unique_ptr<Proposal> inner_;
  double weight_;
  Tensor shift_, factor_;
};

}  // namespace

void FlowSpec::validate() const {
  const std::vector<std::string> families = {"auto",     "spline",           "bend", "coupling", "realnvp",
                                             "gaussian", "gaussian-diagonal"};
  if (std::find(families.begin(), families.end(), family) == families.end()) {
    throw ConfigError(
        fmt::format("flow '{}': must be auto, spline, bend, coupling, realnvp, gaussian or gaussian-diagonal", family));
  }
  if (couplings < 0 || couplings > 64)
    throw ConfigError(fmt::format("couplings is {}, must be from 1 to 64 (0: by family)", couplings));
  for (const int64_t width : hidden) {
    if (width < 1 || width > 16384)
      throw ConfigError(fmt::format("hidden has a layer of {}, must be from 1 to 16384", width));
  }
  if (bins < 2 || bins > 1024) throw ConfigError(fmt::format("bins is {}, must be from 2 to 1024", bins));
  if (radial_bins != 0 && radial_bins != -1 && (radial_bins < 2 || radial_bins > 1024)) {
    throw ConfigError(fmt::format("radial_bins is {}, must be 0, from 2 to 1024, or -1", radial_bins));
  }
  if (!(bound > 0) || !std::isfinite(bound)) throw ConfigError(fmt::format("bound is {}, must be positive", bound));
  if (!(max_log_scale >= 0) || !std::isfinite(max_log_scale)) {
    throw ConfigError(fmt::format("max_log_scale is {}, must be positive (0: by family)", max_log_scale));
  }
  if (!(defensive >= 0 && defensive < 1))
    throw ConfigError(fmt::format("defensive is {}, must be in [0, 1)", defensive));
  if (!activation.empty()) parse_activation(activation);
  if (precision != "float" && precision != "double") {
    throw ConfigError(fmt::format("precision '{}': must be float or double", precision));
  }
}

bool FlowSpec::bends(int64_t dim) const {
  return (family == "bend" || family == "coupling") && dim > 1 && dim <= kMaxBend;
}

bool FlowSpec::shapes(int64_t dim) const { return bends(dim) || (radial_bins > 0 && dim > 1); }

FlowSpec FlowSpec::resolved(int64_t dim) const {
  FlowSpec spec = *this;
  // Splines where they are cheap; in more dimensions posteriors are often near enough to a Gaussian for a bend.
  if (spec.family == "auto") spec.family = dim <= 4 ? "spline" : dim <= kMaxBend ? "bend" : "coupling";
  const bool paper = spec.family == "realnvp", splines = spec.family == "spline";
  if (spec.couplings == 0) spec.couplings = paper || splines ? 4 : 8;
  if (spec.hidden.empty())
    spec.hidden = paper ? std::vector<int64_t>{512} : splines ? std::vector<int64_t>{64, 64} : std::vector<int64_t>{24};
  if (spec.activation.empty()) spec.activation = paper ? "relu" : "silu";
  if (spec.radial_bins < 0) spec.radial_bins = splines ? 128 : 0;
  if (spec.max_log_scale == 0) spec.max_log_scale = paper ? 4 : 2;
  if (paper) spec.rotations = false;
  return spec;
}

std::unique_ptr<Proposal> make_defensive(std::unique_ptr<Proposal> inner, double weight, const Whitening& wide) {
  return std::make_unique<DefensiveProposal>(std::move(inner), weight, wide);
}

std::unique_ptr<FlowProposal> make_flow_proposal(const FlowSpec& given, const Whitening& whitening,
                                                 const GaussianMixture& base, uint64_t seed) {
  given.validate();
  const FlowSpec spec = given.resolved(whitening.shift.size(0));
  if (spec.precision == "double") return std::make_unique<FlowProposalOf<double>>(spec, whitening, base, seed);
  return std::make_unique<FlowProposalOf<float>>(spec, whitening, base, seed);
}

std::unique_ptr<Proposal> make_blank_proposal(const FlowSpec& spec, int64_t dim) {
  const Whitening identity{at::zeros({dim}, at::kDouble), at::eye(dim, at::kDouble)};
  const int64_t k = spec.base_components;
  const GaussianMixture base{at::zeros({k}, at::kDouble), at::zeros({k, dim}, at::kDouble),
                             identity.factor.expand({k, dim, dim}).contiguous()};
  std::unique_ptr<Proposal> flow = make_flow_proposal(spec, identity, base, 0);
  if (spec.defensive == 0) return flow;
  return make_defensive(std::move(flow), spec.defensive, identity);
}

}  // namespace hastings
