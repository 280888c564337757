#include <optional>

#include "mlp.h"
#include "split.h"

namespace hastings {
namespace {

template <class T>
class AffineCoupling final : public Layer<T> {
 public:
  AffineCoupling(Parameters<T>& parameters, const std::string& name, int64_t dim, bool swapped,
                 const CouplingOptions& options, Stream& random)
      : split_(dim, swapped),
        cap_(static_cast<T>(options.max_log_scale)),
        s_(parameters, name + (options.separate ? "s." : "st."), split_.a_size, options.hidden,
           options.separate ? split_.b_size : 2 * split_.b_size, options.activation, random) {
    if (options.separate) {
      t_.emplace(parameters, name + "t.", split_.a_size, options.hidden, split_.b_size, options.activation, random);
    }
  }

  void forward(const T* params, T* x, double* log_det, int64_t n, Workspace<T>& work, bool record) const override {
    map<false>(params, x, log_det, n, work, record);
  }
  void inverse(const T* params, T* x, double* log_det, int64_t n, Workspace<T>& work, bool record) const override {
    map<true>(params, x, log_det, n, work, record);
  }
  void forward_derivative(const T* params, T* grad, const T* grad_log_det, int64_t n, Workspace<T>& work,
                          T* grad_params) const override {
    derivative<false>(params, grad, grad_log_det, n, work, grad_params);
  }
  void inverse_derivative(const T* params, T* grad, const T* grad_log_det, int64_t n, Workspace<T>& work,
                          T* grad_params) const override {
    derivative<true>(params, grad, grad_log_det, n, work, grad_params);
  }

 private:
  // y = x e^s + t, or backwards x = (y - t) e^-s, with s = cap tanh(raw / cap).
  // Saved: e^{+-s}; ds/draw; and what multiplies dL/dy in dL/ds.
  template <bool kBackwards>
  void map(const T* params, T* x, double* log_det, int64_t n, Workspace<T>& work, bool record) const {
    const int64_t size = split_.b_size * n;
    T* saved = record ? work.push(3 * size) : nullptr;
    T* out = work.push(2 * size);
    const T* a = x + split_.a_begin * n;
    s_.forward(params, a, out, n, false, work, record);
    if (t_) t_->forward(params, a, out + size, n, false, work, record);
    T* b = x + split_.b_begin * n;
    const T inverse_cap = 1 / cap_;
    for (int64_t j = 0; j < split_.b_size; ++j) {
      const T *raw = out + j * n, *t = out + size + j * n;
      T* y = b + j * n;
      if (record) {
        T *scale = saved + j * n, *slope = saved + size + j * n, *lever = saved + 2 * size + j * n;
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) {
          const T bent = std::tanh(raw[i] * inverse_cap), s = cap_ * bent;
          const T e = std::exp(kBackwards ? -s : s);
          scale[i] = e;
          slope[i] = 1 - bent * bent;
          const T value = kBackwards ? (y[i] - t[i]) * e : y[i] * e + t[i];
          lever[i] = kBackwards ? -value : y[i] * e;
          y[i] = value;
          log_det[i] += static_cast<double>(kBackwards ? -s : s);
        }
      } else {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) {
          const T s = cap_ * std::tanh(raw[i] * inverse_cap);
          const T e = std::exp(kBackwards ? -s : s);
          y[i] = kBackwards ? (y[i] - t[i]) * e : y[i] * e + t[i];
          log_det[i] += static_cast<double>(kBackwards ? -s : s);
        }
      }
    }
    if (!record) work.pop();
  }

  template <bool kBackwards>
  void derivative(const T* params, T* grad, const T* grad_log_det, int64_t n, Workspace<T>& work,
                  T* grad_params) const {
    const int64_t size = split_.b_size * n, above = s_.pushes(false) + (t_ ? t_->pushes(false) : 0);
    T* out = work.peek(above);  // becomes the gradient of raw s and t
    const T* saved = work.peek(above + 1);
    T* g = grad + split_.b_begin * n;
    for (int64_t j = 0; j < split_.b_size; ++j) {
      T *gs = out + j * n, *gt = out + size + j * n, *gy = g + j * n;
      const T *scale = saved + j * n, *slope = saved + size + j * n, *lever = saved + 2 * size + j * n;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        gs[i] = (gy[i] * lever[i] + (kBackwards ? -grad_log_det[i] : grad_log_det[i])) * slope[i];
        gt[i] = kBackwards ? -gy[i] * scale[i] : gy[i];
        gy[i] *= scale[i];
      }
    }
    T* grad_a = grad + split_.a_begin * n;
    if (t_) t_->derivative(params, out + size, grad_a, n, false, work, grad_params);
    s_.derivative(params, out, grad_a, n, false, work, grad_params);
    work.pop();
    work.pop();
  }

  Split split_;
  T cap_;
  Mlp<T> s_;
  std::optional<Mlp<T>> t_;
};

}  // namespace

template <class T>
std::unique_ptr<Layer<T>> make_affine_coupling(Parameters<T>& parameters, const std::string& name, int64_t dim,
                                               bool swapped, const CouplingOptions& options, Stream& random) {
  return std::make_unique<AffineCoupling<T>>(parameters, name, dim, swapped, options, random);
}

template std::unique_ptr<Layer<float>> make_affine_coupling(Parameters<float>&, const std::string&, int64_t, bool,
                                                            const CouplingOptions&, Stream&);
template std::unique_ptr<Layer<double>> make_affine_coupling(Parameters<double>&, const std::string&, int64_t, bool,
                                                             const CouplingOptions&, Stream&);

}  // namespace hastings
