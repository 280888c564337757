// Numbers as text, fast: Stan CSV files are mostly this.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace hastings {

constexpr int kDigits = 9;  // significant ones, as in Stan's own files; draws.npz has every bit
constexpr int kMaxText = 32;

// Needs room for kMaxText characters, and returns the end of what counts.
inline char* write_number(char* out, double value) {
  static const auto triples = [] {
    std::array<char, 3000> t{};
    for (int i = 0; i < 1000; ++i) {
      t[static_cast<size_t>(3 * i)] = static_cast<char>('0' + i / 100);
      t[static_cast<size_t>(3 * i + 1)] = static_cast<char>('0' + i / 10 % 10);
      t[static_cast<size_t>(3 * i + 2)] = static_cast<char>('0' + i % 10);
    }
    return t;
  }();
  static constexpr double kPowers[] = {1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1e0,  1e1, 1e2,
                                       1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11, 1e12};
  if (!std::isfinite(value)) {
    const char* text = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
    const size_t n = std::strlen(text);
    std::memcpy(out, text, n);
    return out + n;
  }
  const double size = std::fabs(value);
  if (size == 0) {
    *out++ = '0';
    return out;
  }
  if (size < 1e-4 || size >= 999999999.0)
    return std::to_chars(out, out + kMaxText, value, std::chars_format::general, kDigits).ptr;
  *out = '-';
  out += value < 0;
  // The exponent of the leading digit, from the binary one: exact or one too low.
  int exponent = static_cast<int>(std::floor(0.30102999566398120 * std::ilogb(size)));
  exponent += size >= kPowers[exponent + 9];
  auto digits = static_cast<uint64_t>(size * kPowers[16 - exponent] + 0.5);  // kDigits of them, as a whole number
  if (digits >= 1000000000) {
    digits /= 10;
    ++exponent;
  }
  char text[24] = {};
  std::memcpy(text, &triples[3 * (digits / 1000000)], 3);
  std::memcpy(text + 3, &triples[3 * (digits / 1000 % 1000)], 3);
  std::memcpy(text + 6, &triples[3 * (digits % 1000)], 3);
  int last = kDigits;
  while (text[last - 1] == '0') --last;
  // Copies of fixed length, for speed; what is too much of them is written over by what follows.
  if (exponent < 0) {
    std::memcpy(out, "0.0000", 6);
    out += 1 - exponent;
    std::memcpy(out, text, kDigits);
    return out + last;
  }
  const int whole = exponent + 1;
  std::memcpy(out, text, kDigits);
  out += whole;
  if (last <= whole) return out;
  *out++ = '.';
  std::memcpy(out, text + whole, kDigits);
  return out + last - whole;
}

}  // namespace hastings
