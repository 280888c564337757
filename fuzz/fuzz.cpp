// One program for all readers of files: `fuzz-NAME` (a link to it) feeds libFuzzer's inputs to the reader NAME;
// `fuzz seeds NAME FOLDER` writes small valid files to begin with, `fuzz list` the names.
//
// A reader may refuse a file with an error of ours of exit code 2 or 3, and nothing else: no other exception, no crash,
// no allocation that the file does not justify, no loop without end.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <jpeglib.h>
#include <unistd.h>
#include <zip.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "../src/io/stan_csv.h"
#include "../src/target/description.h"
#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/core/json.h"
#include "hastings/core/output_folder.h"
#include "hastings/data/arrays.h"
#include "hastings/data/images.h"
#include "hastings/data/table.h"
#include "hastings/data/weights.h"
#include "hastings/gan/network/network.h"
#include "hastings/gan/network/pair.h"
#include "hastings/gan/network/preset.h"
#include "hastings/io/npz.h"
#include "hastings/io/stored_draws.h"
#include "hastings/io/stored_fit.h"
#include "hastings/io/stored_summary.h"
#include "hastings/io/tensors.h"
#include "hastings/run/fit_store.h"
#include "hastings/run/run_writer.h"
#include "hastings/run/sample_run.h"
#include "hastings/target/registry.h"
#include "hastings/target/zoo.h"

namespace hastings {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A folder in memory for what the readers want to have as files.
const std::string& folder() {
  static const std::string& path = [] {
    auto* p = new std::string(fmt::format("/dev/shm/hastings-fuzz-{}", ::getpid()));  // outlives every destructor
    fs::create_directories(*p);
    std::atexit([] { fs::remove_all(folder()); });
    return std::ref(*p);
  }();
  return path;
}

std::string put(const std::string& name, const std::string& bytes) {
  const std::string path = folder() + "/" + name;
  std::FILE* file = std::fopen(path.c_str(), "wb");
  std::fwrite(bytes.data(), 1, bytes.size(), file);
  std::fclose(file);
  return path;
}

std::string taken(const std::string& path) { return read_file(path); }

std::string little(uint64_t value, size_t width) {
  std::string out;
  for (size_t i = 0; i < width; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
  return out;
}
std::string big(uint32_t value) {
  const std::string out = little(value, 4);
  return {out.rbegin(), out.rend()};
}

// --- PyTorch's files ---

std::string text(const std::string& s) { return "X" + little(s.size(), 4) + s; }

// {"w": 2x2 floats, "deep": {"b": the same storage, backwards}}
std::string object() {
  auto tensor = [](const std::string& shape, const std::string& stride) {
    return "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\nFloatStorage\n" + text("0") +
           text("cpu") + "K\4tQ" + std::string("K\0", 2) + shape + stride + "\x89" + "ccollections\nOrderedDict\n)RtR";
  };
  return "\x80\2}q\1(" + text("w") + tensor("K\2K\2\x86", "K\1K\2\x86") + text("deep") + "}q\2(" + text("b") +
         tensor("K\4\x85", "K\1\x85") + "uu.";
}
const std::string kHead = std::string("\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15) +
                          std::string("\x80\2M\xe9\3.", 6) + "\x80\2}.";
const std::string kKeys = "\x80\2](" + text("0") + "e.";
const std::string kFloats(16, '\1');

std::string legacy(const std::string& inside) { return kHead + inside + kKeys + little(4, 8) + kFloats; }

std::string zipped(const std::vector<std::pair<std::string, std::string>>& entries, bool compressed = false) {
  const std::string path = folder() + "/zip.tmp";
  int code = 0;
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  for (const auto& [name, content] : entries) {
    const auto index = zip_file_add(archive, name.c_str(),
                                    zip_source_buffer(archive, content.data(), content.size(), 0), ZIP_FL_OVERWRITE);
    zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), compressed ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
  }
  zip_close(archive);
  return taken(path);
}

void weights(const std::string& bytes) { read_weights(put("w.pth", bytes)); }

// --- pictures ---

uint32_t crc(std::string_view bytes) {
  uint32_t c = ~0U;
  for (const char b : bytes) {
    c ^= static_cast<unsigned char>(b);
    for (int k = 0; k < 8; ++k) c = c >> 1 ^ (c & 1 ? 0xedb88320U : 0);
  }
  return ~c;
}

// With the checksums of its chunks put right: else no change to one would get any further.
std::string repaired(std::string png) {
  for (size_t at = 8; at + 12 <= png.size();) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | static_cast<unsigned char>(png[at + i]);
    if (length > png.size() - at - 12) break;
    png.replace(at + 8 + length, 4, big(crc(std::string_view(png).substr(at + 4, length + 4))));
    at += 12 + length;
  }
  return png;
}

Tensor picture() { return at::arange(3 * 8 * 8, at::kByte).view({3, 8, 8}); }

std::string jpeg(bool progressive) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* out = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &out, &size);
  info.image_width = info.image_height = 16;
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  if (progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  std::vector<unsigned char> row(48);
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<unsigned char>(5 * i);
  JSAMPROW rows = row.data();
  while (info.next_scanline < info.image_height) jpeg_write_scanlines(&info, &rows, 1);
  jpeg_finish_compress(&info);
  std::string bytes(reinterpret_cast<char*>(out), size);
  jpeg_destroy_compress(&info);
  std::free(out);
  return bytes;
}

const std::string kIdx = std::string("\0\0\x08\3\0\0\0\2\0\0\0\4\0\0\0\4", 16) + std::string(32, 'p');
const std::string kLabels = std::string("\0\0\x08\1\0\0\0\2\1\2", 10);

std::string npy(const std::string& type, const std::string& shape, const std::string& data) {
  const std::string head = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}\n", type, shape);
  return std::string("\x93NUMPY\1\0", 8) + little(head.size(), 2) + head + data;
}

// --- runs ---

// A run of five draws to put one file of it in the place of.
const std::string& run() {
  static const std::string path = [] {
    const std::string p = folder() + "/run";
    const auto target = make_banana();
    FitOptions options;
    options.learn.max_iterations = 2;
    Observer silent;
    OutputFolder out(p, FolderKind::kRun);
    save_fit(out, *target, options, fit(*target, options, silent));
    SampleRequest request;
    request.options.draws = 8;
    request.options.chains = 2;
    sample_into(out, *target, load_fit(p, 2), request, 0, silent);
    return p;
  }();
  return path;
}

// What reads the file, with that file in the place of the run's own.
void with_file(const std::string& name, const std::string& bytes, void (*open)(const std::string& run)) {
  static const std::string& path = run();
  put("run/" + name, bytes);
  open(path);
}

// --- all of them ---

struct Reader {
  std::string name;
  std::function<std::vector<std::string>()> seeds;
  std::function<void(const std::string&)> read;
};

const char* kNetwork = R"({"input": [1, 8, 8], "layers": [{"type": "conv", "out": 4, "kernel": 3, "padding": 1},
  {"type": "batch_norm"}, {"type": "relu"}, {"type": "residual", "layers": [{"type": "conv", "out": 4, "kernel": 1}]},
  {"type": "max_pool", "kernel": 2}, {"type": "flatten"}, {"type": "reshape", "shape": [16, 4]},
  {"type": "flatten"}, {"type": "linear", "out": 2}, {"type": "dropout", "p": 0.5}]})";
const char* kDescription = R"({"dim": 3, "parameters": ["a", {"name": "b", "size": 2, "constraint": "interval",
  "low": 0, "high": 2}], "data": {"y": [[1, 2], [3, 4]], "n": {"values": 3, "type": "int"}}, "observed": ["y"],
  "dtype": "double"})";

const std::vector<Reader>& readers() {
  static const std::vector<Reader> all = {
      {"pickle-legacy", [] { return std::vector{legacy(object())}; }, weights},
      {"pickle-object", [] { return std::vector{object()}; }, [](const std::string& b) { weights(legacy(b)); }},
      {"pickle-zip", [] { return std::vector{object()}; },
       [](const std::string& b) {
         weights(zipped({{"a/data.pkl", b}, {"a/data/0", kFloats}}));
       }},
      {"zip",
       [] {
         const std::vector<std::pair<std::string, std::string>> e = {{"a/data.pkl", object()}, {"a/data/0", kFloats}};
         return std::vector{zipped(e), zipped(e, true)};
       },
       weights},
      {"safetensors",
       [] {
         const std::string head =
             R"({"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"__metadata__":{"a":"b"}})";
         return std::vector{head};
       },
       [](const std::string& b) { weights(little(b.size(), 8) + (b.empty() ? "{" : b) + kFloats); }},
      {"npy",
       [] {
         return std::vector{npy("<f8", "(2, 1)", kFloats), npy("|u1", "(1, 4, 4, 1)", kFloats),
                            npy("<i4", "(4,)", kFloats)};
       },
       [](const std::string& b) { read_npy(put("a.npy", b)); }},
      {"npz",
       [] {
         const std::string a = npy("<f8", "(2, 1)", kFloats);
         return std::vector{zipped({{"x.npy", a}, {"y.npy", a}}), zipped({{"x.npy", a}}, true)};
       },
       [](const std::string& b) { read_npz(put("a.npz", b)); }},
      {"png",
       [] {
         write_png(folder() + "/a.png", picture());
         write_png(folder() + "/b.png", picture().narrow(0, 0, 1));
         return std::vector{taken(folder() + "/a.png"), taken(folder() + "/b.png")};
       },
       [](const std::string& b) { read_image(put("a.png", repaired(b))); }},
      {"jpeg",
       [] {
         return std::vector{jpeg(false), jpeg(true)};
       },
       [](const std::string& b) { read_image(put("a.jpg", b)); }},
      {"idx", [] { return std::vector{kIdx}; },
       [](const std::string& b) {
         fs::create_directories(folder() + "/idx");
         for (const char* part : {"train", "t10k"}) {
           put(fmt::format("idx/{}-images-idx3-ubyte", part), b);
           put(fmt::format("idx/{}-labels-idx1-ubyte", part), kLabels);
         }
         read_images("mnist:" + folder() + "/idx");
       }},
      {"cifar",
       [] {
         return std::vector{std::string(3073, 'c'), std::string(2 * 3073, 'd')};
       },
       [](const std::string& b) {
         fs::create_directories(folder() + "/cifar");
         for (const char* part : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"})
           put(fmt::format("cifar/{}.bin", part), std::string(3073, 'x'));
         put("cifar/test_batch.bin", b);
         read_images("cifar10:" + folder() + "/cifar");
       }},
      {"csv",
       [] {
         return std::vector<std::string>{"a,b,y\n1,2,0\n3,4.5,1\n", "\"x, y\";z\n1;2\n", "1 2\n# note\n-3e2 4\n",
                                         "\xef\xbb\xbf"
                                         "a,b\n1,2\n"};
       },
       [](const std::string& b) {
         const std::string path = put("a.csv", b);
         read_table(path);
         read_array(path + ":a");
       }},
      {"libsvm",
       [] {
         return std::vector<std::string>{"1 1:0.5 3:2\n0 2:1\n1 1:1\n", "1,2,0\n3,1,1\n"};
       },
       [](const std::string& b) { read_labelled_table(put("a.libsvm", b)); }},
      {"script-json",
       [] {
         return std::vector<std::string>{kDescription, R"({"dim": 2})"};
       },
       [](const std::string& b) {
         put("m.json", b);
         read_description(folder() + "/m.py");
       }},
      {"script-source",
       [] {
         return std::vector<std::string>{
             "def log_prob(x: Tensor) -> Tensor:\n    return -x.square().sum(1)\n",
             "import torch\ndef f(a: Tensor) -> Tensor:\n    if a.size(0) > 2:\n        raise ValueError(\"no\")\n    "
             "return a.to(dtype=torch.double)\ndef log_prob(x: Tensor) -> Tensor:\n    return -f(x).sum(1)\n"};
       },
       [](const std::string& b) {
         put("s.json", R"({"dim": 2})");
         find_target("script:" + put("s.py", b));
       }},
      {"network-json", [] { return std::vector<std::string>{kNetwork}; },
       [](const std::string& b) { build_network(parse_json("network", b, true), nullptr, 1 << 20); }},
      {"pair-json",
       [] {
         return std::vector<std::string>{preset_pair("mlp", {1, 8, 8}, 4, 2), preset_pair("dcgan", {1, 8, 8}, 2, 2)};
       },
       [](const std::string& b) {
         static const std::string unused =
             put("G.safetensors", legacy(object())) + put("D.safetensors", legacy(object()));
         load_pair(put("pair.json", b));
       }},
      {"stan-csv",
       [] {
         return std::vector<std::string>{
             "# model = x\nlp__,accept_stat__,log_weight__,x.1\n-1,1,0.5,2\n-2,0.5,nan,inf\n# \n#  Elapsed Time: 1\n"};
       },
       [](const std::string& b) { read_stan_csv(put("chain-1.csv", b)); }},
      {"run-config", [] { return std::vector{taken(run() + "/config.json")}; },
       [](const std::string& b) {
         with_file("config.json", b, [](const std::string& r) { stored_target(r), load_fit(r, 2); });
       }},
      {"run-summary", [] { return std::vector{taken(run() + "/summary.json")}; },
       [](const std::string& b) {
         with_file("summary.json", b, [](const std::string& r) { finished_request(r), StoredDraws(r).width(); });
       }},
      {"run-proposal", [] { return std::vector{taken(run() + "/proposal.pt")}; },
       [](const std::string& b) { with_file("proposal.pt", b, [](const std::string& r) { load_fit(r, 2); }); }},
      {"run-draws", [] { return std::vector{taken(run() + "/draws.npz")}; },
       [](const std::string& b) {
         with_file("draws.npz", b, [](const std::string& r) {
           const StoredDraws stored(r);
           for (const char* name : {"draws", "lp", "log_weight"}) stored.read(name, 0, 0, stored.draws());
         });
       }},
      {"run-mark", [] { return std::vector<std::string>{taken(run() + "/.hastings")}; },
       [](const std::string& b) {
         fs::create_directories(folder() + "/marked");
         put("marked/.hastings", b);
         put("outside", "precious");
         put("marked/mine", "precious");
         {
           OutputFolder out(folder() + "/marked", FolderKind::kRun);
           out.clear();
         }
         if (!fs::exists(folder() + "/outside")) std::abort();
       }},
  };
  return all;
}

const Reader* chosen = nullptr;

void choose(const std::string& name) {
  for (const auto& reader : readers()) {
    if (name == reader.name) chosen = &reader;
  }
  if (chosen == nullptr) {
    fmt::print(stderr, "no reader '{}'\n", name);
    std::exit(2);
  }
}

}  // namespace
}  // namespace hastings

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  using namespace hastings;
  const std::vector<std::string> words(*arguments, *arguments + *count);
  if (words.size() == 2 && words[1] == "list") {
    for (const auto& reader : readers()) fmt::print("{}\n", reader.name);
    std::exit(0);
  }
  if (words.size() == 4 && words[1] == "seeds") {
    choose(words[2]);
    fs::create_directories(words[3]);
    int number = 0;
    for (const auto& seed : chosen->seeds()) write_file(fmt::format("{}/seed-{}", words[3], ++number), seed);
    std::exit(0);
  }
  choose(fs::path(words[0]).filename().string().substr(5));  // fuzz-NAME
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    hastings::chosen->read(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const hastings::Error& error) {
    if (error.exit_code() != 2 && error.exit_code() != 3) std::abort();
  }
  return 0;
}
