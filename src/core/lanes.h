// Sums in vector lanes, written out: the order of addition is fixed by the code, not by the optimiser.
#pragma once

#include <cstdint>
#include <cstring>

namespace hastings {

template <class T>
class Lanes {
 public:
  typedef T Vector __attribute__((vector_size(32)));
  static constexpr int64_t kCount = 32 / sizeof(T);

  static inline Vector load(const T* x) {
    Vector v;
    std::memcpy(&v, x, sizeof(v));
    return v;
  }
  static inline void store(T* x, Vector v) { std::memcpy(x, &v, sizeof(v)); }

  // The sum of the lanes, halves onto each other.
  static inline T total(Vector v) {
    for (int64_t half = kCount / 2; half > 0; half /= 2) {
      for (int64_t k = 0; k < half; ++k) v[k] += v[k + half];
    }
    return v[0];
  }

  // The sums of four vectors' lanes, neighbours onto each other, all four at a time.
  static inline void totals(const Vector v[4], T out[4]) {
    if constexpr (kCount == 8) {
      const Vector ab = __builtin_shufflevector(v[0], v[1], 0, 8, 2, 10, 4, 12, 6, 14) +
                        __builtin_shufflevector(v[0], v[1], 1, 9, 3, 11, 5, 13, 7, 15),
                   cd = __builtin_shufflevector(v[2], v[3], 0, 8, 2, 10, 4, 12, 6, 14) +
                        __builtin_shufflevector(v[2], v[3], 1, 9, 3, 11, 5, 13, 7, 15),
                   halves = __builtin_shufflevector(ab, cd, 0, 1, 8, 9, 4, 5, 12, 13) +
                            __builtin_shufflevector(ab, cd, 2, 3, 10, 11, 6, 7, 14, 15);
      for (int k = 0; k < 4; ++k) out[k] = halves[k] + halves[k + 4];
    } else {
      const Vector ab = __builtin_shufflevector(v[0], v[1], 0, 4, 2, 6) +
                        __builtin_shufflevector(v[0], v[1], 1, 5, 3, 7),
                   cd = __builtin_shufflevector(v[2], v[3], 0, 4, 2, 6) +
                        __builtin_shufflevector(v[2], v[3], 1, 5, 3, 7),
                   all = __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
      for (int k = 0; k < 4; ++k) out[k] = all[k];
    }
  }

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
  // Two vectors at a time hide the latency of the additions.
  template <class Wide, class Narrow>
  static inline T reduce(int64_t n, const Wide& wide, const Narrow& narrow) {
    Vector a{}, b{};
    int64_t i = 0;
    for (; i + 2 * kCount <= n; i += 2 * kCount) {
      a += wide(i);
      b += wide(i + kCount);
    }
    T tail = 0;
    for (; i < n; ++i) tail += narrow(i);
    return tail + total(a + b);
  }
};

}  // namespace hastings
