// Networks from layer lists, pairs of them, and pairs of TorchScript modules.
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/api/module.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/core/registry.h"
#include "hastings/gan/calibrate/choose.h"
#include "hastings/gan/filter/sample.h"
#include "hastings/gan/network/preset.h"
#include "hastings/run/gan_run.h"
#include "support.h"

namespace hastings {
namespace {

using nlohmann::json;
using test::error_of;
using test::gap;

std::unique_ptr<Network> network(const std::string& text, uint64_t seed = 1) {
  Stream stream(seed, Phase::kTest, 0, Purpose::kWeights);
  return build_network(json::parse(text), &stream);
}

TEST(Network, LayersDoWhatTheirNamesSay) {
  const auto n = network(R"({"input": [2, 8, 8], "layers": [
    {"type": "conv", "out": 4, "kernel": 3, "stride": 2, "padding": 1, "name": "a"}, {"type": "batch_norm", "name": "b"},
    {"type": "leaky_relu", "slope": 0.3}, {"type": "conv_transpose", "out": 3, "kernel": 4, "stride": 2, "padding": 1, "name": "c"},
    {"type": "linear", "out": 5, "name": "d"}, {"type": "tanh"}]})");
  EXPECT_EQ(n->output_shape(), (std::vector<int64_t>{5}));
  const Weights w = n->weights();
  const Tensor x = at::randn({6, 2, 8, 8});
  const at::NoGradGuard no_grad;
  Tensor y = at::conv2d(x, w.at("a.weight"), w.at("a.bias"), 2, 1);
  y = at::batch_norm(y, w.at("b.weight"), w.at("b.bias"), w.at("b.running_mean"), w.at("b.running_var"), false, 0.1,
                     1e-5, false);
  y = at::conv_transpose2d(at::leaky_relu(y, 0.3), w.at("c.weight"), w.at("c.bias"), 2, 1);
  const Tensor features = y.flatten(1), out = at::tanh(at::linear(features, w.at("d.weight"), w.at("d.bias")));
  Tensor shown;
  EXPECT_LT(gap(n->forward(x, &shown), out), 1e-5);
  EXPECT_LT(gap(shown, features), 1e-5);
  EXPECT_TRUE(n->has_features());
}

TEST(Network, BatchStatisticsAreUsedOnlyInTraining) {
  const auto n = network(R"({"input": [3], "layers": [{"type": "linear", "out": 4}, {"type": "batch_norm"}]})");
  const at::NoGradGuard no_grad;
  const Tensor x = at::randn({16, 3});
  const Tensor alone = n->forward(x.narrow(0, 0, 1)), within = n->forward(x).narrow(0, 0, 1);
  EXPECT_LT(gap(alone, within), 1e-6);  // a row does not depend on its batch
  n->train(true);
  EXPECT_GT(gap(n->forward(x).narrow(0, 0, 1), within), 1e-2);
  n->train(false);
  EXPECT_GT(gap(n->forward(x).narrow(0, 0, 1), within), 1e-6);  // and the running statistics have moved
}

TEST(Network, FastTransposedConvolutionHasTheRightGradients) {
  for (const auto& [kernel, stride, padding, size] :
       {std::tuple{4, 1, 0, 1}, {4, 2, 1, 4}, {3, 2, 1, 5}, {4, 1, 0, 3}, {5, 3, 2, 4}}) {
    const auto n = network(fmt::format(R"({{"input": [6, {}, {}], "layers": [
      {{"type": "conv_transpose", "out": 5, "kernel": {}, "stride": {}, "padding": {}, "name": "c"}}]}})",
                                       size, size, kernel, stride, padding));
    const Weights w = n->weights();
    const Tensor x = at::randn({3, 6, size, size}).set_requires_grad(true);
    const Tensor fast = n->forward(x),
                 native = at::conv_transpose2d(x, w.at("c.weight"), w.at("c.bias"), stride, padding);
    EXPECT_LT(gap(fast, native), 1e-5);
    const Tensor g = at::randn_like(native);
    const std::vector<Tensor> inputs = {x, w.at("c.weight"), w.at("c.bias")};
    const auto ours = torch::autograd::grad({(fast * g).sum()}, inputs),
               theirs = torch::autograd::grad({(native * g).sum()}, inputs);
    for (size_t i = 0; i < 3; ++i)
      EXPECT_LT(gap(ours[i], theirs[i]), 1e-3) << i << " kernel " << kernel << " size " << size;
  }
}

TEST(Network, ResidualBranchesPoolsAndShapes) {
  const auto n = network(R"({"input": [4, 6, 6], "layers": [
    {"type": "residual", "layers": [{"type": "conv", "out": 8, "kernel": 3, "stride": 2, "padding": 1, "name": "r"}],
     "shortcut": [{"type": "subsample", "step": 2}, {"type": "pad", "channels_before": 2, "channels_after": 2}]},
    {"type": "branches", "branches": [[{"type": "max_pool", "kernel": 3}], [{"type": "avg_pool", "kernel": 3}, {"type": "relu"}]]},
    {"type": "global_mean"}, {"type": "reshape", "shape": [4, 2, 2]}, {"type": "upsample", "factor": 3}, {"type": "resize", "size": 4},
    {"type": "normalise", "mean": [0.5], "std": [2]}, {"type": "instance_norm"}, {"type": "dropout", "p": 0.3}, {"type": "flatten"}]})");
  EXPECT_EQ(n->output_shape(), (std::vector<int64_t>{64}));
  EXPECT_EQ(n->forward(at::randn({2, 4, 6, 6})).sizes(), (at::IntArrayRef{2, 64}));
  EXPECT_FALSE(n->has_features());
}

TEST(Network, ErrorsNameTheLayer) {
  auto of = [](const std::string& layers) {
    return error_of([&] { network(R"({"input": [1, 8, 8], "layers": )" + layers + "}"); });
  };
  EXPECT_NE(of(R"([{"type": "relu"}, {"type": "konv"}])").find("layer 1 (konv): is not a layer"), std::string::npos);
  EXPECT_NE(of(R"([{"type": "conv", "out": 3}])").find("needs 'kernel'"), std::string::npos);
  EXPECT_NE(of(R"([{"type": "conv", "out": 3, "kernel": 9}])").find("does not fit"), std::string::npos);
  EXPECT_NE(of(R"([{"type": "conv", "out": "many", "kernel": 3}])").find("must be a whole number"), std::string::npos);
  EXPECT_NE(of(R"([{"type": "relu", "slop": 1}])").find("does not know 'slop'"), std::string::npos);
  EXPECT_NE(of(R"([{"type": "conv", "out": -1, "kernel": 3}])").find("must be from 1 to 1048576"), std::string::npos);
  EXPECT_NE(of(R"([{"type": "reshape", "shape": [3]}])").find("cannot make"), std::string::npos);
  EXPECT_NE(of(R"(["relu"])").find("layer 0"), std::string::npos);
  EXPECT_NE(of(R"({"type": "relu"})").find("list of layers"), std::string::npos);
}

TEST(Network, WeightsLoadByNameWithACommonPrefix) {
  const std::string text = R"({"input": [3], "layers": [{"type": "linear", "out": 2, "name": "fc"}]})";
  const auto source = network(text, 1), other = network(text, 2);
  Weights prefixed;
  for (const auto& [name, value] : source->weights()) prefixed["module.net." + name] = value;
  prefixed["module.net.bn.num_batches_tracked"] = at::ones({1});
  other->load(prefixed, "file");
  EXPECT_EQ(gap(other->weights().at("fc.weight"), source->weights().at("fc.weight")), 0);
  Weights wrong = source->weights();
  wrong["fc.weight"] = at::ones({3, 2});
  EXPECT_NE(error_of([&] { other->load(wrong, "file"); }).find("has shape [3, 2], the network wants [2, 3]"),
            std::string::npos);
  wrong.erase("fc.weight");
  EXPECT_NE(error_of([&] { other->load(wrong, "file"); }).find("has no tensor 'fc.weight'"), std::string::npos);
  wrong = source->weights();
  wrong["extra"] = at::ones({1});
  EXPECT_NE(error_of([&] { other->load(wrong, "file"); }).find("'extra' belongs to no layer"), std::string::npos);
}

std::string tiny_pair() { return preset_pair("dcgan", {1, 8, 8}, 4, 6); }

TEST(Pair, ProposalsAreAFunctionOfTheirNumbers) {
  const Pair pair = fresh_pair(tiny_pair(), 3);
  const Proposals one(pair, 7, Phase::kTest, 1), two(pair, 7, Phase::kTest, 2);
  const Opinions a = one.opinions(0, 1000, {true}), b = two.opinions(300, 400, {true});
  EXPECT_TRUE(a.rows(300, 400).logits.equal(b.logits));  // any range, any number of threads
  EXPECT_TRUE(a.rows(300, 400).features.equal(b.features));
  const Tensor images = one.render({5, 999, 5, 251});
  EXPECT_TRUE(images[0].equal(images[2]));
  // What is rendered is what was scored: the discriminator says the same of it, up to the rounding to bytes.
  const Opinions again = opinions_of(pair, images, {}, 1);
  EXPECT_NEAR(again.logits[1].item<double>(), a.logits[999].item<double>(), 1e-3);
  EXPECT_NEAR(again.logits[3].item<double>(), a.logits[251].item<double>(), 1e-3);
}

TEST(Pair, RoundingInOneGoIsTheSame) {
  const Tensor x =
      at::cat({at::linspace(-1.5, 1.5, 20001), at::arange(0, 256).add(0.5).div(127.5).sub(1)}).to(at::kFloat);
  EXPECT_TRUE(rounded_to_bytes(x).equal(to_network_range(to_bytes(x))));
}

TEST(Pair, DescriptionErrorsAreTold) {
  EXPECT_NE(error_of([] { preset_pair("dcgan", {3, 28, 28}, 32, 100); }).find("--size"), std::string::npos);
  EXPECT_NE(error_of([] { preset_pair("biggan", {3, 32, 32}, 32, 100); }).find("'biggan'"), std::string::npos);
  EXPECT_NE(error_of([] { fresh_pair("{", 1); }).find("not JSON"), std::string::npos);
  EXPECT_NE(error_of([] { fresh_pair("{}", 1); }).find("image"), std::string::npos);
  EXPECT_NE(
      error_of([] {
        fresh_pair(
            R"({"image": [1, 4, 4], "generator": {"layers": [{"type": "linear", "out": 15}]}, "discriminator": {"layers": []}})",
            1);
      }).find("last layer gives [15]"),
      std::string::npos);
}

TEST(Pair, AClosingSigmoidIsLeftOut) {
  json with = json::parse(preset_pair("mlp", {1, 4, 4}, 8, 3)), without = with;
  with["discriminator"]["layers"].push_back({{"type", "sigmoid"}});
  const Pair a = fresh_pair(with.dump(), 1), b = fresh_pair(without.dump(), 1);
  const Tensor x = at::randn({5, 1, 4, 4});
  EXPECT_TRUE(a.logits(x).equal(b.logits(x)));
}

// A pair of TorchScript modules. The generator's images are level: all pixels tanh(z/2); real ones are brighter.
class ModulePair : public ::testing::Test {
 protected:
  void SetUp() override {
    make_directory(folder_);
    torch::jit::Module generator("Generator"), discriminator("Discriminator"), hidden("Hidden");
    generator.define("def forward(self, z):\n  return torch.tanh(z / 2).reshape(-1, 1, 1, 1).expand(-1, 1, 4, 4)\n");
    discriminator.define(
        "def features(self, x):\n  return x.flatten(1)\n"
        "def forward(self, x):\n  return 3 * x.flatten(1).mean(1)\n");
    hidden.define("def forward(self, x):\n  return torch.sigmoid(3 * x.flatten(1).mean(1, True))\n");
    generator.save(folder_ + "/G.pt");
    discriminator.save(folder_ + "/D.pt");
    hidden.save(folder_ + "/P.pt");
  }
  std::string describe(const std::string& generator, const std::string& discriminator, const std::string& output) {
    const json pair = {{"image", {1, 4, 4}},
                       {"generator", {{"latent", {{"dim", 1}}}, {"module", generator}}},
                       {"discriminator", {{"module", discriminator}, {"output", output}}}};
    write_file(folder_ + "/pair.json", pair.dump());
    return folder_ + "/pair.json";
  }
  std::string folder_ = (std::filesystem::path(::testing::TempDir()) / "hastings-modules").string();
};

TEST_F(ModulePair, IsAPairLikeAnyOther) {
  const Pair pair = load_pair(describe("G.pt", "D.pt", "logit"));
  const Tensor z = at::linspace(-2, 2, 5).unsqueeze(1), images = pair.generate(z);
  EXPECT_LT(gap(images.flatten(1).mean(1), at::tanh(z.squeeze(1) / 2)), 1e-6);
  Tensor features;
  EXPECT_LT(gap(pair.logits(images, &features), 3 * at::tanh(z.squeeze(1) / 2)), 1e-6);
  EXPECT_EQ(features.size(1), 16);
  // A module that gives d itself, and hides its features, is the same discriminator.
  const Pair other = load_pair(describe("G.pt", "P.pt", "probability"));
  EXPECT_LT(gap(other.logits(images), pair.logits(images)), 1e-5);
  EXPECT_FALSE(other.discriminator->has_features());

  // Both are calibrated and sampled with; the filter moves the images towards the real, brighter ones.
  Stream stream(5, Phase::kTest, 0, Purpose::kData);
  const Tensor level = at::tanh(stream.normal({2000}) / 2 + 0.4).reshape({-1, 1, 1, 1}).expand({-1, 1, 4, 4});
  Observer silent;
  for (const Pair* each : {&pair, &other}) {
    const ChosenCalibration chosen = choose_calibration(*each, to_bytes(level), {}, silent);
    ASSERT_NE(chosen.protocol, ProtocolKind::kPlain);
    FilterOptions filter;
    filter.protocol = chosen.protocol;
    filter.outputs = 2000;
    const Proposals proposals(*each, 1, Phase::kTest, 1);
    const auto samples = filter_proposals(proposals, chosen, {filter}, {1, Phase::kTest}, silent);
    const double got = to_network_range(proposals.render(samples[0].filtered.chosen)).mean().item<double>();
    EXPECT_NEAR(got, level.mean().item<double>(), 0.06);
    EXPECT_GT(got, 0.2);  // the generator's is 0
  }
}

TEST_F(ModulePair, ErrorsNameTheFile) {
  EXPECT_NE(error_of([&] { load_pair(describe("none.pt", "D.pt", "logit")); }).find("none.pt"), std::string::npos);
  EXPECT_NE(error_of([&] { load_pair(describe("pair.json", "D.pt", "logit")); }).find("not a TorchScript module"),
            std::string::npos);
  EXPECT_NE(error_of([&] { load_pair(describe("D.pt", "D.pt", "logit")); }).find("D.pt: "), std::string::npos);
  EXPECT_NE(error_of([&] { load_pair(describe("G.pt", "G.pt", "logit")); }).find("wanted are two of"),
            std::string::npos);
}

// Every preset is a pair that can be built, and every type of layer is on the page that users read.
TEST(Network, PresetsAndLayersAreRegistered) {
  for (const auto& preset : network_presets()) {
    const Pair pair = fresh_pair(preset_pair(preset.name, {1, 8, 8}, 4, 3), 1);
    EXPECT_EQ(pair.generate(at::zeros({2, 3})).sizes(), (at::IntArrayRef{2, 1, 8, 8})) << preset.name;
    EXPECT_NE(help_of(network_presets()).find(std::string(preset.name) + " (" + preset.help), std::string::npos);
  }
  EXPECT_EQ(error_of([] {
              preset_pair("resnet", {1, 8, 8}, 4, 3);
            }),
            "networks 'resnet': must be dcgan, wgan-gp, mlp or a JSON file");
  const std::string page = read_file(HASTINGS_REFERENCE "/../../docs/networks.md");
  EXPECT_GT(known_layers().size(), 20u);
  for (const auto& [name, fields] : known_layers()) EXPECT_NE(page.find("`" + name + "`"), std::string::npos) << name;
}

}  // namespace
}  // namespace hastings
