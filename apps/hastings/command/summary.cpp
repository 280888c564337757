#include "command.h"
#include "hastings/core/json.h"
#include "hastings/io/stored_summary.h"
#include "summary_table.h"

namespace hastings::app {

Command summary_command(CLI::App& app) {
  auto* command = app.add_subcommand("summary", "Show the summary of a run");
  struct Options {
    std::string folder;
    Voice voice;
  };
  const auto o = std::make_shared<Options>();
  command->add_option("run", o->folder, "The folder of a run")->required();
  add_json(*command, o->voice);
  return {command, [o] {
            const StoredSummary stored = load_summary(o->folder);
            if (o->voice.json) {
              print_json(read_json(o->folder + "/summary.json"));
            } else {
              print_summary(stored.summary);
            }
            return 0;
          }};
}

}  // namespace hastings::app
