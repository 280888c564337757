// What the two networks learn by. Each loss is one file in src/gan/train, and an entry here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hastings/core/random.h"
#include "hastings/core/tensor.h"
#include "hastings/gan/network/pair.h"

namespace hastings {

enum class LossKind { kDcgan, kWganGp, kAr, kArlb };

// One batch as the discriminator sees it.
struct DiscriminatorBatch {
  const Pair& pair;
  Tensor real, fake;        // [n, c, h, w] in [-1, 1]
  Tensor on_real, on_fake;  // [n] logits
  Stream& noise;
  double gradient_penalty;  // its weight, where there is one
};

struct GeneratorLoss {
  Tensor loss;            // what is differentiated
  double value = 0;       // what is reported
  double acceptance = 0;  // of the generated against the real, by the discriminator; NaN where it gives no log weight
};

class GanLoss {
 public:
  virtual ~GanLoss() = default;
  virtual Tensor discriminator(const DiscriminatorBatch& batch) const = 0;
  // `logits` [n] of generated images, with a graph; `real` [m] double: those of the last real batch.
  virtual GeneratorLoss generator(const Tensor& logits, const Tensor& real) const = 0;
};

struct LossEntry {
  LossKind kind;
  const char *name, *help;
  // Where the user gives none.
  double learning_rate;
  int64_t critic_steps;  // discriminator steps an iteration
  double beta1, beta2;   // Adam's
  std::unique_ptr<GanLoss> (*make)();
};

const std::vector<LossEntry>& gan_losses();
const LossEntry& entry_of(LossKind kind);
LossKind parse_loss(const std::string& name);  // ConfigError lists the names
std::string to_string(LossKind kind);
inline void parse(const std::string& name, LossKind& kind) { kind = parse_loss(name); }

}  // namespace hastings
