#include "hastings/run/gan_sample.h"

#include <fmt/format.h>

#include "gan_options.h"
#include "hastings/core/fields.h"
#include "hastings/core/registry.h"
#include "hastings/gan/filter/filter.h"

namespace hastings::app {
namespace {

struct Options {
  GanSampleRequest request;
  std::string protocol;
  int64_t per_output = 0;
  Voice voice;
};

void print(const GanSampleOutcome& r, bool pictures) {
  fmt::print("{} outputs by {}: {} proposals, ", r.outputs, r.protocol, r.proposals);
  if (r.acceptance)
    fmt::print("acceptance {:.3f}, {:.1f} % different, longest run {}, ", *r.acceptance, 100 * r.unique, r.longest_run);
  fmt::print("{:.1f} s in the networks, {:.2f} s in the filter, {:.1f} s rendering.\n", r.score_seconds,
             r.filter_seconds, r.render_seconds);
  fmt::print("{}: samples.npz (arr_0, uint8, NHWC), grid.png{}, sampling.json.\n", r.output,
             pictures ? ", images/" : "");
}

int run(const Options& o, const std::set<std::string>& given) {
  GanSampleRequest request = o.request;
  if (given.contains("protocol")) request.protocol = parse_protocol(o.protocol);
  if (given.contains("per-output")) request.per_output = o.per_output;
  Progress progress(o.voice.quiet);
  const GanSampleOutcome done = gan_sample(request, progress);
  progress.done();
  if (o.voice.json) {
    print_json(done);
  } else {
    print(done, request.pictures);
  }
  return 0;
}

}  // namespace

Command gan_sample_command(CLI::App& gan) {
  auto* command = gan.add_subcommand("sample", "Sample a calibrated GAN through Metropolis-Hastings");
  const auto o = std::make_shared<Options>();
  GanSampleRequest& r = o->request;
  command->add_option("run", r.run, "The folder of a calibrated run")->required();
  command->add_option("-n,--outputs", r.outputs, "Images to make")->capture_default_str();
  command->add_option("--protocol", o->protocol, help_of(protocols()) + " (default: as calibrated)");
  command->add_option("--per-output", o->per_output, "Proposals an output (default: as calibrated)");
  command->add_option("-o,--output", r.output, "Folder of the outputs (default: RUN/outputs-SEED)");
  command->add_flag("--images", r.pictures, "Also one PNG an output");
  command->add_option("--seed", r.seed, "Seed of proposals and acceptances")->capture_default_str();
  add_threads(*command, r.threads);
  add_voice(*command, o->voice);
  return {command, [o, command] { return run(*o, given(*command)); }};
}

}  // namespace hastings::app
