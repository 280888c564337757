#include "hastings/gan/filter/propose.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "hastings/core/error.h"
#include "hastings/core/parallel.h"

namespace hastings {
namespace {

Opinions opinions_on(const Pair& pair, const Tensor& images, const Questions& asked) {
  const at::NoGradGuard no_grad;
  Opinions out;
  const bool shown = asked.features && pair.discriminator->has_features();
  out.logits = pair.logits(images, shown ? &out.features : nullptr).to(at::kDouble);
  // A module that hides its features: the image itself, small.
  if (asked.features && !shown) out.features = at::adaptive_avg_pool2d(images, {8, 8}).flatten(1);
  if (asked.witness != nullptr) out.witness = asked.witness->of_images(images);
  return out;
}

Opinions join(const std::vector<Opinions>& parts) {
  auto all = [&](Tensor Opinions::*member) {
    std::vector<Tensor> out;
    for (const auto& p : parts) out.push_back(p.*member);
    return out.front().defined() ? at::cat(out) : Tensor();
  };
  return {all(&Opinions::logits), all(&Opinions::features), all(&Opinions::witness)};
}

}  // namespace

Proposals::Proposals(const Pair& pair, uint64_t seed, Phase phase, int threads)
    : pair_(pair), seed_(seed), phase_(phase), threads_(resolve_threads(threads)) {}

Tensor Proposals::latents(int64_t block) const {
  Stream stream(seed_, phase_, static_cast<uint64_t>(block), Purpose::kProposal);
  return pair_.latent.draw(stream, kProposalBlock);
}

Opinions Proposals::block(int64_t number, const Questions& questions) const {
  const at::NoGradGuard no_grad;
  // Looked at as it would be handed out, in bytes, like the real images it is held against.
  return opinions_on(pair_, rounded_to_bytes(pair_.generate(latents(number))), questions);
}

Opinions Proposals::opinions(int64_t from, int64_t count, const Questions& questions) const {
  const int64_t first = from / kProposalBlock, last = (from + count + kProposalBlock - 1) / kProposalBlock;
  std::vector<Opinions> parts(static_cast<size_t>(last - first));
  parallel_tasks(last - first, threads_,
                 [&](int64_t i) { parts[static_cast<size_t>(i)] = block(first + i, questions); });
  return join(parts).rows(from - first * kProposalBlock, count);
}

Tensor Proposals::render(const std::vector<int64_t>& numbers) const {
  std::map<int64_t, std::vector<size_t>> by_block;  // places in `numbers`
  for (size_t i = 0; i < numbers.size(); ++i) by_block[numbers[i] / kProposalBlock].push_back(i);
  std::vector<std::pair<int64_t, std::vector<size_t>>> blocks;
  for (auto& entry : by_block) blocks.emplace_back(entry.first, std::move(entry.second));
  Tensor out =
      at::empty({static_cast<int64_t>(numbers.size()), pair_.image[0], pair_.image[1], pair_.image[2]}, at::kByte);
  parallel_tasks(static_cast<int64_t>(blocks.size()), threads_, [&](int64_t b) {
    const at::NoGradGuard no_grad;
    const auto& [block, places] = blocks[static_cast<size_t>(b)];
    const Tensor noise = latents(block);
    std::map<int64_t, int64_t> rows;  // duplicates are made once
    for (const size_t place : places) rows.emplace(numbers[place] % kProposalBlock, 0);
    std::vector<int64_t> wanted;
    for (auto& [row, index] : rows) {
      index = static_cast<int64_t>(wanted.size());
      wanted.push_back(row);
    }
    const Tensor images = to_bytes(pair_.generate(noise.index_select(0, at::tensor(wanted, at::kLong))));
    for (const size_t place : places)
      out[static_cast<int64_t>(place)].copy_(images[rows[numbers[place] % kProposalBlock]]);
  });
  return out;
}

void Proposals::weigh(int64_t count, const Calibration& calibration, const std::function<void(const Tensor&)>& take,
                      Observer& observer) const {
  // A round of blocks at a time, the same for any number of threads.
  constexpr int64_t kRound = 32;
  const int64_t blocks = (count + kProposalBlock - 1) / kProposalBlock;
  for (int64_t first = 0; first < blocks; first += kRound) {
    if (observer.should_stop()) throw Interrupted("interrupted");
    const int64_t now = std::min(kRound, blocks - first);
    std::vector<Tensor> weights(static_cast<size_t>(now));
    parallel_tasks(now, threads_, [&](int64_t i) {
      weights[static_cast<size_t>(i)] = calibration.apply(block(first + i, calibration.questions())).contiguous();
    });
    for (int64_t i = 0; i < now; ++i) {
      const int64_t left = count - (first + i) * kProposalBlock;
      take(weights[static_cast<size_t>(i)].narrow(0, 0, std::min(left, kProposalBlock)));
    }
    SampleProgress p;
    p.done = std::min(count, (first + now) * kProposalBlock);
    p.total = count;
    p.acceptance = std::nan("");  // not known yet
    observer.on_sample(p);
  }
}

Opinions opinions_of(const Pair& pair, const Tensor& pixels, const Questions& questions, int threads) {
  const int64_t n = pixels.size(0), blocks = (n + kProposalBlock - 1) / kProposalBlock;
  std::vector<Opinions> parts(static_cast<size_t>(blocks));
  parallel_tasks(blocks, resolve_threads(threads), [&](int64_t b) {
    const int64_t from = b * kProposalBlock, count = std::min(kProposalBlock, n - from);
    parts[static_cast<size_t>(b)] = opinions_on(pair, to_network_range(pixels.narrow(0, from, count)), questions);
  });
  return join(parts);
}

}  // namespace hastings
