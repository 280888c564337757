// Speed, as ratios within one run. "Plain" is the same network written plainly with LibTorch's tensor operations:
// masked couplings, autograd for learning. One thread.
#include <ATen/ATen.h>
#include <benchmark/benchmark.h>
#include <torch/csrc/autograd/autograd.h>

#include <chrono>

#include "hastings/core/accept.h"
#include "hastings/core/parallel.h"
#include "hastings/gan/filter/sample.h"
#include "hastings/gan/network/preset.h"
#include "hastings/learn/fit.h"
#include "hastings/proposal/flow_proposal.h"
#include "hastings/sample/sampler.h"
#include "hastings/target/logistic.h"
#include "hastings/target/registry.h"

namespace {

using namespace hastings;
using Clock = std::chrono::steady_clock;
constexpr int64_t kBlock = 512;

// RealNVP with masks: s and t of two layers see all coordinates, half of which are zeroed.
struct PlainRealnvp {
  struct Net {
    Tensor w1, b1, w2, b2;
    Tensor operator()(const Tensor& x) const { return at::linear(at::linear(x, w1, b1).relu(), w2, b2); }
  };
  std::vector<Net> s, t;
  std::vector<Tensor> mask;
  explicit PlainRealnvp(int64_t dim, bool with_gradient) {
    auto make = [&](std::vector<int64_t> shape) {
      Tensor p = at::randn(shape) * 0.05;
      return with_gradient ? p.requires_grad_(true) : p;
    };
    for (int i = 0; i < 4; ++i) {
      Tensor m = at::zeros({dim});
      (i % 2 ? m.slice(0, dim / 2) : m.slice(0, 0, dim / 2)).fill_(1);
      mask.push_back(m);
      for (auto* nets : {&s, &t}) nets->push_back({make({512, dim}), make({512}), make({dim, 512}), make({dim})});
    }
  }
  std::pair<Tensor, Tensor> forward(const Tensor& z) const {
    Tensor x = z, log_det = at::zeros({z.size(0)});
    for (size_t i = 0; i < 4; ++i) {
      const Tensor kept = x * mask[i], scale = 2 * at::tanh(s[i](kept) / 2) * (1 - mask[i]);
      x = kept + (1 - mask[i]) * (x * scale.exp() + t[i](kept));
      log_det = log_det + scale.sum(1);
    }
    return {x, log_det};
  }
  Tensor inverse_log_det(const Tensor& y) const {
    Tensor x = y, log_det = at::zeros({y.size(0)});
    for (size_t i = 4; i-- > 0;) {
      const Tensor kept = x * mask[i], scale = 2 * at::tanh(s[i](kept) / 2) * (1 - mask[i]);
      x = kept + (1 - mask[i]) * (x - t[i](kept)) * (-scale).exp();
      log_det = log_det - scale.sum(1);
    }
    return log_det - 0.5 * x.square().sum(1);
  }
  std::vector<Tensor> parameters() const {
    std::vector<Tensor> all;
    for (const auto* nets : {&s, &t}) {
      for (const auto& n : *nets) all.insert(all.end(), {n.w1, n.b1, n.w2, n.b2});
    }
    return all;
  }
};

std::unique_ptr<FlowProposal> fresh(const std::string& family, int64_t dim) {
  FlowSpec spec;
  spec.family = family;
  return make_flow_proposal(spec.resolved(dim), {at::zeros({dim}, at::kDouble), at::eye(dim, at::kDouble)},
                            GaussianMixture::standard(dim), 1);
}

double seconds_of(const std::function<void()>& f) {
  const auto begin = Clock::now();
  f();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void compare(benchmark::State& state, double items, const std::function<void()>& ours,
             const std::function<void()>& plain) {
  const SingleThreaded single;
  ours();
  plain();
  double a = 0, b = 0, n = 0;
  for (auto _ : state) {
    a += seconds_of(ours);
    b += seconds_of(plain);
    n += items;
  }
  state.counters["hastings_per_s"] = n / a;
  state.counters["plain_per_s"] = n / b;
  state.counters["ratio"] = b / a;
}

// Candidates of the paper's RealNVP, random numbers and log q included.
void RealnvpCandidates(benchmark::State& state) {
  const at::NoGradGuard no_grad;
  const int64_t dim = state.range(0);
  const auto proposal = fresh("realnvp", dim);
  const PlainRealnvp plain(dim, false);
  Stream stream(1, Phase::kTest, 0, Purpose::kProposal);
  compare(
      state, kBlock, [&] { benchmark::DoNotOptimize(proposal->sample(kBlock, stream).log_q.data_ptr()); },
      [&] {
        const Tensor z = at::randn({kBlock, dim});
        const auto [x, log_det] = plain.forward(z);
        benchmark::DoNotOptimize((-0.5 * z.square().sum(1) - log_det).data_ptr());
      });
}
BENCHMARK(RealnvpCandidates)->Arg(2)->Arg(25)->Unit(benchmark::kMicrosecond);

// One learning step of the paper's RealNVP on ring: draws, states, AR, gradient.
void RealnvpLearningStep(benchmark::State& state) {
  const auto target = find_target("ring");
  const auto proposal = fresh("realnvp", 2);
  const PlainRealnvp plain(2, true);
  const auto parameters = plain.parameters();
  Stream stream(1, Phase::kTest, 0, Purpose::kProposal);
  const Tensor x = target->exact_draws(kBlock, stream), log_p = target->log_prob(x), x_float = x.to(at::kFloat);
  const auto pass = proposal->make_pass();
  compare(
      state, 1,
      [&] {
        const Draws draws = proposal->draw(stream.normal({kBlock, 2}), *pass);
        const Gradient g = target->with_gradient(draws.x);
        const ObjectiveValue value =
            evaluate(Objective::kAr, g.log_prob - draws.log_q, log_p - proposal->score(x, *pass));
        pass->clear_gradient();
        proposal->draw_derivative(value.grad_candidate.unsqueeze(1) * g.gradient, -value.grad_candidate, *pass);
        proposal->score_derivative(-value.grad_state, *pass);
      },
      [&] {
        const at::AutoGradMode with_grad(true);
        const Tensor z = at::randn({kBlock, 2});
        const auto [y, log_det] = plain.forward(z);
        const Tensor candidate = (y.norm(2, {1}) - 2).square() / -0.32 + 0.5 * z.square().sum(1) + log_det;
        const Tensor w = log_p.to(at::kFloat) - plain.inverse_log_det(x_float);
        const Tensor loss = -(candidate.unsqueeze(0) - w.unsqueeze(1)).clamp_max(0).exp().mean();
        benchmark::DoNotOptimize(torch::autograd::grad({loss}, parameters));
      });
}
BENCHMARK(RealnvpLearningStep)->Unit(benchmark::kMillisecond);

// Candidates a second of the default flows.
void DefaultCandidates(benchmark::State& state) {
  const SingleThreaded single;
  const at::NoGradGuard no_grad;
  const auto proposal = fresh("auto", state.range(0));
  Stream stream(1, Phase::kTest, 0, Purpose::kProposal);
  for (auto _ : state) benchmark::DoNotOptimize(proposal->sample(kBlock, stream).log_q.data_ptr());
  state.SetItemsProcessed(state.iterations() * kBlock);
}
BENCHMARK(DefaultCandidates)->Arg(2)->Arg(14)->Arg(25)->Unit(benchmark::kMicrosecond);

void Scan(benchmark::State& state) {
  Stream stream(1, Phase::kTest, 0, Purpose::kAccept);
  const Tensor w = stream.normal({kBlock}) * 0.2, u = stream.uniform({kBlock}).log();
  std::vector<int64_t> held(kBlock);
  std::vector<double> stat(kBlock);
  ScanState chain{0, 1};
  ScanInfo info;
  for (auto _ : state) scan({w.data_ptr<double>(), kBlock}, {u.data_ptr<double>(), kBlock}, chain, info, held, stat);
  state.SetItemsProcessed(state.iterations() * kBlock);
}
BENCHMARK(Scan)->Unit(benchmark::kMicrosecond);

// The scan's share of a whole sampling run on a posterior of german's size (1000 x 24).
void ScanShareOfARun(benchmark::State& state) {
  const SingleThreaded single;
  Stream stream(1, Phase::kTest, 0, Purpose::kData);
  const auto target = make_logistic("bench", simulate_logistic(stream.normal({25}) * 0.3, 1000, stream));
  const auto proposal = fresh("auto", 25);
  SampleOptions options;
  options.chains = 1;
  options.threads = 1;
  options.draws = 20 * kBlock;
  Observer silent;
  const Tensor w = stream.normal({kBlock}) * 0.2, u = stream.uniform({kBlock}).log();
  std::vector<int64_t> held(kBlock);
  std::vector<double> stat(kBlock);
  double run = 0, scans = 0;
  for (auto _ : state) {
    MemorySink sink(1, options.draws, 25);
    run += seconds_of([&] { sample(*target, *proposal, options, sink, silent); });
    ScanState chain{0, 1};
    ScanInfo info;
    scans += seconds_of([&] {
      for (int i = 0; i < 21; ++i)
        scan({w.data_ptr<double>(), kBlock}, {u.data_ptr<double>(), kBlock}, chain, info, held, stat);
    });
  }
  state.counters["scan_share"] = scans / run;
}
BENCHMARK(ScanShareOfARun)->Unit(benchmark::kMillisecond);

// What sampling a GAN costs beside its networks: calibrated scores, the chain and the choice of outputs, against the
// bare generator and discriminator on as many latents.
void GanShareOutsideTheNetworks(benchmark::State& state) {
  const SingleThreaded single;
  const at::NoGradGuard no_grad;
  const bool convolutional = state.range(0) != 0;
  const std::vector<int64_t> image = convolutional ? std::vector<int64_t>{3, 32, 32} : std::vector<int64_t>{1, 28, 28};
  const Pair pair = fresh_pair(preset_pair(convolutional ? "dcgan" : "mlp", image, convolutional ? 32 : 256, 100), 1);
  ChosenCalibration chosen;
  chosen.calibration.method = CalibratorKind::kPlatt;
  chosen.calibration.slope = 1;
  FilterOptions filter;
  filter.outputs = convolutional ? 200 : 2000;
  const int64_t proposals = filter.outputs * filter.per_output, blocks = proposals / kProposalBlock;
  Observer silent;
  double run = 0, networks = 0;
  for (auto _ : state) {
    run += seconds_of([&] {
      filter_proposals(Proposals(pair, 1, Phase::kTest, 1), chosen, {filter}, {1, Phase::kTest}, silent);
    });
    Stream stream(1, Phase::kTest, 0, Purpose::kProposal);
    const Tensor z = pair.latent.draw(stream, kProposalBlock);
    networks += seconds_of([&] {
      for (int64_t i = 0; i < blocks; ++i) benchmark::DoNotOptimize(pair.logits(pair.generate(z)).data_ptr());
    });
  }
  state.counters["share_outside"] = 1 - networks / run;
  state.counters["proposals_per_s"] = static_cast<double>(proposals * state.iterations()) / run;
}
BENCHMARK(GanShareOutsideTheNetworks)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

void LogisticDensity(benchmark::State& state) {
  const SingleThreaded single;
  const at::NoGradGuard no_grad;
  Stream stream(1, Phase::kTest, 0, Purpose::kData);
  const auto target = make_logistic("bench", simulate_logistic(stream.normal({25}) * 0.3, 1000, stream));
  const Tensor x = stream.normal({kBlock, 25}) * 0.3;
  for (auto _ : state) benchmark::DoNotOptimize(target->log_prob(x).data_ptr());
  state.SetItemsProcessed(state.iterations() * kBlock);
}
BENCHMARK(LogisticDensity)->Unit(benchmark::kMicrosecond);

void Normals(benchmark::State& state) {
  Stream stream(1, Phase::kTest, 0, Purpose::kProposal);
  std::vector<double> z(8192);
  for (auto _ : state) stream.normal(z);
  state.SetItemsProcessed(state.iterations() * 8192);
}
BENCHMARK(Normals)->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
