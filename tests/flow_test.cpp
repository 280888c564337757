// Every layer: inverse undoes forward, log-determinants are those of the numerical Jacobian, and the hand-written
// derivatives agree with central differences, for inputs and parameters, in both directions.
#include "hastings/flow/layers.h"
#include "support.h"

namespace hastings {
namespace {

using Builder = std::function<std::unique_ptr<Layer<double>>(Parameters<double>&, int64_t dim)>;

struct Case {
  std::string name;
  int64_t dim;
  Builder build;
};

CouplingOptions options(Activation activation, std::vector<int64_t> hidden, bool separate = false) {
  CouplingOptions o;
  o.activation = activation;
  o.hidden = std::move(hidden);
  o.separate = separate;
  o.spline = {7, 3.0};
  return o;
}

std::vector<Case> cases() {
  auto affine = [](bool swapped, CouplingOptions o) {
    return [=](Parameters<double>& p, int64_t d) {
      Stream random(1, Phase::kTest, 0, Purpose::kWeights);
      return make_affine_coupling<double>(p, "l.", d, swapped, o, random);
    };
  };
  auto splines = [](bool swapped, CouplingOptions o) {
    return [=](Parameters<double>& p, int64_t d) {
      Stream random(1, Phase::kTest, 0, Purpose::kWeights);
      return make_spline_coupling<double>(p, "l.", d, swapped, o, random);
    };
  };
  return {
      {"affine_full", 4, [](auto& p, int64_t d) { return make_affine<double>(p, "l.", d, true); }},
      {"affine_diagonal", 3, [](auto& p, int64_t d) { return make_affine<double>(p, "l.", d, false); }},
      {"bend_2d", 2, [](auto& p, int64_t d) { return make_bend<double>(p, "l.", d, 2.0); }},
      {"bend_6d", 6, [](auto& p, int64_t d) { return make_bend<double>(p, "l.", d, 2.0); }},
      {"rotation", 5,
       [](auto& p, int64_t d) {
         Stream r(1, Phase::kTest, 0, Purpose::kWeights);
         return make_rotation<double>(p, "l.", d, r);
       }},
      {"radial_2d", 2, [](auto& p, int64_t d) { return make_radial<double>(p, "l.", d, 9); }},
      {"radial_5d", 5, [](auto& p, int64_t d) { return make_radial<double>(p, "l.", d, 9); }},
      {"marginal_1d", 1,
       [](auto& p, int64_t d) {
         return make_marginal_splines<double>(p, "l.", d, {8, 3.0});
       }},
      {"marginal_3d", 3,
       [](auto& p, int64_t d) {
         return make_marginal_splines<double>(p, "l.", d, {8, 3.0});
       }},
      {"realnvp_thin_silu", 2, affine(false, options(Activation::kSilu, {16}, true))},
      {"realnvp_thin_tanh_swapped", 2, affine(true, options(Activation::kTanh, {16}, true))},
      {"realnvp_thin_wide_input", 7, affine(false, options(Activation::kSilu, {6}, true))},
      {"coupling_shared", 11, affine(false, options(Activation::kSilu, {12}))},
      {"coupling_shared_two_layers_swapped", 11, affine(true, options(Activation::kTanh, {12, 9}))},
      {"coupling_separate_deep", 12, affine(true, options(Activation::kSilu, {8, 8}, true))},
      {"spline_coupling_2d", 2, splines(false, options(Activation::kSilu, {10, 8}))},
      {"spline_coupling_2d_swapped", 2, splines(true, options(Activation::kTanh, {10}))},
      {"spline_coupling_5d", 5, splines(false, options(Activation::kSilu, {10, 8}))},
  };
}

class LayerTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    layer_ = GetParam().build(parameters_, GetParam().dim);
    Stream random(2, Phase::kTest, 0, Purpose::kExact);
    for (const auto& slot : parameters_.slots) {
      if (!slot.trainable) continue;
      const Tensor z = random.normal({slot.size}) * 0.2;
      for (int64_t i = 0; i < slot.size; ++i)
        parameters_.values[static_cast<size_t>(slot.offset + i)] += z[i].item<double>();
    }
    x_ = (random.normal({GetParam().dim, kPoints}) * 1.2).contiguous();
  }

  struct Result {
    Tensor value, log_det;
  };
  Result run(const Tensor& x, bool inverse, const std::vector<double>& params) const {
    Result r{x.clone(), at::zeros({x.size(1)}, at::kDouble)};
    Workspace<double> work;
    auto call = inverse ? &Layer<double>::inverse : &Layer<double>::forward;
    (layer_.get()->*call)(params.data(), r.value.data_ptr<double>(), r.log_det.data_ptr<double>(), x.size(1), work,
                          false);
    EXPECT_EQ(work.depth(), 0);
    return r;
  }

  static constexpr int64_t kPoints = 37;
  Parameters<double> parameters_;
  std::unique_ptr<Layer<double>> layer_;
  Tensor x_;
};

TEST_P(LayerTest, InverseUndoesForward) {
  const Result up = run(x_, false, parameters_.values), back = run(up.value, true, parameters_.values);
  EXPECT_LT(test::gap(back.value, x_), 1e-8);
  EXPECT_LT(test::gap(back.log_det, -up.log_det), 1e-8);
}

TEST_P(LayerTest, LogDetIsThatOfTheJacobian) {
  const int64_t d = GetParam().dim;
  const double h = 1e-6;
  const Result here = run(x_, false, parameters_.values);
  std::vector<Tensor> columns;
  for (int64_t j = 0; j < d; ++j) {
    Tensor up = x_.clone(), down = x_.clone();
    up[j] += h;
    down[j] -= h;
    columns.push_back((run(up, false, parameters_.values).value - run(down, false, parameters_.values).value) /
                      (2 * h));
  }
  const Tensor jacobian = at::stack(columns, 1).permute({2, 0, 1}).contiguous();  // [points, out, in]
  EXPECT_LT(test::gap(std::get<1>(at::linalg_slogdet(jacobian)), here.log_det), 1e-5);
}

TEST_P(LayerTest, DerivativesAgreeWithDifferences) {
  Stream random(3, Phase::kTest, 0, Purpose::kExact);
  const int64_t d = GetParam().dim;
  const Tensor gy = random.normal({d, kPoints}), gl = random.normal({kPoints});
  auto scalar = [&](const Tensor& x, bool inverse, const std::vector<double>& params) {
    const Result r = run(x, inverse, params);
    return ((r.value * gy).sum() + (r.log_det * gl).sum()).item<double>();
  };
  for (const bool inverse : {false, true}) {
    Workspace<double> work;
    Tensor value = x_.clone(), log_det = at::zeros({kPoints}, at::kDouble), grad = gy.clone();
    std::vector<double> grad_params(parameters_.values.size(), 0.0);
    auto up = inverse ? &Layer<double>::inverse : &Layer<double>::forward;
    auto down = inverse ? &Layer<double>::inverse_derivative : &Layer<double>::forward_derivative;
    (layer_.get()->*up)(parameters_.values.data(), value.data_ptr<double>(), log_det.data_ptr<double>(), kPoints, work,
                        true);
    (layer_.get()->*down)(parameters_.values.data(), grad.data_ptr<double>(), gl.data_ptr<double>(), kPoints, work,
                          grad_params.data());
    EXPECT_EQ(work.depth(), 0);
    const double h = 1e-6;
    for (int64_t k = 0; k < 40; ++k) {  // inputs
      const int64_t j = k % d, i = (k * 7) % kPoints;
      Tensor above = x_.clone(), below = x_.clone();
      above[j][i] += h;
      below[j][i] -= h;
      const double expected =
          (scalar(above, inverse, parameters_.values) - scalar(below, inverse, parameters_.values)) / (2 * h);
      EXPECT_NEAR(grad[j][i].item<double>(), expected, 1e-4 * (1 + std::fabs(expected)))
          << (inverse ? "inverse" : "forward") << " input " << j;
    }
    for (const auto& slot : parameters_.slots) {
      if (!slot.trainable) continue;
      for (int64_t k = 0; k < std::min<int64_t>(slot.size, 25); ++k) {
        const auto at = static_cast<size_t>(slot.offset + k * std::max<int64_t>(1, slot.size / 25));
        auto above = parameters_.values, below = parameters_.values;
        above[at] += h;
        below[at] -= h;
        const double expected = (scalar(x_, inverse, above) - scalar(x_, inverse, below)) / (2 * h);
        EXPECT_NEAR(grad_params[at], expected, 1e-4 * (1 + std::fabs(expected)))
            << (inverse ? "inverse " : "forward ") << slot.name << " " << k;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, LayerTest, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

// What a coupling of precision T makes of points, and its derivatives, all in one row.
template <class T>
Tensor everything(int64_t dim, int64_t points) {
  Parameters<T> parameters;
  Stream weights(1, Phase::kTest, 0, Purpose::kWeights), random(2, Phase::kTest, 0, Purpose::kExact);
  const auto layer =
      make_affine_coupling<T>(parameters, "l.", dim, false, options(Activation::kSilu, {21}, true), weights);
  const auto type = c10::CppTypeToScalarType<T>::value;
  const Tensor shift = random.normal({static_cast<int64_t>(parameters.values.size())}) * 0.2;
  for (int64_t i = 0; i < shift.size(0); ++i)
    parameters.values[static_cast<size_t>(i)] += static_cast<T>(shift[i].item<double>());
  const Tensor x = random.normal({dim, points}).to(type), log_det = at::zeros({points}, at::kDouble),
               grad = random.normal({dim, points}).to(type), grad_log_det = random.normal({points}).to(type);
  Workspace<T> work;
  std::vector<T> grad_params(parameters.values.size(), T(0));
  layer->forward(parameters.values.data(), x.data_ptr<T>(), log_det.data_ptr<double>(), points, work, true);
  layer->forward_derivative(parameters.values.data(), grad.data_ptr<T>(), grad_log_det.data_ptr<T>(), points, work,
                            grad_params.data());
  return at::cat({x.flatten(), log_det, grad.flatten(), at::tensor(grad_params)}, 0).to(at::kDouble);
}

// Vectors have eight numbers in single precision and four in double: both sums are written out for whole vectors and
// for what is left.
TEST(Coupling, SinglePrecisionAgreesWithDouble) {
  for (const int64_t dim : {2, 3, 7, 13, 25, 50}) {
    for (const int64_t points : {1, 16, 37, 128}) {
      const Tensor exact = everything<double>(dim, points);
      EXPECT_LT(((everything<float>(dim, points) - exact).abs() / (1 + exact.abs())).max().item<double>(), 3e-5)
          << dim << " dimensions, " << points << " points";
    }
  }
}

// The rectifier has kinks; its derivative is checked where the differences do not cross one.
TEST(Mlp, RectifierDerivative) {
  Parameters<double> parameters;
  Stream random(1, Phase::kTest, 0, Purpose::kWeights);
  const auto layer =
      make_affine_coupling<double>(parameters, "l.", 2, false, options(Activation::kRelu, {32}, true), random);
  for (auto& v : parameters.values) v += 0.1;
  Tensor x = random.normal({2, 16}), y = x.clone(), log_det = at::zeros({16}, at::kDouble);
  Workspace<double> work;
  layer->forward(parameters.values.data(), y.data_ptr<double>(), log_det.data_ptr<double>(), 16, work, true);
  Tensor grad = at::ones({2, 16}, at::kDouble), gl = at::ones({16}, at::kDouble);
  std::vector<double> grad_params(parameters.values.size(), 0.0);
  layer->forward_derivative(parameters.values.data(), grad.data_ptr<double>(), gl.data_ptr<double>(), 16, work,
                            grad_params.data());
  auto scalar = [&](const std::vector<double>& p) {
    Tensor v = x.clone(), l = at::zeros({16}, at::kDouble);
    layer->forward(p.data(), v.data_ptr<double>(), l.data_ptr<double>(), 16, work, false);
    return (v.sum() + l.sum()).item<double>();
  };
  int checked = 0;
  for (size_t i = 0; i < parameters.values.size(); i += 3) {
    auto at = [&](double h) {
      auto p = parameters.values;
      p[i] += h;
      return scalar(p);
    };
    const double coarse = (at(1e-5) - at(-1e-5)) / 2e-5, fine = (at(1e-7) - at(-1e-7)) / 2e-7;
    if (std::fabs(coarse - fine) > 1e-5 * (1 + std::fabs(fine))) continue;  // a kink in between
    EXPECT_NEAR(grad_params[i], coarse, 1e-4 * (1 + std::fabs(coarse)));
    ++checked;
  }
  EXPECT_GT(checked, 30);
}

TEST(Spline, IsTheIdentityOutsideAndAtZeroParameters) {
  Parameters<double> parameters;
  const auto layer = make_marginal_splines<double>(parameters, "l.", 1, {16, 2.0});
  Workspace<double> work;
  Tensor x = at::linspace(-4, 4, 101, at::kDouble), y = x.clone(), log_det = at::zeros({101}, at::kDouble);
  layer->forward(parameters.values.data(), y.data_ptr<double>(), log_det.data_ptr<double>(), 101, work, false);
  EXPECT_LT(test::gap(x, y), 1e-12);
  EXPECT_LT(log_det.abs().max().item<double>(), 1e-12);
  for (auto& v : parameters.values) v = 1.7 * std::sin(static_cast<double>(&v - parameters.values.data()));
  y = x.clone();
  layer->forward(parameters.values.data(), y.data_ptr<double>(), log_det.data_ptr<double>(), 101, work, false);
  EXPECT_TRUE(at::gt(y.narrow(0, 1, 100) - y.narrow(0, 0, 100), 0).all().item<bool>());  // monotone
  EXPECT_EQ(y[0].item<double>(), -4);
  double nan = std::nan(""), zero = 0;
  layer->forward(parameters.values.data(), &nan, &zero, 1, work, false);
  EXPECT_TRUE(std::isnan(nan));
}

}  // namespace
}  // namespace hastings
