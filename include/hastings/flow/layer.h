// Invertible layers with log-determinants and hand-written derivatives.
//
// A batch of n points is stored feature by feature, [dim, n], so that couplings split it by pointer and every
// loop runs over contiguous points. T is the network's precision, float or double; log-determinants are double.
//
// Each layer works in place. Going up (forward or inverse) with `record` it pushes what its derivative needs onto
// the workspace; coming back the derivative pops it. The gradient of a scalar L enters as dL/d(output) and
// dL/d(log_det), leaves as dL/d(input), and adds dL/d(parameters).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hastings {

// A stack of buffers that are reused from pass to pass.
template <class T>
class Workspace {
 public:
  T* push(int64_t size);
  T* pop();
  T* peek(int64_t below_top) const { return buffers_[depth_ - 1 - static_cast<size_t>(below_top)].data.get(); }
  int64_t depth() const { return static_cast<int64_t>(depth_); }

 private:
  struct Buffer {
    std::unique_ptr<T[]> data;
    int64_t capacity = 0;
  };
  std::vector<Buffer> buffers_;
  size_t depth_ = 0;
};

// Where a named block of parameters lies in the flat vector of all parameters.
struct ParameterSlot {
  std::string name;
  std::vector<int64_t> shape;
  int64_t offset = 0, size = 0;
  bool trainable = true;
  double rate = 1;  // factor on the learning rate
};

// All parameters of a flow, one after the other.
template <class T>
struct Parameters {
  std::vector<ParameterSlot> slots;
  std::vector<T> values;
  // Appends a block of zeros and returns its offset.
  int64_t add(const std::string& name, std::vector<int64_t> shape, bool trainable = true, double rate = 1);
};

template <class T>
class Layer {
 public:
  virtual ~Layer() = default;
  // x [dim, n] in place; adds to log_det [n].
  virtual void forward(const T* params, T* x, double* log_det, int64_t n, Workspace<T>& work, bool record) const = 0;
  virtual void inverse(const T* params, T* x, double* log_det, int64_t n, Workspace<T>& work, bool record) const = 0;
  // grad [dim, n]: dL/d(output) on entry, dL/d(input) on exit. grad_log_det [n]. Adds to grad_params.
  virtual void forward_derivative(const T* params, T* grad, const T* grad_log_det, int64_t n, Workspace<T>& work,
                                  T* grad_params) const = 0;
  virtual void inverse_derivative(const T* params, T* grad, const T* grad_log_det, int64_t n, Workspace<T>& work,
                                  T* grad_params) const = 0;
};

// Layers one after the other: first to last going forward.
template <class T>
struct Flow {
  int64_t dim = 0;
  std::vector<std::unique_ptr<Layer<T>>> layers;
  Parameters<T> parameters;

  void forward(T* x, double* log_det, int64_t n, Workspace<T>& work, bool record) const;
  void inverse(T* x, double* log_det, int64_t n, Workspace<T>& work, bool record) const;
  void forward_derivative(T* grad, const T* grad_log_det, int64_t n, Workspace<T>& work, T* grad_params) const;
  void inverse_derivative(T* grad, const T* grad_log_det, int64_t n, Workspace<T>& work, T* grad_params) const;
};

}  // namespace hastings
