// Sums in vector lanes, written out: the order of addition is fixed by the code, not by the optimiser.
#pragma once

#include <cstdint>
#include <cstring>

namespace hastings {

template <class T>
class Lanes {
 public:
  // sum_i x_i y_i
  static T dot(const T* x, const T* y, int64_t n) {
    return reduce(
        n, [&](int64_t i) { return load(x + i) * load(y + i); }, [&](int64_t i) { return x[i] * y[i]; });
  }
  // sum_i x_i
  static T sum(const T* x, int64_t n) {
    return reduce(
        n, [&](int64_t i) { return load(x + i); }, [&](int64_t i) { return x[i]; });
  }

 private:
  typedef T Vector __attribute__((vector_size(32)));
  static constexpr int64_t kCount = 32 / sizeof(T);

  static inline Vector load(const T* x) {
    Vector v;
    std::memcpy(&v, x, sizeof(v));
    return v;
  }

  // Two vectors at a time hide the latency of the additions.
  template <class Wide, class Narrow>
  static inline T reduce(int64_t n, const Wide& wide, const Narrow& narrow) {
    Vector a{}, b{};
    int64_t i = 0;
    for (; i + 2 * kCount <= n; i += 2 * kCount) {
      a += wide(i);
      b += wide(i + kCount);
    }
    T total = 0;
    for (; i < n; ++i) total += narrow(i);
    a += b;
    for (int64_t k = 0; k < kCount; ++k) total += a[k];
    return total;
  }
};

}  // namespace hastings
