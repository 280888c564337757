#include "gan_options.h"

#include <fmt/format.h>

namespace hastings::app {

void add_data_options(CLI::App& command, GanData& data) {
  auto option = [&](CLI::Option* added) { return added->group("Data"); };
  option(command.add_option("--crop", data.images.crop, "Crop every image: WIDTHxHEIGHT (centre) or WIDTHxHEIGHT+X+Y"));
  option(command.add_option("--size", data.images.size, "Then resize to N x N (0: as they are)"))
      ->capture_default_str();
  option(command.add_option("--channels", data.images.channels, "1 or 3 (0: as they are)"))->capture_default_str();
  option(
      command.add_option("--calibrate-images", data.splits.calibrate, "Images kept for calibration, never trained on"))
      ->capture_default_str();
  option(command.add_option("--reference-images", data.splits.reference, "Images kept for scores alone"))
      ->capture_default_str();
  option(command.add_option("--split-seed", data.seed, "Seed of the splits"))->capture_default_str();
}

void add_threads(CLI::App& command, int& threads) {
  command.add_option("--threads", threads, "Threads (0: all cores); the results do not depend on it")
      ->capture_default_str()
      ->check(at_least(0));
}

std::set<std::string> given(const CLI::App& command) {
  std::set<std::string> names;
  for (const auto* option : command.get_options()) {
    if (option->count() == 0) continue;
    for (const auto& name : option->get_lnames()) names.insert(name);
  }
  return names;
}

std::function<void(const std::string&)> told(const Voice& voice) {
  const auto tell = voice.tell();
  return tell ? tell : [](const std::string&) {};
}

}  // namespace hastings::app
