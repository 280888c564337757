#include "hastings/run/gan_run.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "hastings/core/error.h"
#include "hastings/core/fields.h"
#include "hastings/core/files.h"
#include "hastings/core/json.h"
#include "hastings/core/parallel.h"
#include "hastings/gan/network/classifier.h"
#include "hastings/gan/network/preset.h"

namespace hastings {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

std::string in(const std::string& folder, const std::string& file) { return (fs::path(folder) / file).string(); }

constexpr const char* kHistoryLine = "history.line";  // in the state
constexpr const char* kHistoryHead = "iteration,discriminator_loss,generator_loss,acceptance,seconds\n";

// Averages over the iterations since the last line, one line each.
struct History {
  std::string text = kHistoryHead;
  double discriminator = 0, generator = 0, acceptance = 0;
  int64_t count = 0;

  void add(const GanProgress& p) {
    discriminator += p.discriminator_loss;
    generator += p.generator_loss;
    acceptance += p.acceptance;
    ++count;
  }
  void line(int64_t iteration, double seconds) {
    const auto n = static_cast<double>(std::max<int64_t>(count, 1));
    text += fmt::format("{},{:.6g},{:.6g},{:.6g},{:.1f}\n", iteration, discriminator / n, generator / n, acceptance / n,
                        seconds);
    discriminator = generator = acceptance = 0;
    count = 0;
  }
  // The line under way, to go on with.
  Tensor under_way() const {
    return at::tensor({discriminator, generator, acceptance, static_cast<double>(count)}, at::kDouble);
  }
  // Lines after the stored iteration belong to work that was lost.
  void take_up(const Tensor& line, const std::string& stored, int64_t iteration, double& seconds) {
    const double* sums = line.data_ptr<double>();
    discriminator = sums[0];
    generator = sums[1];
    acceptance = sums[2];
    count = static_cast<int64_t>(sums[3]);
    std::istringstream lines(stored);
    std::string row;
    std::getline(lines, row);
    while (std::getline(lines, row)) {
      if (std::atoll(row.c_str()) > iteration) break;
      text += row + "\n";
      seconds = std::atof(row.substr(row.rfind(',') + 1).c_str());
    }
  }
};

// `modules`: the folder that paths of TorchScript modules are relative to.
void save_networks(OutputFolder& folder, const Pair& pair, const std::string& modules = "") {
  json description = json::parse(pair.description);
  folder.remove("calibration.json");  // it was of other networks
  for (const auto& [name, network] :
       {std::pair{"generator", pair.generator.get()}, {"discriminator", pair.discriminator.get()}}) {
    json& part = description[name];
    if (part.contains("module")) {
      part["module"] = fs::absolute(fs::path(modules) / part["module"].get<std::string>()).string();
      continue;
    }
    part["weights"] = fmt::format("{}.safetensors", name);
    write_safetensors(folder.file(part["weights"]), network->weights());
  }
  write_file(folder.file("pair.json"), description.dump(2) + "\n");
}

void save_grid(OutputFolder& folder, const Pair& pair, uint64_t seed, int64_t iteration) {
  const at::NoGradGuard no_grad;
  Stream stream(seed, Phase::kGanShow, 0, Purpose::kProposal);  // the same latents every time: one sees them change
  const Tensor images = to_bytes(pair.generate(pair.latent.draw(stream, 64)));
  write_png(folder.file(fmt::format("samples/{:07}.png", iteration)), image_grid(images, 8));
}

Weights cloned(Weights weights) {
  for (auto& [name, tensor] : weights) tensor = tensor.clone();
  return weights;
}

// Tensor operations on so many threads while it lives.
class TensorThreads {
 public:
  explicit TensorThreads(int threads) : before_(at::get_num_threads()) { at::set_num_threads(threads); }
  ~TensorThreads() { at::set_num_threads(before_); }
  TensorThreads(const TensorThreads&) = delete;
  TensorThreads& operator=(const TensorThreads&) = delete;

 private:
  int before_;
};

}  // namespace

Tensor SplitImages::part(const std::vector<int64_t>& indices) const {
  return images.pixels.index_select(0, at::tensor(indices, at::kLong));
}

SplitImages load_split_images(const GanData& data) {
  SplitImages out;
  out.data = data;
  out.images = read_images(data.spec, data.images);
  out.splits = make_splits(out.images, data.splits, data.seed);
  out.copies = check_splits(out.images, out.splits);
  out.fingerprint = fingerprint(out.images);
  return out;
}

void save_splits(OutputFolder& folder, const SplitImages& images) {
  write_file(folder.file("splits.json"), json{{"data", images.data},
                                              {"fingerprint", images.fingerprint},
                                              {"train", images.splits.train},
                                              {"calibrate", images.splits.calibrate},
                                              {"reference", images.splits.reference}}
                                                 .dump() +
                                             "\n");
}

SplitImages load_splits(const std::string& folder, const std::string& spec) {
  const std::string path = in(folder, "splits.json");
  if (!fs::exists(path)) throw DataError(fmt::format("{}: is not there; give the data with --data", path));
  const json j = read_json(path);
  SplitImages out;
  try {
    j.at("data").get_to(out.data);
    out.splits.train = j.at("train").get<std::vector<int64_t>>();
    out.splits.calibrate = j.at("calibrate").get<std::vector<int64_t>>();
    out.splits.reference = j.at("reference").get<std::vector<int64_t>>();
  } catch (const json::exception&) {
    throw DataError(fmt::format("{}: is damaged", path));
  }
  if (!spec.empty()) out.data.spec = spec;
  out.images = read_images(out.data.spec, out.data.images);
  out.fingerprint = fingerprint(out.images);
  if (!j.contains("fingerprint") || j["fingerprint"] != out.fingerprint)
    throw DataError(
        fmt::format("{}: these are not the images that {} split (others, or in another order); the parts would mix",
                    out.data.spec, path));
  out.copies = check_splits(out.images, out.splits);
  return out;
}

void import_pair(OutputFolder& folder, const Pair& pair, const std::string& from_folder) {
  save_networks(folder, pair, from_folder);
}

std::shared_ptr<const FeatureNetwork> run_classifiers(OutputFolder& folder, const SplitImages& images, int threads,
                                                      Observer& observer) {
  const std::string stem = in(folder.path(), "classifiers");
  if (fs::exists(stem + ".json")) return std::make_shared<FeatureNetwork>(stem + ".json");
  if (images.splits.train.empty() || !images.images.labels.defined()) return nullptr;
  const Tensor rows = at::tensor(images.splits.train, at::kLong);
  try {
    ClassifierOptions options;
    options.threads = threads;
    auto learned = std::make_shared<FeatureNetwork>(learn_classifiers(
        images.images.pixels.index_select(0, rows), images.images.labels.index_select(0, rows), options, observer));
    for (const char* kind : {".safetensors", ".json"}) folder.file(std::string("classifiers") + kind);
    learned->save(stem);
    return learned;
  } catch (const DataError& error) {
    observer.on_warning(fmt::format("no classifiers as a witness: {}", error.what()));
    return nullptr;
  }
}

bool is_gan_run(const std::string& folder) { return fs::exists(in(folder, "pair.json")); }

namespace {

std::string stored_description(const std::string& folder) {
  const json config = read_json(in(folder, "config.json"));
  if (!config.is_object() || !config.contains("pair"))
    throw DataError(fmt::format("{}: is damaged", in(folder, "config.json")));
  return config["pair"].dump();
}

}  // namespace

GanTrainRequest stored_gan_request(const std::string& folder) {
  const std::string path = in(folder, "config.json");
  if (!fs::exists(path)) throw ConfigError(fmt::format("{}: holds no training to resume", folder));
  try {
    return read_json(path).at("train").get<GanTrainRequest>();
  } catch (const json::exception&) {
    throw DataError(fmt::format("{}: is damaged", path));
  } catch (const Error& error) {
    throw DataError(fmt::format("{}: is damaged ({})", path, error.what()));
  }
}

GanTrained train_gan(OutputFolder& folder, const SplitImages& images, const GanTrainRequest& request, bool resume,
                     Observer& observer) {
  request.train.validate();
  const Tensor pixels = images.part(images.splits.train);
  const std::vector<int64_t> shape = {pixels.size(1), pixels.size(2), pixels.size(3)};
  const std::string description = resume ? stored_description(folder.path())
                                  : fs::exists(request.networks)
                                      ? read_file(request.networks)
                                      : preset_pair(request.networks, shape, request.width, request.latent);
  Pair pair = fresh_pair(description, request.train.seed);
  if (pair.image != shape)
    throw ConfigError(fmt::format("{}: makes images of {}x{}x{}, the data are {}x{}x{}", request.networks,
                                  pair.image[0], pair.image[1], pair.image[2], shape[0], shape[1], shape[2]));
  GanTrainer trainer(pair, pixels, request.train);
  if (!resume) folder.clear();
  const std::string state_path = folder.file("state.safetensors"), history_path = folder.file("history.csv");
  History history;
  double seconds_before = 0;
  if (resume && fs::exists(state_path)) {
    const Weights state = read_weights(state_path);
    trainer.restore(state, state_path);
    const auto line = state.find(kHistoryLine);
    if (line == state.end() || line->second.numel() != 4 || line->second.scalar_type() != at::kDouble)
      throw DataError(fmt::format("{}: has no '{}'; it is of an earlier version", state_path, kHistoryLine));
    history.take_up(line->second, fs::exists(history_path) ? read_file(history_path) : "", trainer.iteration(),
                    seconds_before);
  }
  GanTrainRequest resolved = request;
  resolved.threads = resolve_threads(request.threads);
  write_file(folder.file("config.json"),
             json{{"train", resolved}, {"pair", json::parse(pair.description)}, {"data", images.data}}.dump(2) + "\n");
  save_splits(folder, images);

  const TensorThreads threads(resolved.threads);
  const int64_t grid_every =
      request.grid_every > 0 ? request.grid_every : std::max<int64_t>(1, trainer.iterations() / 20);
  const int64_t line_every = std::max<int64_t>(1, std::min<int64_t>(100, trainer.iterations() / 50));
  const auto begin = std::chrono::steady_clock::now();
  auto since = [&] {
    return seconds_before + std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  auto store = [&] {
    folder.check();
    Weights state = trainer.state();
    state[kHistoryLine] = history.under_way();
    // The history first: its lines beyond the state are known as such, and lines that were lost are not.
    write_file(history_path, history.text);
    write_safetensors(state_path, state);
  };
  GanTrained out;
  double last_store = since(), step_seconds = 0;
  double acceptance = std::nan("");
  while (trainer.iteration() < trainer.iterations()) {
    if (observer.should_stop()) {
      out.interrupted = true;
      break;
    }
    // A slow step is given up in the middle when somebody wants to stop; what was before it is kept for that.
    const bool slow = step_seconds > 0.3;
    const Weights before = slow ? cloned(trainer.state()) : Weights();
    GanProgress p;
    const double begun = since();
    try {
      p = trainer.step(slow ? &observer : nullptr);
    } catch (const Interrupted&) {
      trainer.restore(before, "the state before");
      out.interrupted = true;
      break;
    }
    p.seconds = since();
    step_seconds = p.seconds - begun;
    history.add(p);
    acceptance = std::isfinite(acceptance) ? 0.98 * acceptance + 0.02 * p.acceptance : p.acceptance;
    if (p.iteration % line_every == 0) history.line(p.iteration, p.seconds);
    if (p.iteration % grid_every == 0 || p.iteration == p.iterations)
      save_grid(folder, pair, request.train.seed, p.iteration);
    LearnProgress event;
    event.phase = to_string(request.train.loss);
    event.iteration = p.iteration;
    event.max_iterations = p.iterations;
    event.loss = p.generator_loss;
    event.acceptance = acceptance;
    event.seconds = p.seconds;
    observer.on_learn(event);
    out.acceptance = acceptance;
    out.discriminator_loss = p.discriminator_loss;
    out.generator_loss = p.generator_loss;
    if (p.seconds - last_store > request.checkpoint_seconds) {
      store();
      last_store = p.seconds;
    }
  }
  store();
  save_networks(folder, pair);
  out.iterations = trainer.iteration();
  out.seconds = since();
  return out;
}

Pair pair_of_run(const std::string& folder) {
  if (!fs::is_directory(folder)) throw ConfigError(fmt::format("{}: is neither a run's folder nor a pair", folder));
  if (!is_gan_run(folder)) throw ConfigError(fmt::format("{}: is not a GAN's run (no pair.json)", folder));
  return load_pair(in(folder, "pair.json"));
}

void tell_splits(const SplitImages& images, const std::function<void(const std::string&)>& tell) {
  const auto& s = images.splits;
  const auto& p = images.images.pixels;
  tell(fmt::format("{}: {} images of {}x{}x{}; {} to train, {} to calibrate, {} for scores.", images.data.spec,
                   p.size(0), p.size(1), p.size(2), p.size(3), s.train.size(), s.calibrate.size(), s.reference.size()));
  if (images.copies > 0)
    tell(fmt::format("hastings: warning: {} held-out images have an exact copy in another part of the data.",
                     images.copies));
}

}  // namespace hastings
