#include "mlp.h"
#include "spline.h"
#include "split.h"

namespace hastings {
namespace {

using spline::kTape;
using spline::Tape;

template <class T>
class SplineCoupling final : public SplineLayer<T> {
 public:
  SplineCoupling(Parameters<T>& parameters, const std::string& name, int64_t dim, bool swapped,
                 const CouplingOptions& options, Stream& random)
      : split_(dim, swapped),
        shape_(options.spline),
        net_(parameters, name + "net.", split_.a_size, options.hidden, split_.b_size * shape_.parameters(),
             options.activation, random) {}

 private:
  void map(const T* params, T* x, double* log_det, int64_t n, Workspace<T>& work, bool record,
           bool backwards) const override {
    const int64_t stride = shape_.parameters(), m = split_.b_size;
    T* raw = work.push(n * m * stride);  // [n, m, stride]
    auto* tape = record ? reinterpret_cast<Tape<T>*>(work.push(n * m * kTape<T>)) : nullptr;
    net_.forward(params, x + split_.a_begin * n, raw, n, true, work, record);
    T* b = x + split_.b_begin * n;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < m; ++j) {
        T* shares = raw + (i * m + j) * stride;
        spline::to_shares(shares, shape_.bins);
        spline::to_shares(shares + shape_.bins, shape_.bins);
        log_det[i] += static_cast<double>(
            spline::apply(b[j * n + i], shares, shape_, backwards, tape ? tape + i * m + j : nullptr));
      }
    }
    if (!record) work.pop();
  }

  void derivative(const T* params, T* grad, const T* grad_log_det, int64_t n, Workspace<T>& work,
                  T* grad_params) const override {
    const int64_t stride = shape_.parameters(), m = split_.b_size;
    const auto* tape = reinterpret_cast<const Tape<T>*>(work.peek(net_.pushes(true)));
    T* raw = work.peek(net_.pushes(true) + 1);  // shares; becomes the gradient of the raw parameters
    T* g = grad + split_.b_begin * n;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < m; ++j)
        element(tape[i * m + j], g[j * n + i], grad_log_det[i], raw + (i * m + j) * stride);
    }
    net_.derivative(params, raw, grad + split_.a_begin * n, n, true, work, grad_params);
    work.pop();
    work.pop();
  }

  // One element falls into one bin k: the edge's gradient goes to all shares left of k, the size's to share k.
  void element(const Tape<T>& tape, T& g, T gl, T* shares) const {
    const int64_t bins = shape_.bins;
    if (tape.value[7] < 0) {
      std::fill(shares, shares + shape_.parameters(), T(0));
      return;
    }
    T d[7];
    for (int l = 0; l < 7; ++l) d[l] = g * tape.value[l] + gl * tape.log_slope[l];
    const auto k = static_cast<int64_t>(tape.value[7]);
    const T scale = static_cast<T>(2 * shape_.bound), least = static_cast<T>(spline::kMinBin);
    const T whole = 1 / (1 - least * static_cast<T>(bins));
    for (int side = 0; side < 2; ++side) {
      T* s = shares + side * bins;
      const T edge = d[1 + 2 * side] * scale, size = d[2 + 2 * side] * scale;
      const T before = Lanes<T>::sum(s, k) - least * static_cast<T>(k);
      const T mean = (edge * before + size * (s[k] - least)) * whole;
      const T own = (s[k] - least) * (size - mean);
#pragma omp simd
      for (int64_t b = 0; b < k; ++b) s[b] = (s[b] - least) * (edge - mean);
#pragma omp simd
      for (int64_t b = k + 1; b < bins; ++b) s[b] = (s[b] - least) * -mean;
      s[k] = own;
    }
    std::fill(shares + 2 * bins, shares + shape_.parameters(), T(0));
    if (k > 0) shares[2 * bins + k - 1] = d[5];
    if (k + 1 < bins) shares[2 * bins + k] = d[6];
    g = d[0];
  }

  Split split_;
  SplineShape shape_;
  Mlp<T> net_;
};

}  // namespace

template <class T>
std::unique_ptr<Layer<T>> make_spline_coupling(Parameters<T>& parameters, const std::string& name, int64_t dim,
                                               bool swapped, const CouplingOptions& options, Stream& random) {
  return std::make_unique<SplineCoupling<T>>(parameters, name, dim, swapped, options, random);
}

template std::unique_ptr<Layer<float>> make_spline_coupling(Parameters<float>&, const std::string&, int64_t, bool,
                                                            const CouplingOptions&, Stream&);
template std::unique_ptr<Layer<double>> make_spline_coupling(Parameters<double>&, const std::string&, int64_t, bool,
                                                             const CouplingOptions&, Stream&);

}  // namespace hastings
