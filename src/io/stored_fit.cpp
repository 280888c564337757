#include "hastings/io/stored_fit.h"

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>
#include <cblas.h>
#include <fmt/format.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/version.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "hastings/core/error.h"
#include "hastings/core/fields.h"
#include "hastings/core/files.h"
#include "hastings/core/json.h"
#include "hastings/data/weights.h"
#include "pickled.h"

namespace hastings {

using nlohmann::json;
namespace fs = std::filesystem;

std::string version() { return HASTINGS_VERSION; }

bool is_run(const std::string& folder) { return fs::exists(fs::path(folder) / "proposal.pt"); }

namespace {

std::string in(const std::string& folder, const std::string& name) { return (fs::path(folder) / name).string(); }

// Matrix products round by the kernels that OpenBLAS takes for this CPU: two CPUs may differ with the same seed.
json versions() {
  return {{"hastings", version()},
          {"libtorch", TORCH_VERSION},
          {"compiler", "g++ " __VERSION__},
          {"openblas_kernels", openblas_get_corename()}};
}

std::string history_csv(const std::vector<LearnProgress>& history) {
  std::string text = "phase,iteration,loss,acceptance,acceptance_bound,beta,learning_rate,seconds\n";
  for (const auto& row : history) {
    text += fmt::format("{},{},{},{},{},{},{},{:.3f}\n", row.phase, row.iteration, row.loss, row.acceptance,
                        row.acceptance_bound, row.beta, row.learning_rate, row.seconds);
  }
  return text;
}

// A tuple (architecture as JSON text, dictionary of tensors): torch.load reads it too.
std::string pickled(const FlowSpec& spec, const Proposal& proposal) {
  const auto bytes = torch::jit::pickle_save(
      c10::ivalue::Tuple::create({c10::IValue(json(spec).dump()), c10::IValue(dictionary(proposal.state()))}));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

void save_fit(OutputFolder& folder, const Target& target, const FitOptions& options, const Fit& fit,
              const std::string& keep) {
  json config = {{"target", target.name()},
                 {"dimension", target.dim()},
                 {"parameters", target.parameter_names()},
                 {"options", FitOptions{fit.flow, options.start, fit.learn}},
                 {"versions", versions()}};
  config["fit"] = {{"start", fit.start_method},
                   {"start_acceptance", fit.start_acceptance},
                   {"modes", fit.modes},
                   {"chain_acceptance", fit.chain_acceptance},
                   {"rounding_error", fit.rounding},
                   {"acceptance", fit.learning.acceptance},
                   {"acceptance_bound", fit.learning.acceptance_bound},
                   {"iterations", fit.learning.iterations},
                   {"skipped_steps", fit.learning.skipped},
                   {"non_finite_candidates", fit.learning.non_finite},
                   {"stopped", fit.learning.stopped},
                   {"seconds", fit.seconds}};
  const std::string proposal = pickled(fit.flow, *fit.proposal), history = history_csv(fit.learning.history);
  folder.check();
  folder.remove("proposal.pt");  // first: without it there is no run
  folder.remove_all_but(keep);
  write_file(folder.file("config.json"), config.dump(2) + "\n");
  write_file(folder.file("history.csv"), history);
  write_file(folder.file("proposal.pt"), proposal);
}

namespace {

// A few words may describe a network that no memory holds: its weights must be there.
void check_size(const FlowSpec& spec, int64_t dim, const Weights& tensors) {
  constexpr double kAlways = 1e8;  // families that have no networks do not mind what is said of them
  double wanted = static_cast<double>(spec.base_components) * static_cast<double>(dim);
  for (size_t i = 1; i < spec.hidden.size(); ++i)
    wanted += static_cast<double>(spec.hidden[i - 1]) * static_cast<double>(spec.hidden[i]) * spec.couplings;
  if (!(wanted <= kAlways + static_cast<double>(elements_in(tensors))) || spec.base_components < 1)
    throw DataError("its description asks for more weights than there are");
}

}  // namespace

std::string stored_target(const std::string& folder) {
  try {
    return read_json(in(folder, "config.json")).at("target").get<std::string>();
  } catch (const json::exception&) {
    throw DataError(fmt::format("{}: is not a hastings configuration", in(folder, "config.json")));
  }
}

StoredFit load_fit(const std::string& folder, int64_t dim) {
  StoredFit stored;
  stored.config = read_file(in(folder, "config.json"));
  const std::string path = in(folder, "proposal.pt");
  try {
    const json config = parse_json(in(folder, "config.json"), stored.config);
    stored.target = config.at("target");
    stored.learn_seconds = config.at("fit").at("seconds");
    stored.learned_acceptance = config.at("fit").at("acceptance");
    stored.chain_acceptance = config.at("fit").value("chain_acceptance", stored.learned_acceptance);
    std::string flow;
    const Weights tensors = read_weights(path, &flow);
    stored.flow = parse_json(path, flow).get<FlowSpec>();
    stored.flow.validate();
    check_size(stored.flow, dim, tensors);
    stored.proposal = make_blank_proposal(stored.flow, dim);
    stored.proposal->load(tensors);
  } catch (const Error& error) {
    throw DataError(fmt::format("{}: is damaged or not a stored proposal ({})", path, error.what()));
  } catch (const std::exception&) {
    throw DataError(fmt::format("{}: is damaged or not a stored proposal", path));
  }
  return stored;
}

}  // namespace hastings
