#include "hastings/plugin.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "hastings/core/error.h"
#include "hastings/target/user.h"
#include "library.h"

namespace hastings {
namespace {

class PluginTarget final : public Target {
 public:
  explicit PluginTarget(const std::string& path)
      : library_(path), log_prob_(library_.get<decltype(hastings_log_prob)>("hastings_log_prob")) {
    {
      const ForeignCode foreign(library_.path());
      dim_ = library_.get<decltype(hastings_dim)>("hastings_dim")();
    }
    if (dim_ < 1 || dim_ > kMaxDim) throw DataError(fmt::format("{}: hastings_dim() returned {}", path, dim_));
  }
  std::string name() const override { return "plugin:" + library_.path(); }
  int64_t dim() const override { return dim_; }
  Tensor log_prob(const Tensor& x) const override { return call(x, nullptr); }
  Gradient with_gradient(const Tensor& x) const override {
    Tensor gradient = at::empty({x.size(0), dim_}, at::kDouble);
    const Tensor value = call(x, gradient.data_ptr<double>());
    return {value, gradient};
  }

 private:
  Tensor call(const Tensor& x, double* gradient) const {
    const Tensor points = x.detach().contiguous();
    Tensor value = at::empty({x.size(0)}, at::kDouble);
    const ForeignCode foreign(library_.path());
    const int code = log_prob_(points.data_ptr<double>(), points.size(0), value.data_ptr<double>(), gradient);
    if (code != 0) throw NumericalError(fmt::format("target {}: hastings_log_prob returned error {}", name(), code));
    return value;
  }
  Library library_;
  decltype(hastings_log_prob)* log_prob_;
  int64_t dim_ = 0;
};

}  // namespace

std::unique_ptr<Target> make_plugin_target(const std::string& path) { return std::make_unique<PluginTarget>(path); }

}  // namespace hastings
