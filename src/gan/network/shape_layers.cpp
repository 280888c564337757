// Layers that arrange what goes through them: shapes, sizes, padding.
#include <ATen/ATen.h>

#include "layer_types.h"

namespace hastings {
namespace {

using Made = std::unique_ptr<NetworkLayer>;

Made flatten(Fields&, Shape& shape, const Init&, const std::string&) {
  shape = {numel(shape)};
  return stateless([](const Tensor& x, const ForwardContext&) { return x.flatten(1); });
}

Made reshape(Fields& f, Shape& shape, const Init&, const std::string&) {
  const auto to = f.get<Shape>("shape");
  if (numel(to) < 0 || numel(to) != numel(shape))
    f.fail(fmt::format("cannot make [{}] of [{}]", fmt::join(to, ", "), fmt::join(shape, ", ")));
  shape = to;
  Shape full = {-1};
  full.insert(full.end(), to.begin(), to.end());
  return stateless([full](const Tensor& x, const ForwardContext&) { return x.reshape(full); });
}

Made identity(Fields&, Shape&, const Init&, const std::string&) {
  return stateless([](const Tensor& x, const ForwardContext&) { return x; });
}

// Edge pixels of zeros, and channels of zeros.
Made pad(Fields& f, Shape& shape, const Init&, const std::string&) {
  need_image(f, shape);
  const int64_t pixels = f.not_negative("pixels", 0), before = f.not_negative("channels_before", 0),
                after = f.not_negative("channels_after", 0);
  shape = {shape[0] + before + after, shape[1] + 2 * pixels, shape[2] + 2 * pixels};
  return stateless([=](const Tensor& x, const ForwardContext&) {
    return at::constant_pad_nd(x, {pixels, pixels, pixels, pixels, before, after});
  });
}

// Every n-th pixel.
Made subsample(Fields& f, Shape& shape, const Init&, const std::string&) {
  need_image(f, shape);
  const int64_t step = f.positive("step");
  shape = {shape[0], (shape[1] + step - 1) / step, (shape[2] + step - 1) / step};
  return stateless([step](const Tensor& x, const ForwardContext&) {
    return x.slice(2, 0, x.size(2), step).slice(3, 0, x.size(3), step);
  });
}

// Nearest neighbour.
Made upsample(Fields& f, Shape& shape, const Init&, const std::string&) {
  need_image(f, shape);
  const int64_t factor = f.positive("factor", 2);
  shape = {shape[0], shape[1] * factor, shape[2] * factor};
  const Shape size = {shape[1], shape[2]};
  return stateless([size](const Tensor& x, const ForwardContext&) { return at::upsample_nearest2d(x, size); });
}

// Bilinear.
Made resize(Fields& f, Shape& shape, const Init&, const std::string&) {
  need_image(f, shape);
  const int64_t size = f.positive("size");
  shape = {shape[0], size, size};
  return stateless([size](const Tensor& x, const ForwardContext&) {
    return at::upsample_bilinear2d(x, {size, size}, false);
  });
}

}  // namespace

std::vector<LayerType> shape_layers() {
  return {{"flatten", "", flatten},         {"reshape", "shape", reshape},
          {"identity", "", identity},       {"pad", "pixels, channels_before, channels_after", pad},
          {"subsample", "step", subsample}, {"upsample", "factor", upsample},
          {"resize", "size", resize}};
}

}  // namespace hastings
