#include "layer_fields.h"

#include <ATen/ATen.h>

#include <cmath>

#include "../../core/arithmetic.h"

namespace hastings {

int64_t numel(const Shape& shape) { return elements_of(shape).value_or(-1); }

void need_image(const Fields& f, const Shape& shape) {
  if (shape.size() != 3) f.fail(fmt::format("needs [channels, height, width], but has [{}]", fmt::join(shape, ", ")));
}

int64_t windows(const Fields& f, int64_t n, int64_t kernel, int64_t stride, int64_t padding) {
  const int64_t room = n + 2 * padding - kernel;
  if (room < 0) f.fail(fmt::format("a kernel of {} does not fit into {} with padding {}", kernel, n, padding));
  return room / stride + 1;
}

Tensor fresh(const Init& init, const Shape& shape, int64_t fan_in, double mean, double sd) {
  const int64_t count = numel(shape);
  if (init.left != nullptr && (count < 0 || (*init.left -= count) < 0))
    throw ConfigError("its layers ask for more weights than there are, or than any network has");
  if (init.stream == nullptr) return at::empty(shape, at::kFloat);
  if (init.fan_in) {
    const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
    return ((init.stream->uniform(shape) * 2 - 1) * bound).to(at::kFloat);
  }
  return (init.stream->normal(shape) * sd + mean).to(at::kFloat);
}

Tensor fresh_bias(const Init& init, int64_t size, int64_t fan_in) {
  return init.fan_in ? fresh(init, {size}, fan_in, 0, 0) : at::zeros({size}, at::kFloat);
}

}  // namespace hastings
