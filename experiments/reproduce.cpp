#include "reproduce.h"

#include <fmt/format.h>

#include <filesystem>

#include "hastings/core/files.h"

namespace hastings::reproduce {

using nlohmann::json;

Context::Context(std::string experiment, const Options& options, Observer& observer,
                 std::function<void(const std::string&)> tell)
    : options_(options),
      folder_(fmt::format("{}/{}{}", options.output, experiment, options.quick ? "-quick" : "")),
      observer_(observer),
      tell_(std::move(tell)) {
  make_directory(folder_ + "/cells");
}

json Context::cell(const std::string& key, const std::function<json()>& compute) {
  const std::string file = fmt::format("{}/cells/{}.json", folder_, key);
  if (std::filesystem::exists(file)) {
    try {
      return json::parse(read_file(file));
    } catch (const json::exception&) {
      tell(fmt::format("{}: damaged, computed anew", file));
    }
  }
  const json result = compute();
  write_file(file, result.dump(1) + "\n");
  return result;
}

bool Context::has(const std::string& key) const {
  return std::filesystem::exists(fmt::format("{}/cells/{}.json", folder_, key));
}

void Context::write(const std::string& name, const std::string& text) {
  write_file(path(name), text);
  tell(fmt::format("{}", path(name)));
}

void Context::figure(const std::string& name, const Figure& figure) {
  write_figure(path(name), figure);
  tell(fmt::format("{}.png, .svg (data: .dat)", path(name)));
}

FitOptions paper_settings(const std::string& objective, uint64_t seed, const Options& options) {
  FitOptions fit;
  fit.flow.family = "realnvp";
  fit.learn.objective = objective;
  fit.learn.max_seconds = 0;
  fit.learn.max_iterations = options.quick ? 1500 : 20000;
  fit.learn.threads = options.threads;
  fit.start.seed = fit.learn.seed = seed;
  if (objective == "vi") fit.start.method = "none";  // variational inference knows no buffer and no tempering
  return fit;
}

const std::vector<Experiment>& experiments() {
  static const std::vector<Experiment> all = {
      {"semimetric", "Appendix A.3: the triangle inequality fails, the 2/3 inequality holds", "seconds", semimetric},
      {"rejection", "Acceptance of independent MH against rejection sampling's 1/M", "seconds", rejection},
      {"toy", "Appendix C.4: landscapes of AR and ARLB with both optimisation paths", "seconds", toy},
      {"correlation", "Appendix C.5: AR against ARLB while ARLB is learned, on four targets",
       "10 minutes; quick: 2 minutes", correlation},
      {"proposals", "Appendix C.6: learned densities and histograms of 25k draws, for VI, AR and ARLB",
       "40 minutes; quick: 3 minutes", proposals},
      {"random-walk", "Appendix C.7: error of component means with and without a random walk, on mog6",
       "15 minutes; quick: 2 minutes", random_walk},
      {"exact-filter", "Section 4.2 on exact ground: the filter with the exact, a learned and a constant ratio",
       "a minute", exact_filter},
      {"table1", "Table 1: ESS and ESS/s of HMC, A-NICE-MC, L2HMC, AR, ARLB and VI on eleven targets",
       "hours a seed; quick: half an hour", table1},
  };
  return all;
}

}  // namespace hastings::reproduce
