// A density of your own, a proposal learned for it, draws, and what they say.
#include <ATen/ATen.h>
#include <hastings/hastings.h>

#include <cstdio>

int main() {
  // Any differentiable tensor operations: [batch, dim] to [batch].
  const auto target = hastings::make_target("two moons", 2, [](const at::Tensor& x) {
    const at::Tensor a = x.select(1, 0), b = x.select(1, 1);
    return -0.5 * ((x.norm(2, 1) - 2) / 0.4).square() - 0.5 * (b / 1.5).square() + 0.3 * a;
  });

  hastings::FitOptions how;
  how.learn.max_iterations = 400;
  hastings::Observer silent;
  const hastings::Fit fitted = hastings::fit(*target, how, silent);

  hastings::SampleOptions options;
  options.chains = 4;
  options.draws = 2000;
  hastings::MemorySink sink(options.chains, options.draws, target->dim());
  hastings::sample(*target, *fitted.proposal, options, sink, silent);

  const auto parameters = hastings::summarise_parameters(
      target->parameter_names(), [&](int64_t i) { return sink.draws.select(2, i).contiguous(); });
  std::printf("learned: acceptance %.2f\n", fitted.learning.acceptance);
  for (const auto& p : parameters)
    std::printf("%s: mean %.3f, sd %.3f, bulk ESS %.0f, R-hat %.3f\n", p.name.c_str(), p.mean, p.sd, p.ess_bulk, p.rhat);
  return parameters[0].rhat < 1.05 ? 0 : 1;
}
