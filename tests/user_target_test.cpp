// Densities that users bring.
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "hastings/core/error.h"
#include "hastings/data/arrays.h"
#include "hastings/diagnose/check.h"
#include "hastings/io/npz.h"
#include "hastings/target/constrain.h"
#include "hastings/target/registry.h"
#include "hastings/target/user.h"
#include "support.h"

namespace hastings {
namespace {

namespace fs = std::filesystem;

class UserTarget : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("hastings-user-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  // The message of the error that f throws.
  template <class F>
  std::string error(F f) const {
    try {
      f();
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }
  std::string script_error(const std::string& source, const std::string& description) const {
    write("m.json", description);
    const std::string path = write("m.py", source);
    return error([&] { make_script_target(path)->log_prob(at::zeros({3, 2}, at::kDouble)); });
  }
  fs::path folder_;
};

#define EXPECT_HAS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

// ---- constraints

std::vector<Parameter> every_constraint() {
  return {{"a", 0, Constraint::kFree, 0, 1},     {"p", 2, Constraint::kLower, 0, 1},
          {"u", 0, Constraint::kUpper, 0, -1.5}, {"i", 2, Constraint::kInterval, -2, 3},
          {"s", 4, Constraint::kSimplex, 0, 1},  {"o", 3, Constraint::kOrdered, 0, 1}};
}

TEST(Constraints, ShapesAndNames) {
  const Constraints c(every_constraint());
  EXPECT_EQ(c.outputs(), 13);
  EXPECT_EQ(c.dim(), 12);
  EXPECT_EQ(c.names()[1], "p.1");
  EXPECT_EQ(c.names()[9], "s.4");
  EXPECT_EQ(c.unconstrained_names()[9], "o.1");
}

TEST(Constraints, HoldAndRoundTrip) {
  const Constraints c(every_constraint());
  Stream stream(1, Phase::kTest, 0, Purpose::kExact);
  const Tensor u = 2 * stream.normal({200, 12}), x = c.constrain(u).x;
  EXPECT_GT(x.narrow(1, 1, 2).min().item<double>(), 0);
  EXPECT_LT(x.select(1, 3).max().item<double>(), -1.5);
  EXPECT_GT(x.narrow(1, 4, 2).min().item<double>(), -2);
  EXPECT_LT(x.narrow(1, 4, 2).max().item<double>(), 3);
  EXPECT_LT((x.narrow(1, 6, 4).sum(1) - 1).abs().max().item<double>(), 1e-14);
  EXPECT_GT(x.narrow(1, 6, 4).min().item<double>(), 0);
  EXPECT_GT(x.narrow(1, 10, 3).diff(1, 1).min().item<double>(), 0);
  EXPECT_LT((c.unconstrain(x) - u).abs().max().item<double>(), 1e-7);
}

// log |dx/du| against the determinant of differences; of a simplex the last element is left out.
TEST(Constraints, LogJacobianIsExact) {
  for (const auto& p : every_constraint()) {
    const Constraints c({p});
    const int64_t d = c.dim();
    Stream stream(2, Phase::kTest, 0, Purpose::kExact);
    const Tensor u = stream.normal({20, d});
    const double h = 1e-6;
    for (int64_t i = 0; i < 20; ++i) {
      const Tensor steps = h * at::eye(d, at::kDouble);
      const Tensor up = c.constrain(u[i] + steps).x, down = c.constrain(u[i] - steps).x;
      const Tensor jacobian = ((up - down) / (2 * h)).narrow(1, 0, d);
      EXPECT_NEAR(at::linalg_det(jacobian).abs().log().item<double>(),
                  c.constrain(u.narrow(0, i, 1)).log_jacobian.item<double>(), 1e-7)
          << p.name;
    }
  }
}

TEST(Constraints, CentreOfASimplexIsTheOrigin) {
  const Constraints c({{"s", 5, Constraint::kSimplex, 0, 1}});
  EXPECT_LT((c.constrain(at::zeros({1, 4}, at::kDouble)).x - 0.2).abs().max().item<double>(), 1e-15);
}

TEST(Constraints, SenselessOnesAreErrors) {
  EXPECT_THROW(Constraints({}), ConfigError);
  EXPECT_THROW(Constraints({{"i", 0, Constraint::kInterval, 2, 2}}), ConfigError);
  EXPECT_THROW(Constraints({{"s", 1, Constraint::kSimplex, 0, 1}}), ConfigError);
  EXPECT_THROW(Constraints({{"", 0, Constraint::kFree, 0, 1}}), ConfigError);
}

TEST(Constraints, GradientOfAConstrainedTarget) {
  // Gamma(3, 2) on a positive parameter: d/du [2u - 2e^u + u] = 3 - 2e^u.
  const auto target = make_constrained("gamma", {{"g", 0, Constraint::kLower, 0, 1}},
                                       [](const Tensor& x) { return (2 * x.log() - 2 * x).squeeze(1); });
  const Tensor u = at::linspace(-2, 2, 9, at::kDouble).unsqueeze(1);
  EXPECT_LT((target->with_gradient(u).gradient - (3 - 2 * u.exp())).abs().max().item<double>(), 1e-12);
  Stream unused(1, Phase::kTest, 0, Purpose::kData);
  EXPECT_LT((target->outputs(u, unused) - u.exp()).abs().max().item<double>(), 1e-15);
}

TEST(Callable, OwnGradientIsUsedAndChecked) {
  const auto value = [](const Tensor& x) { return -x.square().sum(1); };
  const auto own = make_target("own", 2, value, [&](const Tensor& x) { return Gradient{value(x), -7 * x}; });
  const Tensor x = at::ones({3, 2}, at::kDouble);
  EXPECT_EQ(own->with_gradient(x).gradient[0][0].item<double>(), -7);
  const auto bad = make_target("bad", 2, value, [&](const Tensor& y) { return Gradient{value(y), y.narrow(1, 0, 1)}; });
  EXPECT_THROW(bad->with_gradient(x), ConfigError);
}

// ---- scripts and modules

TEST_F(UserTarget, ScriptWithDataFromEveryKindOfFile) {
  write("m.json",
        R"({"parameters": ["a", {"name": "b", "size": 2}],
            "data": {"y": "y.csv", "w": "w.npz:w", "v": "v.npy", "s": 0.5, "k": 3}})");
  write("y.csv", "value\n1\n2\n4\n");
  {  // v.npy in Fortran order and float; w.npz with one array
    std::ofstream npy(folder_ / "v.npy", std::ios::binary);
    std::string head = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }";
    head.resize(117, ' ');
    head += '\n';
    npy << "\x93NUMPY" << '\x01' << '\0' << static_cast<char>(head.size()) << '\0' << head;
    const float values[] = {1, 4, 2, 5, 3, 6};  // columns of [[1, 2, 3], [4, 5, 6]]
    npy.write(reinterpret_cast<const char*>(values), sizeof values);
  }
  {
    const double values[] = {2, 3};
    std::ofstream(folder_ / "raw", std::ios::binary).write(reinterpret_cast<const char*>(values), sizeof values);
    write_npz((folder_ / "w.npz").string(), {{"w", {2}, {(folder_ / "raw").string()}}});
  }
  const std::string path =
      write("m.py",
            "import torch\n"
            "def half(x: Tensor) -> Tensor:\n    return 0.5 * x\n"
            "def log_prob(x: Tensor, y: Tensor, w: Tensor, v: Tensor, s: float, k: int) -> Tensor:\n"
            "    r = y - x[:, :1]\n"
            "    return -half(r * r).sum(1) - s * (x[:, 1:] * w).square().sum(1) + v[1, 2] - k\n");
  const auto target = make_script_target(path);
  EXPECT_EQ(target->dim(), 3);
  EXPECT_EQ(target->parameter_names(), (std::vector<std::string>{"a", "b.1", "b.2"}));
  const Tensor x = at::tensor({1.0, 0.5, -1.0}, at::kDouble).unsqueeze(0);
  EXPECT_NEAR(target->log_prob(x).item<double>(), -0.5 * (0 + 1 + 9) - 0.5 * (1 + 9) + 6 - 3, 1e-12);
  const Tensor g = target->with_gradient(x).gradient[0];
  EXPECT_NEAR(g[0].item<double>(), 0 + 1 + 3, 1e-12);
  EXPECT_NEAR(g[1].item<double>(), -0.5 * 2 * 0.5 * 4, 1e-12);
}

TEST_F(UserTarget, ScriptErrorsNameFileAndLine) {
  const std::string two = R"({"dim": 2})";
  EXPECT_HAS(script_error("def log_prob(x: Tensor) -> Tensor:\n    return x.sum(1\n", two), "m.py, line");
  const std::string unknown = script_error("def log_prob(x: Tensor) -> Tensor:\n    y = x\n    return z.sum(1)\n", two);
  EXPECT_HAS(unknown, "m.py, line 3");
  EXPECT_HAS(unknown, "undefined value z");
  EXPECT_EQ(unknown.find('\n'), std::string::npos) << unknown;
  EXPECT_HAS(script_error("def density(x: Tensor) -> Tensor:\n    return x.sum(1)\n", two), "no function log_prob");
  EXPECT_HAS(script_error("def log_prob(x: Tensor) -> Tensor:\n    return x.sum()\n", two),
             "must have shape [3], has []");
  EXPECT_HAS(script_error("def log_prob(x: Tensor) -> Tensor:\n    return x\n", two), "has [3, 2]");
  const std::string run =
      script_error("def log_prob(x: Tensor) -> Tensor:\n    y = x\n    return (y @ y).sum(1)\n", two);
  EXPECT_HAS(run, "m.py, line 3");
  EXPECT_EQ(run.find('\n'), std::string::npos) << run;
  EXPECT_HAS(script_error("def log_prob(x: Tensor, y: Tensor) -> Tensor:\n    return x.sum(1)\n", two), "wants 'y'");
}

// Neither a module's methods nor what runs while it is loaded may touch files.
TEST_F(UserTarget, ModulesThatTouchFilesAreRefused) {
  const std::string stolen = (folder_ / "stolen").string();
  const std::string save = "torch.save(x, \"" + stolen + "\")", path = (folder_ / "m.pt").string();
  write("m.json", "{\"dim\": 2}");
  for (const std::string& body :
       {"    " + save + "\n    return -x.square().sum(1)\n",
        std::string("    return torch.from_file(\"m.json\", False, 2).sum() - x.square().sum(1)\n"),
        "    if x.size(0) > 1:\n        " + save + "\n    return -x.square().sum(1)\n"}) {
    torch::jit::Module module("Density");
    module.define("def log_prob(self, x: Tensor) -> Tensor:\n" + body);
    module.save(path);
    try {
      find_target("module:" + path);
      ADD_FAILURE() << "was taken: " << body;
    } catch (const DataError& error) {
      EXPECT_HAS(error.what(), "which is not allowed");
    }
  }
  torch::jit::Module sneaky("Sneaky");
  sneaky.register_attribute("dim", c10::IntType::get(), 2);
  sneaky.define("def __getstate__(self):\n    return 2\ndef __setstate__(self, state: int):\n    torch.save(state, \"" +
                stolen +
                "\")\n    self.dim = state\ndef log_prob(self, x: Tensor) -> Tensor:\n    return -x.square().sum(1)\n");
  sneaky.save(path);
  EXPECT_THROW(find_target("module:" + path), DataError);
  EXPECT_FALSE(fs::exists(stolen));
}

TEST_F(UserTarget, DescriptionErrorsNameFileAndField) {
  const std::string good = "def log_prob(x: Tensor) -> Tensor:\n    return -x.square().sum(1)\n";
  EXPECT_HAS(script_error(good, "{\"dim\": 2"), "m.json: is not JSON");
  EXPECT_HAS(script_error(good, "[1]"), "is not a JSON object");
  EXPECT_HAS(script_error(good, "{\"dim\": 0}"), "dim is 0");
  EXPECT_HAS(script_error(good, "{\"dim\": \"two\"}"), "must be a whole number");
  EXPECT_HAS(script_error(good, "{\"size\": 2}"), "unknown field \"size\"");
  EXPECT_HAS(script_error(good, "{}"), "how many parameters");
  EXPECT_HAS(script_error(good, R"({"dim": 3, "parameters": ["a", "b"]})"), "dim is 3, but the parameters have 2");
  EXPECT_HAS(script_error(good, R"({"parameters": [{"name": "a", "constraint": "odd"}]})"), "unknown constraint 'odd'");
  EXPECT_HAS(script_error(good, R"({"dim": 2, "data": {"y": "none.csv"}})"), "none.csv");
  EXPECT_HAS(script_error(good, R"({"dim": 2, "data": {"y": [[1, 2], [3]]}})"), "ragged");
  EXPECT_HAS(script_error(good, R"({"dim": 2, "data": {"y": [1]}})"), "no argument 'y'");
  EXPECT_HAS(script_error(good, R"({"dim": 2, "observed": ["y"]})"), "not under \"data\"");
}

TEST_F(UserTarget, ModuleInItsOwnPrecision) {
  torch::jit::Module module("Density");
  module.register_parameter("scale", at::full({1}, 2.0, at::kFloat), false);
  module.register_attribute("dim", c10::IntType::get(), c10::IValue(int64_t{3}));
  module.define("def log_prob(self, x: Tensor) -> Tensor:\n    return -(x / self.scale).square().sum(1)\n");
  const std::string path = (folder_ / "m.pt").string();
  module.save(path);
  const auto target = make_module_target(path);
  EXPECT_EQ(target->dim(), 3);
  const Tensor x = at::full({2, 3}, 1.0, at::kDouble);
  EXPECT_EQ(target->log_prob(x).scalar_type(), at::kDouble);
  EXPECT_NEAR(target->log_prob(x)[0].item<double>(), -0.75, 1e-7);
  EXPECT_NEAR(target->with_gradient(x).gradient[0][0].item<double>(), -0.5, 1e-7);
  EXPECT_EQ(find_target("module:" + path)->name(), "module:" + path);

  torch::jit::Module wrong("Wrong");
  wrong.define("def forward(self, x: Tensor) -> Tensor:\n    return x.sum(0)\n");
  wrong.save((folder_ / "wrong.pt").string());
  EXPECT_HAS(error([&] { make_module_target((folder_ / "wrong.pt").string()); }), "how many parameters");
  write("wrong.json", "{\"dim\": 5}");
  EXPECT_HAS(error([&] {
               make_module_target((folder_ / "wrong.pt").string())->log_prob(at::ones({2, 5}, at::kDouble));
             }),
             "must have shape [2], has [5]");
  EXPECT_HAS(error([&] { make_module_target(write("text.pt", "no module")); }), "text.pt: is not a saved TorchScript");
  EXPECT_HAS(error([&] { make_module_target("none.pt"); }), "none.pt: cannot be opened");
}

// ---- shared objects

std::string fake(const std::string& name) { return std::string(HASTINGS_FAKES) + "/lib" + name + ".so"; }

TEST_F(UserTarget, Plugin) {
  const auto target = make_plugin_target(fake("rosenbrock"));
  EXPECT_EQ(target->dim(), 2);
  const TargetCheck check = check_target(*target, 1);
  EXPECT_TRUE(check.problems.empty()) << check.problems[0];
  EXPECT_LT(check.gradient_error, 1e-6);
  EXPECT_HAS(error([&] { make_plugin_target(fake("plugin_missing")); }), "has no function hastings_log_prob");
  EXPECT_HAS(error([&] { make_plugin_target(fake("plugin_no_dimension")); }), "hastings_dim() returned 0");
  EXPECT_HAS(error([&] {
               make_plugin_target(fake("plugin_fails"))->log_prob(at::zeros({1, 1}, at::kDouble));
             }),
             "returned error 7");
  EXPECT_HAS(error([&] { make_plugin_target(write("text.so", "no library")); }),
             "text.so: is not a usable shared object");
  EXPECT_HAS(error([&] { make_plugin_target("none.so"); }), "none.so: cannot be opened");
}

TEST_F(UserTarget, BridgeStanModels) {
  const auto target = make_stan_target(fake("stan_good"), {});
  EXPECT_EQ(target->dim(), 2);
  EXPECT_EQ(target->parameter_names(), (std::vector<std::string>{"a", "b.1"}));
  EXPECT_EQ(target->output_names(), (std::vector<std::string>{"a", "b.1", "b.2"}));
  const Tensor x = at::tensor({1.0, 2.0, 200.0, 0.0}, at::kDouble).view({2, 2});
  const Gradient g = target->with_gradient(x);
  EXPECT_NEAR(g.log_prob[0].item<double>(), -2.5, 1e-15);
  EXPECT_NEAR(g.gradient[0][1].item<double>(), -2.0, 1e-15);
  EXPECT_EQ(g.log_prob[1].item<double>(), -std::numeric_limits<double>::infinity());  // the model refused it
  EXPECT_EQ(target->complaint(), "scale is negative");
  // Outputs that are random depend on the draw's place alone, not on the batch.
  Stream all(3, Phase::kTest, 0, Purpose::kData), one(3, Phase::kTest, 0, Purpose::kData);
  const Tensor together = target->outputs(x, all);
  one.seek(1);
  EXPECT_TRUE(at::equal(target->outputs(x.narrow(0, 1, 1), one)[0], together[1]));
  EXPECT_NE(together[0][2].item<double>(), together[1][2].item<double>());
  EXPECT_NEAR(together[0][1].item<double>(), std::exp(2.0), 1e-12);
}

TEST_F(UserTarget, HostileModelsAreOneLineErrors) {
  EXPECT_HAS(error([&] { make_stan_target(fake("stan_wrong_version"), {}); }), "built with BridgeStan 1");
  EXPECT_HAS(error([&] { make_stan_target(fake("stan_no_version"), {}); }), "no bs_major_version");
  EXPECT_HAS(error([&] { make_stan_target(fake("stan_missing"), {}); }), "has no function bs_log_density_gradient");
  EXPECT_HAS(error([&] { make_stan_target(fake("stan_no_parameters"), {}); }), "has no parameters");
  EXPECT_HAS(error([&] { make_stan_target(fake("stan_bad_names"), {}); }), "has 3 outputs, but 1 names");
  const std::string data = write("d.json", "{}");
  const std::string construct = error([&] { make_stan_target(fake("stan_construct_fails"), {data, "", nullptr}); });
  EXPECT_HAS(construct, "d.json: variable N is not in the data");
  EXPECT_EQ(construct.find('\n'), std::string::npos);
  EXPECT_HAS(error([&] { make_stan_target(fake("stan_good"), {"none.json", "", nullptr}); }), "none.json");
  const auto nan = make_stan_target(fake("stan_density_nan"), {});
  EXPECT_HAS(check_target(*nan, 1).problems.at(0), "finite at none");
  const auto fails = make_stan_target(fake("stan_density_fails"), {});
  EXPECT_HAS(check_target(*fails, 1).problems.at(0), "scale is negative");
}

TEST_F(UserTarget, NoToolchainIsSaid) {
  const std::string model = write("m.stan", "parameters { real x; } model { x ~ std_normal(); }");
  EXPECT_HAS(error([&] { make_stan_target(model, {"", folder_.string(), nullptr}); }), "is not a Stan toolchain");
  EXPECT_HAS(error([&] { make_stan_target("none.stan", {}); }), "none.stan: cannot be opened");
  EXPECT_HAS(error([&] { find_target("mog6 data=x"); }), "mog6");
  EXPECT_HAS(error([&] { find_target("script:m.py data=x.json"); }), "--data belongs to stan");
}

// ---- check

TEST(Check, ZooIsClean) {
  for (const char* name : {"mog6", "banana", "icg", "logistic:simulated", "rough_well"}) {
    const TargetCheck c = check_target(*find_target(name), 1);
    EXPECT_TRUE(c.problems.empty()) << name << ": " << (c.problems.empty() ? "" : c.problems[0]);
    EXPECT_EQ(c.finite, 1);
    EXPECT_GT(c.gradient_seconds, 0);
  }
}

std::string first_problem(const std::function<Tensor(const Tensor&)>& f,
                          const std::function<Gradient(const Tensor&)>& gradient = nullptr) {
  const auto c = check_target(*make_target("t", 3, f, gradient), 1);
  return c.problems.empty() ? "none" : c.problems[0];
}

TEST(Check, FindsWhatIsWrong) {
  const auto normal = [](const Tensor& x) { return -0.5 * x.square().sum(1); };
  EXPECT_EQ(first_problem(normal), "none");
  EXPECT_HAS(first_problem(normal,
                           [&](const Tensor& x) {
                             return Gradient{normal(x), -1.01 * x};
                           }),
             "disagrees with differences");
  EXPECT_HAS(first_problem(normal,
                           [&](const Tensor& x) {
                             return Gradient{normal(x) + 1, -x};
                           }),
             "with and without gradient");
  EXPECT_HAS(first_problem([](const Tensor& x) { return -0.5 * (x - x.mean(0)).square().sum(1); }),
             "alone and the same point in a batch");
  EXPECT_HAS(first_problem([](const Tensor& x) { return x.log().sum(1) - x.sum(1); }), "constraint missing");
  EXPECT_HAS(first_problem([](const Tensor& x) { return -0.5 * x.narrow(1, 0, 2).square().sum(1); }),
             "does not depend on x.3");
  EXPECT_HAS(first_problem([](const Tensor& x) { return at::full({x.size(0)}, std::nan("")); }), "finite at none");
  int calls = 0;
  EXPECT_HAS(first_problem([&](const Tensor& x) { return -0.5 * x.square().sum(1) + 1e-3 * ++calls; }),
             "not a function");
}

}  // namespace
}  // namespace hastings
