#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "command.h"
#include "hastings/target/registry.h"

namespace hastings::app {

Command targets_command(CLI::App& app) {
  auto* command = app.add_subcommand("targets", "List the targets");
  const auto voice = std::make_shared<Voice>();
  add_json(*command, *voice);
  return {command, [voice] {
            const auto targets = list_targets();
            if (!voice->json) {
              for (const auto& t : targets) fmt::print("{:20} {}\n", t.name, t.summary);
              return 0;
            }
            auto list = nlohmann::json::array();
            for (const auto& t : targets) list.push_back({{"name", t.name}, {"summary", t.summary}});
            print_json(list);
            return 0;
          }};
}

}  // namespace hastings::app
