#include "hastings/target/constrain.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <set>

#include "checked.h"
#include "hastings/core/error.h"

namespace hastings {
namespace {

int64_t elements(const Parameter& p) { return std::max<int64_t>(p.size, 1); }
int64_t coordinates(const Parameter& p) { return elements(p) - (p.constraint == Constraint::kSimplex ? 1 : 0); }

void validate(const Parameter& p) {
  auto wrong = [&](const std::string& why) { throw ConfigError(fmt::format("parameter '{}': {}", p.name, why)); };
  if (p.name.empty()) throw ConfigError("a parameter has no name");
  if (p.size < 0) wrong(fmt::format("size is {}, must not be negative", p.size));
  if (p.constraint == Constraint::kSimplex && p.size < 2) wrong("a simplex has at least two elements");
  if (p.constraint == Constraint::kOrdered && p.size < 1) wrong("only a vector can be ordered");
  if (!std::isfinite(p.low) || !std::isfinite(p.high)) wrong("bounds must be finite");
  if (p.constraint == Constraint::kInterval && !(p.low < p.high))
    wrong(fmt::format("its interval from {} to {} is empty", p.low, p.high));
}

// Stick-breaking: x_k takes the share sigmoid(u_k - log(K - k)) of what is left, so that u = 0 is the centre.
Tensor stick_offsets(int64_t size) { return at::arange(size - 1, 0, -1, at::kDouble).log(); }

Constraints::Point simplex(const Tensor& u) {
  const int64_t size = u.size(1) + 1;
  const Tensor t = u - stick_offsets(size);
  const Tensor log_taken = at::log_sigmoid(t), log_passed = at::log_sigmoid(-t);
  const Tensor log_left = at::cat({at::zeros({u.size(0), 1}, at::kDouble), log_passed.cumsum(1)}, 1);  // [batch, size]
  const Tensor before = log_left.narrow(1, 0, size - 1);
  const Tensor x = at::cat({log_taken + before, log_left.narrow(1, size - 1, 1)}, 1).exp();
  return {x, (log_taken + log_passed + before).sum(1)};
}

Tensor unsimplex(const Tensor& x) {
  const int64_t size = x.size(1);
  const Tensor left = 1 - x.cumsum(1) + x;  // before element k
  const Tensor share = (x / left).narrow(1, 0, size - 1);
  return (share / (1 - share)).log() + stick_offsets(size);
}

Constraints::Point constrain_one(const Parameter& p, const Tensor& u) {
  switch (p.constraint) {
    case Constraint::kLower:
      return {p.low + u.exp(), u.sum(1)};
    case Constraint::kUpper:
      return {p.high - u.exp(), u.sum(1)};
    case Constraint::kInterval:
      return {p.low + (p.high - p.low) * at::sigmoid(u),
              (at::log_sigmoid(u) + at::log_sigmoid(-u) + std::log(p.high - p.low)).sum(1)};
    case Constraint::kSimplex:
      return simplex(u);
    case Constraint::kOrdered: {
      const Tensor rest = u.narrow(1, 1, u.size(1) - 1);
      return {at::cat({u.narrow(1, 0, 1), rest.exp()}, 1).cumsum(1), rest.sum(1)};
    }
    case Constraint::kFree:
      break;
  }
  return {u, at::zeros({u.size(0)}, at::kDouble)};
}

Tensor unconstrain_one(const Parameter& p, const Tensor& x) {
  switch (p.constraint) {
    case Constraint::kLower:
      return (x - p.low).log();
    case Constraint::kUpper:
      return (p.high - x).log();
    case Constraint::kInterval:
      return ((x - p.low) / (p.high - x)).log();
    case Constraint::kSimplex:
      return unsimplex(x);
    case Constraint::kOrdered:
      return at::cat({x.narrow(1, 0, 1), x.diff(1, 1).log()}, 1);
    case Constraint::kFree:
      break;
  }
  return x;
}

class ConstrainedTarget final : public Target {
 public:
  ConstrainedTarget(std::string name, Constraints constraints, std::function<Tensor(const Tensor&)> log_prob,
                    std::map<std::string, Tensor> observed)
      : name_(std::move(name)),
        constraints_(std::move(constraints)),
        log_prob_(std::move(log_prob)),
        observed_(std::move(observed)) {}
  std::string name() const override { return name_; }
  int64_t dim() const override { return constraints_.dim(); }
  Tensor log_prob(const Tensor& u) const override {
    const auto point = constraints_.constrain(u);
    return checked_log_prob(name_, point.x, log_prob_(point.x)) + point.log_jacobian;
  }
  std::vector<std::string> parameter_names() const override { return constraints_.unconstrained_names(); }
  std::vector<std::string> output_names() const override { return constraints_.names(); }
  Tensor outputs(const Tensor& u, Stream&) const override { return constraints_.constrain(u).x; }
  std::map<std::string, Tensor> observed_data() const override { return observed_; }

 private:
  std::string name_;
  Constraints constraints_;
  std::function<Tensor(const Tensor&)> log_prob_;
  std::map<std::string, Tensor> observed_;
};

}  // namespace

Constraints::Constraints(std::vector<Parameter> parameters) : parameters_(std::move(parameters)) {
  std::set<std::string> names;
  for (const auto& p : parameters_) {
    validate(p);
    if (!names.insert(p.name).second) throw ConfigError(fmt::format("two parameters are called '{}'", p.name));
    if (p.size > kMaxDim || (output_ += elements(p)) > kMaxDim)
      throw ConfigError(fmt::format("the parameters have more than {} elements", kMaxDim));
    dim_ += coordinates(p);
  }
  if (dim_ < 1) throw ConfigError("a density needs at least one parameter");
}

Constraints::Point Constraints::constrain(const Tensor& u) const {
  std::vector<Tensor> parts;
  Tensor log_jacobian = at::zeros({u.size(0)}, at::kDouble);
  int64_t at = 0;
  for (const auto& p : parameters_) {
    const Point part = constrain_one(p, u.narrow(1, at, coordinates(p)));
    parts.push_back(part.x);
    log_jacobian = log_jacobian + part.log_jacobian;
    at += coordinates(p);
  }
  return {parts.size() == 1 ? parts[0] : at::cat(parts, 1), log_jacobian};
}

Tensor Constraints::unconstrain(const Tensor& x) const {
  std::vector<Tensor> parts;
  int64_t at = 0;
  for (const auto& p : parameters_) {
    parts.push_back(unconstrain_one(p, x.narrow(1, at, elements(p))));
    at += elements(p);
  }
  return at::cat(parts, 1);
}

namespace {
std::vector<std::string> numbered(const std::vector<Parameter>& parameters, int64_t (*count)(const Parameter&)) {
  std::vector<std::string> names;
  for (const auto& p : parameters) {
    for (int64_t i = 1; i <= count(p); ++i) names.push_back(p.size == 0 ? p.name : fmt::format("{}.{}", p.name, i));
  }
  return names;
}
}  // namespace

std::vector<std::string> Constraints::names() const { return numbered(parameters_, elements); }
std::vector<std::string> Constraints::unconstrained_names() const { return numbered(parameters_, coordinates); }

std::unique_ptr<Target> make_constrained(std::string name, std::vector<Parameter> parameters,
                                         std::function<Tensor(const Tensor&)> log_prob,
                                         std::map<std::string, Tensor> observed_data) {
  return std::make_unique<ConstrainedTarget>(std::move(name), Constraints(std::move(parameters)), std::move(log_prob),
                                             std::move(observed_data));
}

}  // namespace hastings
