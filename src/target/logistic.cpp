#include "hastings/target/logistic.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <numbers>

#include "../core/simd_math.h"
#include "hastings/core/error.h"

namespace hastings {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr int64_t kRows = 64;    // parameter vectors at a time: their margins stay in cache
constexpr int64_t kGroup = 512;  // data points whose factors are multiplied before one logarithm

// sum_i log sigmoid(m_i) = sum_i min(m_i, 0) - log prod_i (1 + e^{-|m_i|}). Every factor is in (1, 2], so a
// product of 512 stays below 2^512 and one logarithm serves the group. NaN margins stay NaN. With kSlopes the
// margins are replaced by their derivatives sigmoid(-m).
template <bool kSlopes>
double log_likelihood(double* margin, int64_t n) {
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kGroup) {
    const int64_t end = std::min(n, begin + kGroup);
    double sum = 0, product = 1;
#pragma omp simd reduction(+ : sum) reduction(* : product)
    for (int64_t i = begin; i < end; ++i) {
      const double m = margin[i], magnitude = std::fabs(m), e = std::exp(-magnitude);
      sum += 0.5 * (m - magnitude);
      product *= 1 + e;
      if constexpr (kSlopes) margin[i] = (m > 0 ? e : 1.0) / (1 + e);
    }
    total += sum - std::log(product);
  }
  return total;
}

// theta [batch, dim], signed_t [dim, rows] (each observation times its label's sign) -> [batch].
class LogLikelihood : public Function<LogLikelihood> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& theta, const Tensor& signed_t, const Tensor& signed_rows,
                        bool with_gradient) {
    const Tensor x = theta.detach().contiguous();
    const int64_t batch = x.size(0), n = signed_t.size(1);
    Tensor value = at::empty({batch}, at::kDouble);
    Tensor gradient = with_gradient ? at::empty_like(x) : Tensor();
    Tensor margin = at::empty({std::min(kRows, batch), n}, at::kDouble);
    double* out = value.data_ptr<double>();
    for (int64_t begin = 0; begin < batch; begin += kRows) {
      const int64_t rows = std::min(kRows, batch - begin);
      Tensor block = margin.narrow(0, 0, rows);
      at::mm_out(block, x.narrow(0, begin, rows), signed_t);
      double* m = block.data_ptr<double>();
      for (int64_t i = 0; i < rows; ++i) {
        out[begin + i] = with_gradient ? log_likelihood<true>(m + i * n, n) : log_likelihood<false>(m + i * n, n);
      }
      if (with_gradient) {
        Tensor slice = gradient.narrow(0, begin, rows);
        at::mm_out(slice, block, signed_rows);
      }
    }
    if (with_gradient) ctx->save_for_backward({gradient});
    return value;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grad_output) {
    const Tensor gradient = ctx->get_saved_variables()[0];
    return {grad_output[0].unsqueeze(1) * gradient, Tensor(), Tensor(), Tensor()};
  }
};

class Logistic final : public SubsampledTarget {
 public:
  Logistic(std::string name, const LabelledTable& table)
      : name_(std::move(name)), names_(table.names), labels_(table.labels) {
    const int64_t n = table.features.size(0);
    const Tensor design = at::cat({standardised(table.features), at::ones({n, 1}, at::kDouble)}, 1);
    signed_rows_ = (design * (2 * table.labels - 1).unsqueeze(1)).contiguous();
    signed_t_ = signed_rows_.t().contiguous();
    log_prior_ = -0.5 * static_cast<double>(dim()) * std::log(2 * std::numbers::pi);
  }
  std::string name() const override { return name_; }
  int64_t dim() const override { return signed_rows_.size(1); }
  Tensor log_prob(const Tensor& x) const override {
    const Tensor likelihood =
        LogLikelihood::apply(x, signed_t_, signed_rows_, x.requires_grad() && at::GradMode::is_enabled());
    return likelihood - 0.5 * x.square().sum(-1) + log_prior_;
  }
  std::vector<std::string> parameter_names() const override {
    std::vector<std::string> names;
    for (int64_t i = 1; i < dim(); ++i) names.push_back(names_.empty() ? fmt::format("w.{}", i) : names_[i - 1]);
    names.push_back("bias");
    return names;
  }
  std::map<std::string, Tensor> observed_data() const override { return {{"y", labels_}}; }

  int64_t terms() const override { return signed_rows_.size(0); }
  Gradient log_prior(const Tensor& x, bool with_gradient) const override {
    return {-0.5 * x.square().sum(-1) + log_prior_, with_gradient ? -x : Tensor()};
  }
  Gradient log_likelihood(const Tensor& x, const Tensor& rows, bool with_gradient) const override {
    const Tensor chosen = signed_rows_.index_select(0, rows);
    if (!with_gradient) {
      const at::NoGradGuard no_grad;
      return {LogLikelihood::apply(x, chosen.t().contiguous(), chosen, false), {}};
    }
    // d/dx sum_i log sigmoid(m_i) = sum_i sigmoid(-m_i) dm_i/dx.
    const Tensor margin = at::mm(x, chosen.t());
    return {at::log_sigmoid(margin).sum(1), at::mm(at::sigmoid(-margin), chosen)};
  }
  Tensor terms_at(const Tensor& x, const Tensor& rows) const override {
    return at::log_sigmoid(at::mm(x, signed_rows_.index_select(0, rows).t()));
  }

 private:
  std::string name_;
  std::vector<std::string> names_;
  Tensor labels_;
  Tensor signed_rows_, signed_t_;  // [rows, dim], [dim, rows]
  double log_prior_;
};

}  // namespace

std::unique_ptr<SubsampledTarget> make_logistic(std::string name, const LabelledTable& table) {
  return std::make_unique<Logistic>(std::move(name), table);
}

std::unique_ptr<SubsampledTarget> make_logistic_from_file(const std::string& path) {
  return make_logistic("logistic:" + path, read_labelled_table(path));
}

LabelledTable simulate_logistic(const Tensor& theta, int64_t rows, Stream& stream) {
  const int64_t columns = theta.size(0) - 1;
  const Tensor x = standardised(stream.normal({rows, columns}));
  const Tensor p = at::sigmoid(at::matmul(x, theta.narrow(0, 0, columns)) + theta[columns]);
  return {x, at::lt(stream.uniform({rows}), p).to(at::kDouble), {}};
}

std::unique_ptr<SubsampledTarget> make_logistic_simulated() {
  Stream stream(20190601, Phase::kSimulated, 0, Purpose::kData);
  const Tensor theta = stream.normal({5});
  return make_logistic("logistic:simulated", simulate_logistic(theta, 200, stream));
}

}  // namespace hastings
