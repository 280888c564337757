// Networks that others trained, where their files are at hand (HASTINGS_TEST_DATA): the pairs of examples/gan and the
// feature networks.
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "hastings/core/files.h"
#include "hastings/gan/filter/propose.h"
#include "hastings/gan/network/features.h"
#include "support.h"

namespace hastings {
namespace {

namespace fs = std::filesystem;

std::string data_folder(const std::string& name) {
  const char* root = std::getenv("HASTINGS_TEST_DATA");
  if (!root || !*root) return "";
  const std::string path = std::string(root) + "/" + name;
  return fs::exists(path) ? path : "";
}

struct Known {
  const char *example, *folder;
  double fake;  // mean of d over what the generator makes; negative: not known
};

class Pairs : public ::testing::TestWithParam<Known> {};

// The original PyTorch files and their safetensors are the same networks, and they say what they are known to say.
TEST_P(Pairs, LoadFromBothKindsOfFilesAndJudge) {
  const auto [example, folder, fake] = GetParam();
  const std::string weights = data_folder(std::string("gan/") + folder);
  if (weights.empty()) GTEST_SKIP() << "HASTINGS_TEST_DATA has no gan/" << folder;
  const std::string description = HASTINGS_EXAMPLES "/gan/" + std::string(example) + ".json";
  const Pair original = load_pair(description, weights);
  auto json = nlohmann::json::parse(read_file(description));
  for (const char* part : {"generator", "discriminator"})
    json[part]["weights"] =
        fs::path(json[part]["weights"].get<std::string>()).replace_extension(".safetensors").string();
  const std::string copy = (fs::path(::testing::TempDir()) / (std::string(example) + ".json")).string();
  write_file(copy, json.dump());
  const Pair safe = load_pair(copy, weights);
  const Opinions a = Proposals(original, 3, Phase::kTest, 1).opinions(0, 2000, {true}),
                 b = Proposals(safe, 3, Phase::kTest, 1).opinions(0, 2000, {true});
  EXPECT_TRUE(a.logits.equal(b.logits));
  EXPECT_TRUE(at::isfinite(a.logits).all().item<bool>());
  if (fake >= 0) EXPECT_NEAR(at::sigmoid(a.logits).mean().item<double>(), fake, 0.15 * fake + 0.003);
}

INSTANTIATE_TEST_SUITE_P(All, Pairs,
                         ::testing::Values(Known{"mnist-mlp", "mnist-mlp", 0.28},
                                           Known{"mnist-dcgan", "mnist-dcgan", 0.006},
                                           Known{"celeba32-dcgan-05", "celeba32-dcgan", -1},
                                           Known{"celeba32-dcgan-40", "celeba32-dcgan", -1}),
                         [](const auto& info) {
                           std::string name = info.param.example;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(FeatureNetworks, LoadAndGiveTheirWidths) {
  const std::string weights = data_folder("weights");
  if (weights.empty()) GTEST_SKIP() << "HASTINGS_TEST_DATA has no weights";
  const FeatureNetwork lenet(HASTINGS_EXAMPLES "/gan/lenet5-f6.json", weights + "/lenet5.safetensors");
  EXPECT_EQ(lenet(at::zeros({3, 1, 28, 28}, at::kByte), 1).sizes(), (at::IntArrayRef{3, 84}));
  const FeatureNetwork resnet(HASTINGS_EXAMPLES "/gan/resnet20-cifar10.json",
                              weights + "/resnet20_cifar10.safetensors");
  EXPECT_EQ(resnet(at::zeros({3, 3, 32, 32}, at::kByte), 1).sizes(), (at::IntArrayRef{3, 64}));
  // The other file of the same network says the same.
  const FeatureNetwork original(HASTINGS_EXAMPLES "/gan/lenet5-f6.json",
                                weights + "/lenet_epoch=12_test_acc=0.991.pth");
  const Tensor images = (Stream(1, Phase::kTest, 0, Purpose::kData).uniform({5, 1, 28, 28}) * 256).to(at::kByte);
  EXPECT_TRUE(lenet(images, 1).equal(original(images, 1)));
}

}  // namespace
}  // namespace hastings
