// Pairs of networks that need no file, by name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hastings {

struct NetworkPreset {
  const char *name, *help;
  // PAIR.json's text, for images [channels, height, width].
  std::string (*make)(const std::vector<int64_t>& image, int64_t width, int64_t latent);
};

const std::vector<NetworkPreset>& network_presets();

// PAIR.json's text; ConfigError lists the names.
std::string preset_pair(const std::string& name, const std::vector<int64_t>& image, int64_t width, int64_t latent);

}  // namespace hastings
