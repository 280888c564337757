#include "hastings/flow/layer.h"

#include <algorithm>
#include <numeric>

namespace hastings {

template <class T>
T* Workspace<T>::push(int64_t size) {
  if (depth_ == buffers_.size()) buffers_.emplace_back();
  Buffer& buffer = buffers_[depth_++];
  if (buffer.capacity < size) {
    buffer.data.reset(new T[static_cast<size_t>(size)]);
    buffer.capacity = size;
  }
  return buffer.data.get();
}

template <class T>
T* Workspace<T>::pop() {
  return buffers_[--depth_].data.get();
}

template <class T>
int64_t Parameters<T>::add(const std::string& name, std::vector<int64_t> shape, bool trainable, double rate) {
  const int64_t size = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  const auto offset = static_cast<int64_t>(values.size());
  slots.push_back({name, std::move(shape), offset, size, trainable, rate});
  values.resize(values.size() + static_cast<size_t>(size), T(0));
  return offset;
}

template <class T>
void Flow<T>::forward(T* x, double* log_det, int64_t n, Workspace<T>& work, bool record) const {
  for (const auto& layer : layers) layer->forward(parameters.values.data(), x, log_det, n, work, record);
}

template <class T>
void Flow<T>::inverse(T* x, double* log_det, int64_t n, Workspace<T>& work, bool record) const {
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    (*layer)->inverse(parameters.values.data(), x, log_det, n, work, record);
  }
}

template <class T>
void Flow<T>::forward_derivative(T* grad, const T* grad_log_det, int64_t n, Workspace<T>& work, T* grad_params) const {
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    (*layer)->forward_derivative(parameters.values.data(), grad, grad_log_det, n, work, grad_params);
  }
}

template <class T>
void Flow<T>::inverse_derivative(T* grad, const T* grad_log_det, int64_t n, Workspace<T>& work, T* grad_params) const {
  for (const auto& layer : layers) {
    layer->inverse_derivative(parameters.values.data(), grad, grad_log_det, n, work, grad_params);
  }
}

template class Workspace<float>;
template class Workspace<double>;
template struct Parameters<float>;
template struct Parameters<double>;
template struct Flow<float>;
template struct Flow<double>;

}  // namespace hastings
