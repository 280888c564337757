// The transposed convolution as what it is, the gradient of a convolution with respect to its input: oneDNN has fast
// kernels for that and its own gradients, LibTorch 1.13's native one goes through column buffers and takes twice as
// long.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace hastings {

class ConvTranspose : public torch::autograd::Function<ConvTranspose> {
 public:
  // x [n, in, h, w], weight [in, out, k, k] to [n, out, height, width]
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            int64_t stride, int64_t padding, int64_t height, int64_t width) {
    context->save_for_backward({x, weight});
    context->saved_data["stride"] = stride;
    context->saved_data["padding"] = padding;
    if (whole(x, padding)) return x.flatten(1).mm(weight.flatten(1)).view({x.size(0), weight.size(1), height, width});
    const at::Tensor like = at::empty({1}, x.options()).expand({x.size(0), weight.size(1), height, width});
    return std::get<0>(at::convolution_backward(x, like, weight, c10::nullopt, {stride, stride}, {padding, padding},
                                                {1, 1}, false, {0, 0}, 1, {true, false, false}));
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const int64_t stride = context->saved_data["stride"].toInt(), padding = context->saved_data["padding"].toInt();
    const at::Tensor g = gradients[0].contiguous();
    at::Tensor to_x, to_weight;
    if (whole(x, padding)) {
      const at::Tensor flat = g.flatten(1);
      if (context->needs_input_grad(0)) to_x = flat.mm(weight.flatten(1).t()).view(x.sizes());
      to_weight = x.flatten(1).t().mm(flat).view(weight.sizes());
    } else {
      if (context->needs_input_grad(0)) to_x = at::conv2d(g, weight, {}, stride, padding);
      to_weight = std::get<1>(at::convolution_backward(x, g, weight, c10::nullopt, {stride, stride}, {padding, padding},
                                                       {1, 1}, false, {0, 0}, 1, {false, true, false}));
    }
    return {to_x, to_weight, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }

 private:
  // One pixel grows into one kernel: a product of matrices.
  static bool whole(const at::Tensor& x, int64_t padding) { return x.size(2) == 1 && x.size(3) == 1 && padding == 0; }
};

}  // namespace hastings
