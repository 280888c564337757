#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "hastings/run/convert_run.h"
#include "run_options.h"

namespace hastings::app {

Command report_command(CLI::App& app) {
  auto* command = app.add_subcommand("report", "Write one HTML page with tables and plots for a run (needs gnuplot)");
  struct Options {
    std::string folder;
    TargetOptions how;
    Voice voice;
  };
  const auto o = std::make_shared<Options>();
  command->add_option("run", o->folder, "The folder of a run")->required();
  add_toolchain(*command, o->how, "As in `sample`");
  add_json(*command, o->voice);
  return {command, [o] {
            o->how.tell = o->voice.tell();
            const std::string page = report_run(o->folder, o->how);
            if (o->voice.json) {
              print_json({{"report", page}}, -1);
            } else {
              fmt::print("{}\n", page);
            }
            return 0;
          }};
}

}  // namespace hastings::app
