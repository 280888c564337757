#include "hastings/core/random.h"

#include <ATen/ATen.h>

#include <array>
#include <atomic>
#include <cmath>
#include <mutex>
#include <numbers>

#include "hastings/core/error.h"
#include "simd_math.h"

namespace hastings {
namespace {

constexpr int kLanes = 64;  // blocks made at a time, so that the rounds vectorise

struct Words {
  std::array<uint32_t, kLanes> a, b, c, d;
};

// Philox 4x32-10 for blocks first .. first + kLanes - 1 of one stream.
void philox(uint64_t first, uint32_t index, uint32_t use, const uint32_t key[2], Words& w) {
  constexpr uint32_t kMulA = 0xD2511F53, kMulC = 0xCD9E8D57, kWeylA = 0x9E3779B9, kWeylB = 0xBB67AE85;
  for (int i = 0; i < kLanes; ++i) {
    const uint64_t block = first + static_cast<uint64_t>(i);
    w.a[i] = static_cast<uint32_t>(block);
    w.b[i] = static_cast<uint32_t>(block >> 32);
    w.c[i] = index;
    w.d[i] = use;
  }
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kLanes; ++i) {
      const uint64_t p = static_cast<uint64_t>(kMulA) * w.a[i];
      const uint64_t q = static_cast<uint64_t>(kMulC) * w.c[i];
      const uint32_t a = static_cast<uint32_t>(q >> 32) ^ w.b[i] ^ k0;
      const uint32_t c = static_cast<uint32_t>(p >> 32) ^ w.d[i] ^ k1;
      w.b[i] = static_cast<uint32_t>(q);
      w.d[i] = static_cast<uint32_t>(p);
      w.a[i] = a;
      w.c[i] = c;
    }
    k0 += kWeylA;
    k1 += kWeylB;
  }
}

// 53 bits, centred in their cell: never 0, never 1.
inline double to_unit(uint32_t high, uint32_t low) {
  const uint64_t bits = (static_cast<uint64_t>(high) << 32 | low) >> 11;
  return (static_cast<double>(bits) + 0.5) * 0x1.0p-53;
}

std::atomic<StreamLedger*> ledger{nullptr};
std::mutex ledger_mutex;
std::atomic<uint64_t> opened{0};

}  // namespace

Stream::Stream(uint64_t seed, Phase phase, uint64_t index, Purpose purpose)
    : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
      index_(static_cast<uint32_t>(index)),
      use_(static_cast<uint32_t>(phase) << 16 | static_cast<uint32_t>(purpose)) {
  if (index >> 32 != 0) throw ConfigError("stream: index above 2^32");
  if (ledger.load(std::memory_order_relaxed) != nullptr) id_ = ++opened;
}

uint64_t Stream::take(uint64_t blocks) {
  const uint64_t first = block_;
  block_ += blocks;
  if (ledger.load(std::memory_order_relaxed) != nullptr) {
    const std::lock_guard<std::mutex> lock(ledger_mutex);
    ledger.load()->entries_.push_back({id_, key_[0] | static_cast<uint64_t>(key_[1]) << 32,
                                       static_cast<Phase>(use_ >> 16), index_, static_cast<Purpose>(use_ & 0xffff),
                                       first, blocks});
  }
  return first;
}

StreamLedger::StreamLedger() { ledger = this; }
StreamLedger::~StreamLedger() { ledger = nullptr; }

void Stream::uniform(std::span<double> out) {
  Words w;
  const size_t n = out.size();
  const uint64_t block = take((n + 1) / 2);
  for (size_t begin = 0; begin < n; begin += 2 * kLanes) {
    philox(block + begin / 2, index_, use_, key_, w);
    const size_t count = std::min<size_t>(2 * kLanes, n - begin);
    for (size_t i = 0; i < count; ++i) {
      const size_t lane = i / 2;
      out[begin + i] = i % 2 == 0 ? to_unit(w.a[lane], w.b[lane]) : to_unit(w.c[lane], w.d[lane]);
    }
  }
}

void Stream::normal(std::span<double> out) {
  Words w;
  std::array<double, kLanes> radius, angle, cosine, sine;
  const size_t n = out.size();
  const uint64_t block = take((n + 1) / 2);
  for (size_t begin = 0; begin < n; begin += 2 * kLanes) {
    philox(block + begin / 2, index_, use_, key_, w);
    const size_t count = std::min<size_t>(2 * kLanes, n - begin);
    for (int i = 0; i < kLanes; ++i) {
      radius[i] = to_unit(w.a[i], w.b[i]);
      angle[i] = to_unit(w.c[i], w.d[i]);
    }
    // One function a loop and full lanes: that is what the compiler turns into vector instructions.
#pragma omp simd
    for (int i = 0; i < kLanes; ++i) radius[i] = std::sqrt(-2.0 * std::log(radius[i]));
#pragma omp simd
    for (int i = 0; i < kLanes; ++i) cosine[i] = std::cos(2.0 * std::numbers::pi * angle[i]);
#pragma omp simd
    for (int i = 0; i < kLanes; ++i) sine[i] = std::sin(2.0 * std::numbers::pi * angle[i]);
    for (size_t i = 0; i < count / 2; ++i) {
      out[begin + 2 * i] = radius[i] * cosine[i];
      out[begin + 2 * i + 1] = radius[i] * sine[i];
    }
    if (count % 2 == 1) out[begin + count - 1] = radius[count / 2] * cosine[count / 2];
  }
}

double Stream::uniform() {
  double u;
  uniform(std::span<double>(&u, 1));
  return u;
}

Tensor Stream::uniform(at::IntArrayRef shape) {
  Tensor out = at::empty(shape, at::kDouble);
  uniform(std::span<double>(out.data_ptr<double>(), static_cast<size_t>(out.numel())));
  return out;
}

Tensor Stream::normal(at::IntArrayRef shape) {
  Tensor out = at::empty(shape, at::kDouble);
  normal(std::span<double>(out.data_ptr<double>(), static_cast<size_t>(out.numel())));
  return out;
}

Tensor Stream::integers(int64_t n, int64_t upper_bound) {
  return uniform({n}).mul_(static_cast<double>(upper_bound)).floor_().to(at::kLong);
}

Tensor Stream::permutation(int64_t n) { return uniform({n}).argsort(); }

Tensor RowStreams::normal(int64_t rows, int64_t columns) const {
  Tensor out = at::empty({rows, columns}, at::kDouble);
  double* data = out.data_ptr<double>();
  if (streams_.size() == 1) {
    streams_[0].normal({data, static_cast<size_t>(rows * columns)});
  } else {
    TORCH_INTERNAL_ASSERT(static_cast<int64_t>(streams_.size()) == rows);
    for (int64_t i = 0; i < rows; ++i) streams_[i].normal({data + i * columns, static_cast<size_t>(columns)});
  }
  return out;
}

Tensor RowStreams::uniform(int64_t rows) const {
  Tensor out = at::empty({rows}, at::kDouble);
  double* data = out.data_ptr<double>();
  if (streams_.size() == 1) {
    streams_[0].uniform({data, static_cast<size_t>(rows)});
  } else {
    TORCH_INTERNAL_ASSERT(static_cast<int64_t>(streams_.size()) == rows);
    for (int64_t i = 0; i < rows; ++i) data[i] = streams_[i].uniform();
  }
  return out;
}

}  // namespace hastings
