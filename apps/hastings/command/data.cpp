#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "command.h"
#include "hastings/data/fetch.h"

namespace hastings::app {
namespace {

struct Options {
  std::string name, to, from;
  Voice voice;
};

int list(const Options& o) {
  if (!o.voice.json) {
    for (const auto& s : fetchable()) fmt::print("{:10} {}\n", s.name, s.what);
    return 0;
  }
  auto all = nlohmann::json::array();
  for (const auto& s : fetchable()) all.push_back({{"name", s.name}, {"what", s.what}});
  print_json(all);
  return 0;
}

int run(const Options& o) {
  if (o.name == "list") return list(o);
  const auto tell = o.voice.tell();
  const std::string spec =
      fetch_data(o.name, o.to.empty() ? "data/" + o.name : o.to, o.from, [&](const std::string& line) {
        if (tell) tell(line);
      });
  if (o.voice.json) {
    print_json({{"data", spec}}, -1);
  } else {
    fmt::print("Ready: --data {}\n", spec);
  }
  return 0;
}

}  // namespace

Command data_command(CLI::App& app) {
  auto* data = app.add_subcommand("data", "Data sets of images");
  data->require_subcommand(1);
  auto* fetch = data->add_subcommand("fetch", "Get a data set");
  const auto o = std::make_shared<Options>();
  fetch->add_option("name", o->name, "mnist, cifar10, celeba, or list")->required();
  fetch->add_option("--to", o->to, "Folder (default: data/NAME)");
  fetch->add_option("--from", o->from, "A file you have already (celeba)");
  add_voice(*fetch, o->voice);
  return {fetch, [o] { return run(*o); }};
}

}  // namespace hastings::app
