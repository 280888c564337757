#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "hastings/run/convert_run.h"
#include "run_options.h"

namespace hastings::app {
namespace {

struct Options {
  std::string folder, format;
  TargetOptions how;
  Voice voice;
};

int run(const Options& o) {
  TargetOptions how = o.how;
  how.tell = o.voice.tell();
  const auto files = convert_run(o.folder, o.format, how,
                                 [](const std::string& text) { fmt::print(stderr, "hastings: warning: {}\n", text); });
  if (o.voice.json) {
    print_json({{"files", files}}, -1);
  } else {
    for (const auto& file : files) fmt::print("{}\n", file);
  }
  return 0;
}

}  // namespace

Command convert_command(CLI::App& app) {
  auto* command = app.add_subcommand("convert", "Write the draws of a run in another format");
  const auto o = std::make_shared<Options>();
  command->add_option("run", o->folder, "The folder of a run")->required();
  command->add_option("--to", o->format, "csv (Stan CSV), netcdf (ArviZ's InferenceData) or npz (NumPy)")->required();
  add_toolchain(*command, o->how, "As in `sample`");
  add_json(*command, o->voice);
  return {command, [o] { return run(*o); }};
}

}  // namespace hastings::app
