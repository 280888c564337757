// The conditioner of a coupling: a small fully-connected network with hand-written derivative.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "../core/simd_math.h"
#include "blas.h"
#include "hastings/core/random.h"
#include "hastings/flow/layers.h"

namespace hastings {

template <class T>
class Mlp {
 public:
  // in -> hidden[0] -> ... -> out. The last layer starts at zero, so that a coupling starts as the identity.
  Mlp(Parameters<T>& parameters, const std::string& name, int64_t in, const std::vector<int64_t>& hidden, int64_t out,
      Activation activation, Stream& random)
      : activation_(activation) {
    sizes_.push_back(in);
    sizes_.insert(sizes_.end(), hidden.begin(), hidden.end());
    sizes_.push_back(out);
    for (size_t i = 0; i + 1 < sizes_.size(); ++i) {
      const std::string prefix = name + std::to_string(i);
      weight_.push_back(parameters.add(prefix + ".weight", {sizes_[i + 1], sizes_[i]}));
      bias_.push_back(parameters.add(prefix + ".bias", {sizes_[i + 1]}));
      if (i + 2 == sizes_.size()) break;
      const double gain =
          (activation == Activation::kTanh ? 1.0 : std::sqrt(2.0)) / std::sqrt(static_cast<double>(sizes_[i]));
      draw(parameters, weight_.back(), sizes_[i + 1] * sizes_[i], gain, random);
      // Biases spread over the inputs' range, so that units of few inputs still differ.
      draw(parameters, bias_.back(), sizes_[i + 1], 1.0, random);
    }
  }

  int64_t in() const { return sizes_.front(); }
  int64_t out() const { return sizes_.back(); }
  // Buffers a recorded pass leaves: the input, and for each hidden layer its values (and slopes, if these do not follow
  // from the values).
  int64_t pushes(bool by_point) const {
    if (thin(by_point)) return 1;
    return 1 + static_cast<int64_t>(weight_.size() - 1) * (keeps_slopes() ? 2 : 1);
  }

  // in [in, n] -> out, as [out, n], or as [n, out] if `by_point`. With `record`, pushes its input and for each
  // hidden layer values and slopes.
  void forward(const T* params, const T* input, T* output, int64_t n, bool by_point, Workspace<T>& work,
               bool record) const {
    const size_t layers = weight_.size();
    const T* h = input;
    if (record) {
      T* copy = work.push(in() * n);
      std::memcpy(copy, input, static_cast<size_t>(in() * n) * sizeof(T));
      h = copy;
    }
    if (thin(by_point)) return thin_forward(params, h, output, n, work);
    for (size_t i = 0; i + 1 < layers; ++i) {
      const int64_t width = sizes_[i + 1];
      T* next = work.push(width * n);
      T* slope = record && keeps_slopes() ? work.push(width * n) : nullptr;
      gemm(Op::kNone, Op::kNone, width, n, sizes_[i], params + weight_[i], sizes_[i], h, n, T(0), next, n);
      for (int64_t j = 0; j < width; ++j)
        activate(params[bias_[i] + j], next + j * n, slope ? slope + j * n : nullptr, n);
      h = next;
    }
    const T *w = params + weight_.back(), *b = params + bias_.back();
    const int64_t from = sizes_[layers - 1];
    if (by_point) {
      for (int64_t i = 0; i < n; ++i) std::memcpy(output + i * out(), b, static_cast<size_t>(out()) * sizeof(T));
      gemm(Op::kTranspose, Op::kTranspose, n, out(), from, h, n, w, from, T(1), output, out());
    } else {
      for (int64_t j = 0; j < out(); ++j) std::fill(output + j * n, output + (j + 1) * n, b[j]);
      gemm(Op::kNone, Op::kNone, out(), n, from, w, from, h, n, T(1), output, n);
    }
    if (!record) {
      for (size_t i = 0; i + 1 < layers; ++i) work.pop();
    }
  }

  // grad_output in the layout of output; adds to grad_input [in, n] and grad_params. Pops what forward pushed.
  void derivative(const T* params, const T* grad_output, T* grad_input, int64_t n, bool by_point, Workspace<T>& work,
                  T* grad_params) const {
    if (thin(by_point)) {
      const T* input = work.peek(0);
      thin_derivative(params, input, grad_output, grad_input, n, work, grad_params);
      work.pop();
      return;
    }
    const size_t layers = weight_.size();
    std::vector<const T*> values(layers), slopes(layers);  // values[i]: input of layer i
    for (size_t i = layers - 1; i > 0; --i) {
      if (keeps_slopes()) slopes[i] = work.pop();
      values[i] = work.pop();
    }
    values[0] = work.pop();
    for (int64_t i = 0; i < pushes(by_point); ++i) work.push(0);  // keep them while scratch is taken above
    const T* grad = grad_output;
    for (size_t i = layers; i-- > 0;) {
      const int64_t rows = sizes_[i + 1], columns = sizes_[i];
      const bool transposed = by_point && i + 1 == layers;  // grad is [n, rows]
      gemm(transposed ? Op::kTranspose : Op::kNone, Op::kTranspose, rows, columns, n, grad, transposed ? rows : n,
           values[i], n, T(1), grad_params + weight_[i], columns);
      add_sums(grad, rows, n, transposed, grad_params + bias_[i]);
      T* below = i == 0 ? grad_input : work.push(columns * n);
      gemm(Op::kTranspose, transposed ? Op::kTranspose : Op::kNone, columns, n, rows, params + weight_[i], columns,
           grad, transposed ? rows : n, i == 0 ? T(1) : T(0), below, n);
      if (i > 0) times_slope(below, values[i], slopes[i], columns * n);
      grad = below;
    }
    for (int64_t i = 0; i < pushes(by_point) + static_cast<int64_t>(layers) - 1; ++i) work.pop();
  }

 private:
  static void draw(Parameters<T>& parameters, int64_t offset, int64_t count, double scale, Stream& random) {
    std::vector<double> z(static_cast<size_t>(count));
    random.normal(z);
    for (int64_t i = 0; i < count; ++i)
      parameters.values[static_cast<size_t>(offset + i)] = static_cast<T>(scale * z[static_cast<size_t>(i)]);
  }

  static void add_sums(const T* grad, int64_t rows, int64_t n, bool transposed, T* out) {
    if (transposed) {
      for (int64_t i = 0; i < n; ++i) {
#pragma omp simd
        for (int64_t j = 0; j < rows; ++j) out[j] += grad[i * rows + j];
      }
      return;
    }
    for (int64_t j = 0; j < rows; ++j) out[j] += Lanes<T>::sum(grad + j * n, n);
  }

  bool keeps_slopes() const { return activation_ == Activation::kSilu; }

  // grad *= activation'(a), from the values h = activation(a) where that is enough.
  void times_slope(T* grad, const T* h, const T* slope, int64_t count) const {
    switch (activation_) {
      case Activation::kRelu:
#pragma omp simd
        for (int64_t k = 0; k < count; ++k) grad[k] = h[k] > 0 ? grad[k] : T(0);
        break;
      case Activation::kTanh:
#pragma omp simd
        for (int64_t k = 0; k < count; ++k) grad[k] *= 1 - h[k] * h[k];
        break;
      case Activation::kSilu:
#pragma omp simd
        for (int64_t k = 0; k < count; ++k) grad[k] *= slope[k];
        break;
    }
  }

  // One unit: row = activation(row + b), and its slope where one is wanted and does not follow from the value.
  void activate(T b, T* row, T* slope, int64_t n) const {
    switch (activation_) {
      case Activation::kRelu:
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) row[i] = std::max(row[i] + b, T(0));
        break;
      case Activation::kTanh:
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) row[i] = std::tanh(row[i] + b);
        break;
      case Activation::kSilu:
        if (slope) {
#pragma omp simd
          for (int64_t i = 0; i < n; ++i) {
            const T a = row[i] + b, s = 1 / (1 + std::exp(-a));
            row[i] = a * s;
            slope[i] = s + a * s * (1 - s);
          }
        } else {
#pragma omp simd
          for (int64_t i = 0; i < n; ++i) {
            const T a = row[i] + b;
            row[i] = a / (1 + std::exp(-a));
          }
        }
        break;
    }
  }

  // ---- One hidden layer between few inputs and few outputs ----
  // A few units at a time, their values at n points in the first-level cache and never stored: going back they are made
  // again. The library's product would spend more on packing than on multiplying.
  static constexpr int64_t kFew = 32, kUnits = 8;

  bool thin(bool by_point) const { return !by_point && weight_.size() == 2 && in() <= kFew && out() <= kFew; }

  void units(const T* params, const T* input, int64_t first, int64_t count, int64_t n, T* rows, T* slopes) const {
    scaled_rows(Op::kNone, count, n, in(), params + weight_[0] + first * in(), in(), input, n, T(0), rows, n);
    for (int64_t j = 0; j < count; ++j)
      activate(params[bias_[0] + first + j], rows + j * n, slopes ? slopes + j * n : nullptr, n);
  }

  void thin_forward(const T* params, const T* input, T* output, int64_t n, Workspace<T>& work) const {
    const int64_t width = sizes_[1];
    T* rows = work.push(kUnits * n);
    for (int64_t o = 0; o < out(); ++o) std::fill(output + o * n, output + (o + 1) * n, params[bias_[1] + o]);
    for (int64_t j = 0; j < width; j += kUnits) {
      const int64_t count = std::min(kUnits, width - j);
      units(params, input, j, count, n, rows, nullptr);
      scaled_rows(Op::kNone, out(), n, count, params + weight_[1] + j, width, rows, n, T(1), output, n);
    }
    work.pop();
  }

  void thin_derivative(const T* params, const T* input, const T* grad_output, T* grad_input, int64_t n,
                       Workspace<T>& work, T* grad_params) const {
    const int64_t width = sizes_[1];
    T *rows = work.push(kUnits * n), *slopes = work.push(kUnits * n), *back = work.push(kUnits * n);
    add_sums(grad_output, out(), n, false, grad_params + bias_[1]);
    for (int64_t j = 0; j < width; j += kUnits) {
      const int64_t count = std::min(kUnits, width - j), incoming = weight_[0] + j * in(), outgoing = weight_[1] + j;
      units(params, input, j, count, n, rows, slopes);
      scaled_rows(Op::kTranspose, count, n, out(), params + outgoing, width, grad_output, n, T(0), back, n);
      dot_products(out(), count, n, grad_output, n, rows, n, T(1), grad_params + outgoing, width);
      times_slope(back, rows, slopes, count * n);
      add_sums(back, count, n, false, grad_params + bias_[0] + j);
      dot_products(count, in(), n, back, n, input, n, T(1), grad_params + incoming, in());
      scaled_rows(Op::kTranspose, in(), n, count, params + incoming, in(), back, n, T(1), grad_input, n);
    }
    for (int i = 0; i < 3; ++i) work.pop();
  }

  std::vector<int64_t> sizes_, weight_, bias_;
  Activation activation_;
};

}  // namespace hastings
