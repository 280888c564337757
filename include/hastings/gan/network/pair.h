// A generator and its discriminator: an implicit proposal, and the log weight of what it proposes.
#pragma once

#include <memory>
#include <string>

#include "hastings/gan/network/network.h"

namespace hastings {

struct Latent {
  int64_t dim = 100;
  bool uniform = false;                          // on (-1, 1); else standard normal
  Tensor draw(Stream& stream, int64_t n) const;  // float [n, dim]
};

struct Pair {
  std::string description;  // JSON, without weights
  Latent latent;
  std::vector<int64_t> image;  // [channels, height, width]
  std::unique_ptr<Network> generator, discriminator;
  bool probability = false;  // the discriminator gives d itself, not its logit

  Tensor generate(const Tensor& z) const;  // float [n, channels, height, width] in [-1, 1]
  // [n], of what generate() gives or to_network_range() makes; `features` as in Network::forward.
  Tensor logits(const Tensor& images, Tensor* features = nullptr) const;
};

// uint8 [n, c, h, w] to float in [-1, 1], and back (rounded).
Tensor to_network_range(const Tensor& bytes);
Tensor to_bytes(const Tensor& images);
// There and back in one go: what is left of an image when it is handed out.
Tensor rounded_to_bytes(const Tensor& images);

// PAIR.json:
//   {"image": [1, 28, 28],
//    "generator": {"latent": {"dim": 64, "law": "normal"}, "layers": [...], "weights": "G.safetensors"},
//    "discriminator": {"layers": [...], "weights": "D.pth", "output": "logit"}}
// "module": "FILE.pt" instead of "layers" takes a TorchScript module. Files are looked for beside the JSON, or in
// `weights_folder` where that is given. Networks come in evaluation mode.
Pair load_pair(const std::string& path, const std::string& weights_folder = "");

// A pair to be trained, from PAIR.json's text (its weights are not looked at), with fresh weights.
Pair fresh_pair(const std::string& description, uint64_t seed);

}  // namespace hastings
