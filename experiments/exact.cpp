// The experiments that need no learning of networks: the semimetric, rejection sampling, and the toy problem.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <numeric>

#include "hastings/baseline/rejection.h"
#include "hastings/sample/sampler.h"
#include "hastings/target/zoo.h"
#include "reproduce.h"

namespace hastings::reproduce {
namespace {

using nlohmann::json;

// D(p, q) = E |xi - 1| = sum_ij |p_i q_j - p_j q_i| for distributions on the same atoms; D = 2 (1 - AR).
double semimetric_between(const std::vector<double>& p, const std::vector<double>& q) {
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    for (size_t j = 0; j < p.size(); ++j) sum += std::fabs(p[i] * q[j] - p[j] * q[i]);
  }
  return sum;
}

std::vector<double> random_simplex(size_t n, Stream& stream) {
  std::vector<double> p(n);
  stream.uniform(p);
  double sum = 0;
  for (double& v : p) sum += v = std::pow(-std::log(v), 3.0);  // spread out: many near the corners
  for (double& v : p) v /= sum;
  return p;
}

double normal_density(double x, double mean, double sd) {
  const double z = (x - mean) / sd;
  return std::exp(-0.5 * z * z) / (sd * std::sqrt(2 * std::numbers::pi));
}

// AR and symmetric KL of q against p, both given on a fine grid: sum_ij min(p_i q_j, p_j q_i) in O(n log n), by the
// order of the weights p/q.
struct Exact {
  double acceptance, symmetric_kl;
};
Exact exact_between(const std::vector<double>& p, const std::vector<double>& q, double step) {
  std::vector<size_t> order;
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] > 0 && q[i] > 0) order.push_back(i);
  }
  auto weight = [&](size_t i) { return p[i] / q[i]; };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return weight(a) < weight(b); });
  double kl = 0, p_below = 0, acceptance = 0, q_above = 0;
  for (const size_t i : order) q_above += q[i];
  for (const size_t i : order) {
    kl += (p[i] - q[i]) * std::log(p[i] / q[i]) * step;
    // State i, candidates j: those of larger weight are accepted (p_i q_j), those of smaller with p_j q_i.
    acceptance += (p[i] * q_above + q[i] * p_below) * step * step;
    p_below += p[i];
    q_above -= q[i];
  }
  return {acceptance, kl};
}

void run_semimetric(Context& context) {
  // On thirds of [0, 1]: p = U[0, 2/3], q = U[1/3, 1], s = U[0, 1].
  const std::vector<double> p = {0.5, 0.5, 0}, q = {0, 0.5, 0.5}, s = {1. / 3, 1. / 3, 1. / 3};
  const double ps = semimetric_between(p, s), qs = semimetric_between(q, s), pq = semimetric_between(p, q);
  Stream stream(context.options().first_seed, Phase::kSemimetric, 0, Purpose::kExact);
  const int triples = context.options().quick ? 20000 : 200000;
  std::vector<double> ratio;
  double least = 1e300;
  int broken = 0, below = 0;
  for (int t = 0; t < triples; ++t) {
    const size_t atoms = 2 + static_cast<size_t>(t % 5);
    const auto a = random_simplex(atoms, stream), b = random_simplex(atoms, stream), c = random_simplex(atoms, stream);
    const double r = (semimetric_between(a, c) + semimetric_between(b, c)) / semimetric_between(a, b);
    ratio.push_back(r);
    least = std::min(least, r);
    broken += r < 1;
    below += r < 2.0 / 3;
  }
  context.write("semimetric.csv",
                fmt::format("quantity,value,expected\nD(p;s)+D(q;s),{:.15g},{:.15g}\nD(p;q),{:.15g},1.5\n"
                            "least ratio of {} random triples,{:.6g},>= 0.666667\n"
                            "triples that break the triangle inequality,{},\ntriples below 2/3,{},0\n",
                            ps + qs, 4.0 / 3, pq, triples, least, broken, below));
  context.write("semimetric.md",
                fmt::format("D(p,s) + D(q,s) = {:.6f} (4/3) < D(p,q) = {:.6f} (3/2): the triangle inequality fails.\n\n"
                            "Of {} random triples on 2 to 6 atoms {} break the triangle inequality; the least ratio "
                            "(D(p,s) + D(q,s)) / D(p,q) is {:.4f}, and {} are below 2/3.\n",
                            ps + qs, pq, triples, broken, least, below));
  const int bins = 90;
  std::vector<double> x(bins), count(bins, 0.0);
  for (int b = 0; b < bins; ++b) x[static_cast<size_t>(b)] = 0.6 + (b + 0.5) * 0.02;  // 1 lies between two
  for (const double r : ratio) {
    const int b = static_cast<int>((r - 0.6) / 0.02);
    if (b >= 0 && b < bins) count[static_cast<size_t>(b)] += 1.0;
  }
  const double top = *std::max_element(count.begin(), count.end());
  auto line = [&](double at, const char* title, int color) {
    return PlotLayer{Draw::kLine, title, {{at, at}, {1, 2 * top}}, color, true};
  };
  Panel panel{"Ratio of the two sides of the triangle inequality",
              "(D(p,s) + D(q,s)) / D(p,q)",
              "random triples",
              {{Draw::kBars, "", {x, count}, -1},
               line(2.0 / 3, "bound 2/3", 1),
               line((ps + qs) / pq, "the paper's example", 0),
               line(1, "triangle inequality", 2)}};
  panel.log_y = true;
  panel.y_range = {{1, 30 * top}};
  context.figure("semimetric", {{panel}, 1, 640, 420});
}

// 2 I_{1/(1+s^2)}(d/2, d/2), the incomplete beta function by Simpson's rule in t = sin^2.
double exact_acceptance(double s, int64_t d) {
  const double a = 0.5 * static_cast<double>(d), end = std::atan(1 / s);
  constexpr int kSteps = 200;
  double sum = 0;
  for (int k = 0; k <= kSteps; ++k) {
    const double angle = end * k / kSteps;
    sum += (k == 0 || k == kSteps ? 1
            : k % 2 == 1          ? 4
                                  : 2) *
           2 * std::pow(std::sin(angle) * std::cos(angle), 2 * a - 1);
  }
  return 2 * sum * end / kSteps / 3 / std::beta(a, a);
}

// p = N(0, I), q = N(0, s^2 I): M = s^d. Independent MH accepts 2 I_{1/(1+s^2)}(d/2, d/2), never less than 1/M.
void run_rejection(Context& context) {
  const int64_t draws = context.options().quick ? 20000 : 200000;
  std::string csv = "dim,scale,one_over_m,rejection_measured,mh_measured,mh_exact\n";
  std::string table = "| dim | s | 1/M | rejection, measured | MH, measured | MH, exact |\n|---|---|---|---|---|---|\n";
  Panel panel{"Acceptance against the width of the proposal", "scale s of the proposal N(0, s^2 I)", "acceptance rate"};
  int color = 0;
  for (const int64_t d : {int64_t{1}, int64_t{2}, int64_t{5}}) {
    std::vector<double> x, bound, mh;
    for (double s = 1.0; s <= 3.01; s += 0.25) {
      const auto target = make_gaussian(d);
      FlowSpec spec;
      spec.family = "gaussian";
      spec.precision = "double";
      const Whitening wide{at::zeros({d}, at::kDouble), s * at::eye(d, at::kDouble)};
      const auto proposal = make_flow_proposal(spec, wide, GaussianMixture::standard(d), 1);
      const double log_m = static_cast<double>(d) * (std::log(s) + 0.5 * std::log(2 * std::numbers::pi));
      Stream stream(context.options().first_seed, Phase::kRejection, static_cast<uint64_t>(d), Purpose::kProposal);
      const RejectionResult kept = rejection_sample(*target, *proposal, log_m, draws, stream);
      SampleOptions sampling;
      sampling.chains = 1;
      sampling.draws = draws;
      sampling.seed = context.options().first_seed;
      MemorySink sink(1, draws, d);
      const SampleReport report = sample(*target, *proposal, sampling, sink, context.observer());
      const double measured = report.chains[0].scan.acceptance_sum / static_cast<double>(report.chains[0].steps);
      const double one_over_m = std::pow(s, -static_cast<double>(d));
      const double exact = exact_acceptance(s, d);
      csv += fmt::format("{},{},{:.6f},{:.6f},{:.6f},{:.6f}\n", d, s, one_over_m, kept.acceptance(), measured, exact);
      table += fmt::format("| {} | {:.2f} | {:.4f} | {:.4f} | {:.4f} | {:.4f} |\n", d, s, one_over_m, kept.acceptance(),
                           measured, exact);
      x.push_back(s);
      bound.push_back(one_over_m);
      mh.push_back(measured);
    }
    panel.layers.push_back({Draw::kLine, fmt::format("independent MH, {}-d", d), {x, mh}, color});
    panel.layers.push_back({Draw::kLine, fmt::format("1/M, {}-d", d), {x, bound}, color, true});
    ++color;
  }
  panel.y_range = {{0, 1.02}};
  context.write("rejection.csv", csv);
  context.write("rejection.md", table);
  context.figure("rejection", {{panel}, 1, 640, 440});
}

// A proposal N(mu, sigma^2) for the toy target.
struct Point {
  double mu, sigma;
};

// What such a proposal is worth, by quadrature.
class ToyLandscape {
 public:
  explicit ToyLandscape(double step) : step_(step) {
    constexpr double kReach = 14;
    for (double x = -kReach; x <= kReach; x += step) {
      grid_.push_back(x);
      p_.push_back(0.5 * normal_density(x, -2, 0.5) + 0.5 * normal_density(x, 2, 0.7));
    }
  }
  struct Value {
    double acceptance, bound;
  };
  Value operator()(Point at) const {
    std::vector<double> q;
    for (const double x : grid_) q.push_back(normal_density(x, at.mu, at.sigma));
    const Exact exact = exact_between(p_, q, step_);
    return {exact.acceptance, 1 - std::sqrt(0.5 * exact.symmetric_kl)};
  }

 private:
  double step_;
  std::vector<double> grid_, p_;
};

// The maximum next to `at`: to the best of eight neighbours, nearer ones when none is better.
template <class Height>
Point climb(Point at, const Height& height) {
  double top = height(at);
  for (double step = 0.05; step > 1e-4;) {
    Point next = at;
    for (const double m : {-step, 0.0, step}) {
      for (const double s : {-step, 0.0, step}) {
        const Point there{at.mu + m, at.sigma + s};
        if (const double h = height(there); h > top) top = h, next = there;
      }
    }
    if (next.mu == at.mu && next.sigma == at.sigma) step /= 2;
    at = next;
  }
  return at;
}

constexpr int kPathStep = 5;  // learning steps between two points of a path

// Where a Gaussian goes while it learns by Algorithm 1.
class Path final : public Observer {
 public:
  explicit Path(Point start)
      : proposal(make_flow_proposal(spec(),
                                    {at::full({1}, start.mu, at::kDouble), at::full({1, 1}, start.sigma, at::kDouble)},
                                    GaussianMixture::standard(1), 1)),
        start_(start) {
    record();
  }
  void on_learn(const LearnProgress&) override { record(); }
  // Steps of the stochastic gradient go around where they end: the mean of the last half.
  Point end() const {
    auto late_mean = [](const std::vector<double>& x) {
      const auto half = static_cast<int64_t>(x.size() / 2);
      return std::accumulate(x.begin() + half, x.end(), 0.0) /
             static_cast<double>(static_cast<int64_t>(x.size()) - half);
    };
    return {late_mean(mu), late_mean(sigma)};
  }

  std::unique_ptr<FlowProposal> proposal;
  std::vector<double> mu, sigma;

 private:
  static FlowSpec spec() {
    FlowSpec out;
    out.family = "gaussian";
    out.precision = "double";
    return out;
  }
  void record() {
    const auto values = proposal->parameters();  // shift, log of the scale, in units of the start
    mu.push_back(start_.mu + start_.sigma * values[0]);
    sigma.push_back(start_.sigma * std::exp(values[1]));
  }
  Point start_;
};

Path learn_path(Context& context, const std::string& objective, Point start) {
  const auto target = make_toy();
  Stream stream(context.options().first_seed, Phase::kToy, 0, Purpose::kExact);
  Population buffer{target->exact_draws(4096, stream), {}};
  buffer.log_prob = target->log_prob(buffer.x);
  LearnOptions learning;
  learning.objective = objective;
  learning.lead_in = false;
  learning.batch = 512;
  learning.learning_rate = 0.02;
  learning.window = kPathStep;
  learning.patience = 1 << 20;
  learning.reductions = 0;  // one rate throughout: the path is that of plain stochastic gradients
  learning.max_iterations = context.options().quick ? 400 : 1000;
  learning.target_acceptance = 1;
  learning.seed = context.options().first_seed;
  learning.threads = context.options().threads;
  Path path(start);
  learn(*target, *path.proposal, buffer, learning, path);
  return path;
}

void run_toy(Context& context) {
  const bool quick = context.options().quick;
  const ToyLandscape landscape(quick ? 0.02 : 0.01);
  auto acceptance = [&](Point at) { return landscape(at).acceptance; };
  auto lower_bound = [&](Point at) { return landscape(at).bound; };

  const int64_t cells = quick ? 50 : 100;
  std::vector<double> mu, sigma, ar, bound;
  for (int64_t j = 0; j < cells; ++j) {
    for (int64_t i = 0; i < cells; ++i) {
      const Point at{-4 + 8 * static_cast<double>(i) / static_cast<double>(cells - 1),
                     0.3 + 4.2 * static_cast<double>(j) / static_cast<double>(cells - 1)};
      mu.push_back(at.mu);
      sigma.push_back(at.sigma);
      const ToyLandscape::Value value = landscape(at);
      ar.push_back(value.acceptance);
      bound.push_back(std::max(value.bound, -3.0));
    }
  }

  const Point wide{2.5, 3.5}, narrow{2.5, 1};
  const Path by_ar = learn_path(context, "ar", wide), by_arlb = learn_path(context, "arlb", wide),
             from_narrow = learn_path(context, "ar", narrow);
  std::string csv = "objective,step,mu,sigma\n";
  for (const auto& [name, path] :
       {std::pair("ar", &by_ar), std::pair("arlb", &by_arlb), std::pair("ar, narrow start", &from_narrow)}) {
    for (size_t k = 0; k < path->mu.size(); ++k)
      csv += fmt::format("\"{}\",{},{:.6f},{:.6f}\n", name, kPathStep * k, path->mu[k], path->sigma[k]);
  }
  context.write("toy-paths.csv", csv);

  std::string table = "| | mu | sigma |\n|---|---|---|\n";
  auto row = [&](const std::string& what, Point at) {
    table += fmt::format("| {} | {:.3f} | {:.3f} |\n", what, at.mu, at.sigma);
  };
  auto maximum = [&](const std::string& what, Point from, const auto& height) {
    const Point top = climb(from, height);
    row(fmt::format("{} ({:.4f}, quadrature)", what, height(top)), top);
  };
  maximum("maximum of AR inside the left mode", {-2, 0.6}, acceptance);
  maximum("maximum of AR inside the right mode", {2, 0.8}, acceptance);
  maximum("local maximum of AR over both modes", {0, 2}, acceptance);
  row("end of AR's path (mean of its last half)", by_ar.end());
  row("end of AR's path from a narrow start", from_narrow.end());
  maximum("maximum of the bound", {0, 2}, lower_bound);
  row("end of ARLB's path", by_arlb.end());
  context.write("toy.md", table);

  auto panel = [&](const char* title, const std::vector<double>& value) {
    Panel out{title, "mu", "sigma", {{Draw::kLevels, "", {mu, sigma, value}, 0, false, cells}}};
    out.layers.push_back({Draw::kLine, "path of AR", {by_ar.mu, by_ar.sigma}, 1});
    out.layers.push_back({Draw::kLine, "path of ARLB", {by_arlb.mu, by_arlb.sigma}, 4});
    out.layers.push_back({Draw::kLine, "path of AR, narrow start", {from_narrow.mu, from_narrow.sigma}, 3});
    out.layers.push_back({Draw::kMarks, "starts", {{wide.mu, narrow.mu}, {wide.sigma, narrow.sigma}}, 2});
    out.x_range = {{-4, 4}};
    out.y_range = {{0.3, 4.5}};
    out.key = "top left";
    return out;
  };
  context.figure(
      "toy",
      {{panel("Acceptance rate", ar), panel("Lower bound 1 - sqrt(KL_{sym} / 2), above -3", bound)}, 2, 560, 480});
}

}  // namespace

Experiment semimetric() {
  return {"semimetric",
          "Appendix A.3: the triangle inequality fails, the 2/3 inequality holds",
          "seconds",
          {},
          run_semimetric};
}

Experiment rejection() {
  return {"rejection", "Acceptance of independent MH against rejection sampling's 1/M", "seconds", {}, run_rejection};
}

Experiment toy() {
  return {"toy", "Appendix C.4: landscapes of AR and ARLB with both optimisation paths", "seconds", {}, run_toy};
}

}  // namespace hastings::reproduce
