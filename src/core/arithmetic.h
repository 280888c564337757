// Products and sums of sizes that a file claims: an overflow is caught, not wrapped around.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace hastings {

inline std::optional<int64_t> product(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

inline std::optional<int64_t> sum(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

// Elements of an array of that shape; nothing for negative sizes and for what no memory holds.
inline std::optional<int64_t> elements_of(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t n : shape) {  // without regard to zeros, which would hide a size that LibTorch refuses
    if (n < 0) return std::nullopt;
    const auto more = product(count, n > 0 ? n : 1);
    if (!more || *more > int64_t{1} << 48) return std::nullopt;
    count = *more;
  }
  for (const int64_t n : shape) {
    if (n == 0) return 0;
  }
  return count;
}

}  // namespace hastings
