// Files that somebody made to do harm: each ends in a DataError or ConfigError, soon, and takes little memory.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <zip.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/core/json.h"
#include "hastings/core/output_folder.h"
#include "hastings/data/arrays.h"
#include "hastings/data/images.h"
#include "hastings/data/table.h"
#include "hastings/data/weights.h"
#include "hastings/gan/network/features.h"
#include "hastings/gan/network/network.h"
#include "hastings/gan/network/pair.h"
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

class Hostile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = (fs::temp_directory_path() / ("hastings-hostile-" + std::to_string(::getpid()))).string();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string file(const std::string& name, const std::string& content) const {
    write_file(path(name), content);
    return path(name);
  }

  // Refused with an error of ours of exit code 2 or 3 that says `words`, within seconds, in little memory.
  static void refused(const std::string& words, const std::function<void()>& read) {
    rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    const auto begin = std::chrono::steady_clock::now();
    try {
      read();
      ADD_FAILURE() << "was taken; expected: " << words;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
      EXPECT_TRUE(error.exit_code() == 2 || error.exit_code() == 3) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
    getrusage(RUSAGE_SELF, &after);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20)) << words;
    EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 1500 << 10) << words;  // kilobytes
  }

  std::string folder_;
};

// --- PyTorch's files
// ---------------------------------------------------------------------------------------------------

std::string little(uint64_t value, size_t width) {
  std::string out;
  for (size_t i = 0; i < width; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
  return out;
}
std::string text(const std::string& s) { return "X" + little(s.size(), 4) + s; }
std::string whole(int64_t n) { return std::string("\x8a\x08") + little(static_cast<uint64_t>(n), 8); }
std::string tuple(const std::vector<int64_t>& values) {
  std::string out = "(";
  for (const int64_t v : values) out += whole(v);
  return out + "t";
}
// A call that makes a tensor of storage '0', which says that it has `count` floats.
std::string tensor(int64_t offset, const std::vector<int64_t>& shape, const std::vector<int64_t>& stride,
                   int64_t count = 4) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\nFloatStorage\n" + text("0") +
         text("cpu") + whole(count) + "tQ" + whole(offset) + tuple(shape) + tuple(stride) + "\x89}tR";
}
std::string pickled(const std::string& body) { return "\x80\x02" + body + "."; }
std::string dictionary(const std::string& value) { return pickled("}(" + text("w") + value + "u"); }
std::string legacy(const std::string& object, const std::string& rest = "") {
  const std::string magic("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
  return magic + pickled("M\xe9\x03") + pickled("}") + object + rest;
}
std::string without_data(const std::string& object) { return legacy(object, pickled("]")); }
const std::string kKeys = pickled("](" + text("0") + "e");
std::string with_data(const std::string& object) {
  return legacy(object, kKeys + little(4, 8) + std::string(16, '\1'));
}

void write_zip(const std::string& path, const std::vector<std::pair<std::string, std::string>>& entries) {
  int code = 0;
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  for (const auto& [name, content] : entries) {
    const auto index = zip_file_add(archive, name.c_str(),
                                    zip_source_buffer(archive, content.data(), content.size(), 0), ZIP_FL_OVERWRITE);
    zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
  }
  zip_close(archive);
}

TEST_F(Hostile, TensorsLieWithinTheirData) {
  EXPECT_EQ(read_weights(file("good.pth", with_data(dictionary(tensor(0, {2, 2}, {2, 1}))))).at("w").numel(), 4);
  EXPECT_EQ(read_weights(file("good.pth", with_data(dictionary(tensor(3, {1}, {1}))))).at("w").numel(), 1);
  const int64_t huge = int64_t{1} << 62;
  struct Case {
    int64_t offset;
    std::vector<int64_t> shape, stride;
  };
  for (const Case& c : std::vector<Case>{{int64_t{1} << 61, {1}, {1}},
                                         {huge, {1}, {1}},
                                         {-1, {1}, {1}},
                                         {INT64_MAX, {2}, {1}},
                                         {4, {1}, {1}},
                                         {1, {4}, {1}},
                                         {0, {2}, {huge}},
                                         {0, {3}, {huge}},
                                         {0, {2, 2}, {-1, 1}},
                                         {0, {1000000000}, {0}},  // much of little
                                         {0, {1 << 20, 1 << 20}, {0, 0}}}) {
    for (const bool zip : {false, true}) {
      const std::string object = dictionary(tensor(c.offset, c.shape, c.stride));
      const std::string p = path("bad.pth");
      if (zip) {
        write_zip(p, {{"a/data.pkl", object}, {"a/data/0", std::string(16, '\1')}});
      } else {
        write_file(p, with_data(object));
      }
      refused("beyond its data", [&] { read_weights(p); });
    }
  }
  refused("impossible shape", [&] {
    read_weights(file("bad.pth", with_data(dictionary(tensor(0, {huge, huge, huge}, {1, 1, 1})))));
  });
  refused("impossible shape", [&] {
    read_weights(file("bad.pth", with_data(dictionary(tensor(0, {0, huge, huge}, {1, 1, 1})))));
  });
  refused("damaged tensor", [&] { read_weights(file("bad.pth", with_data(dictionary(tensor(0, {2, 2}, {1}))))); });
}

TEST_F(Hostile, PicklesThatNestReferAndDouble) {
  constexpr int kDeep = 3000000;
  // Tuples in tuples, lists in lists, dictionaries in dictionaries.
  for (const std::string& nest : {std::string("(", 1), std::string("]"), std::string("}")}) {
    std::string body;
    if (nest == "(") {
      body = std::string(kDeep, '(') + "N" + std::string(kDeep, 't');
    } else {
      for (int i = 0; i < kDeep / 3; ++i) body += nest == "]" ? "]" : "}U\1a";
      body += "N" + std::string(kDeep / 3, nest == "]" ? 'a' : 's');
    }
    refused(nest == "}" ? "nested" : "no tensors",
            [&] { read_weights(file("deep.pth", without_data(pickled(body)))); });
  }
  // A dictionary that holds itself.
  refused("circles", [&] { read_weights(file("self.pth", without_data(pickled("}q\1U\1ah\1s")))); });
  // Sixty dictionaries, each twice in the next: 2^60 names in under a kilobyte.
  std::string doubling = "}";
  for (int i = 0; i < 60; ++i) {
    const std::string memo(1, static_cast<char>(i + 1));
    doubling += "q" + memo + "0}(U\1ah" + memo + "U\1bh" + memo + "u";
  }
  ASSERT_LT(doubling.size(), 1024u);
  refused("circles", [&] { read_weights(file("laughs.pth", without_data(pickled(doubling)))); });
  // A long name, taken again and again by an opcode of one byte.
  std::string copies = text(std::string(1 << 20, 'x')) + "q\1";
  for (int i = 0; i < 200000; ++i) copies += "h\1h\1\x93";
  refused("times its size", [&] { read_weights(file("copies.pth", with_data(pickled(copies)))); });
  std::string calls = "(" + std::string(1 << 20, 'N') + "tq\1";
  for (int i = 0; i < 200000; ++i) calls += "ca\nb\nh\1R";
  refused("times its size", [&] { read_weights(file("calls.pth", with_data(pickled(calls)))); });
  for (const std::string& broken :
       {std::string("t"), std::string("0"), std::string("s"), std::string("u"), std::string("h\1"), std::string("(0"),
        std::string("N(0t"), std::string("R"), std::string("b"), std::string("Q"), std::string("a")})
    refused("sound pickle", [&] { read_weights(file("broken.pth", with_data(pickled(broken)))); });
}

TEST_F(Hostile, SizesThatAFileDoesNotHave) {
  refused("ends before", [&] {
    read_weights(file("long.pth", legacy(dictionary(tensor(0, {1}, {1})), kKeys + little(uint64_t{1} << 61, 8))));
  });
  // A zip archive whose directory claims 4 GB for an entry.
  const std::string p = path("forged.pth");
  write_zip(p, {{"a/data.pkl", dictionary(tensor(0, {1}, {1}))}, {"a/data/0", std::string(16, '\1')}});
  std::string bytes = read_file(p);
  for (size_t at = 0; (at = bytes.find("PK\1\2", at)) != std::string::npos; at += 4) {
    bytes.replace(at + 20, 8, little(0xf0000000, 4) + little(0xf0000000, 4));
  }
  refused("", [&] { read_weights(file("forged.pth", bytes)); });
  refused("", [&] { read_npz(file("forged.npz", bytes)); });
}

// --- safetensors and NumPy
// --------------------------------------------------------------------------------------------

std::string safetensors(const std::string& header, const std::string& data = std::string(16, '\1')) {
  return little(header.size(), 8) + header + data;
}

TEST_F(Hostile, Safetensors) {
  auto entry = [](const std::string& shape, const std::string& offsets) {
    return safetensors(R"({"w":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}");
  };
  EXPECT_EQ(read_weights(file("good", entry("[2,2]", "[0,16]"))).at("w").numel(), 4);
  for (const char* offsets : {"[-16,0]", "[0,-1]", "[18446744073709551600,16]", "[16,0]", "[0,1e300]", "[0,16.5]",
                              "[9223372036854775807,9223372036854775807]", "[0,17]", "[8,24]"})
    refused("within the file", [&] { read_weights(file("bad", entry("[4]", offsets))); });
  for (const char* shape : {"[-4]", "[1000000000000]", "[4294967296,4294967296,4294967296]", "[2.5]", "[1e30]"})
    refused("", [&] { read_weights(file("bad", entry(shape, "[0,16]"))); });
  refused("damaged", [&] { read_weights(file("bad", entry("4", "[0]"))); });
  refused("overlaps", [&] {
    read_weights(file("bad", safetensors(R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},)"
                                         R"("b":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})")));
  });
  refused("longer than the file",
          [&] { read_weights(file("bad", little(UINT64_MAX, 8) + "{}" + std::string(16, ' '))); });
  refused("nested deeper", [&] { read_weights(file("bad", safetensors("{\"w\":" + std::string(1000000, '[')))); });
}

std::string npy(const std::string& shape, const std::string& data = std::string(16, '\1')) {
  std::string head = "{'descr': '<f8', 'fortran_order': False, 'shape': " + shape + ", }\n";
  return std::string("\x93NUMPY\x01\x00", 8) + little(head.size(), 2) + head + data;
}

TEST_F(Hostile, NumPy) {
  EXPECT_EQ(read_npy(file("good.npy", npy("(2,)"))).numel(), 2);
  refused("ends before", [&] { read_npy(file("bad.npy", npy("(1000000000000,)"))); });
  refused("ends before", [&] { read_npy(file("bad.npy", npy("(100000, 100000)"))); });
  refused("impossible shape", [&] { read_npy(file("bad.npy", npy("(12345678901234567890,)"))); });
  refused("impossible shape", [&] { read_npy(file("bad.npy", npy("(99999999999, 99999999999, 99999999999)"))); });
  refused("impossible shape", [&] { read_npy(file("bad.npy", npy("(0, 9223372036854775807, 9223372036854775807)"))); });
  refused("", [&] { read_npy(file("bad.npy", npy(std::string(3000, '1')))); });
  refused("", [&] { read_npy(file("bad.npy", std::string("\x93NUMPY\x01\x00\x0c\x00'descr':    ", 22))); });
  write_zip(path("good.npz"), {{"x.npy", npy("(2,)")}});
  EXPECT_EQ(read_npz(path("good.npz")).at("x").numel(), 2);
  write_zip(path("bad.npz"), {{"x.npy", npy("(1000000000000,)")}});
  refused("ends before", [&] { read_npz(path("bad.npz")); });
}

// --- JSON
// --------------------------------------------------------------------------------------------------------------

TEST_F(Hostile, JsonThatNests) {
  const std::string deep(1000000, '['), closed = std::string(1000, '[') + std::string(1000, ']');
  EXPECT_EQ(parse_json("x", closed).size(), 1u);  // as deep as is read
  refused("nested deeper than 1000", [&] { parse_json("x", "[" + closed + "]"); });
  EXPECT_EQ(parse_json("x", "\"" + deep + "\\\"[\"").size(), 1u);  // within a string brackets are text
  const std::string script = file("m.py", "def log_prob(x: Tensor) -> Tensor:\n    return -x.square().sum(1)\n");
  for (const std::string& content : {deep, "{\"data\": {\"a\": " + deep}) {
    file("m.json", content);
    refused("nested deeper", [&] { find_target("script:" + script); });
    refused("nested deeper", [&] { load_pair(file("pair.json", content)); });
    refused("nested deeper", [&] { FeatureNetwork(file("features.json", content), ""); });
    fs::create_directories(path("run"));
    write_file(path("run/summary.json"), content);
    write_file(path("run/config.json"), content);
    refused("nested deeper", [&] { load_summary(path("run")); });
    refused("nested deeper", [&] { stored_target(path("run")); });
  }
#ifdef HASTINGS_FAKES
  const std::string model = std::string(HASTINGS_FAKES) + "/libstan_good.so";
  refused("nested deeper", [&] { find_target("stan:" + model + " data=" + file("data.json", "{\"a\": " + deep)); });
#endif
}

TEST_F(Hostile, NetworksThatNestOrAskForTooMuch) {
  std::string layers = "[]";
  for (int i = 0; i < 20000; ++i) layers = R"([{"type": "residual", "layers": )" + layers + "}]";
  refused("nested deeper", [&] {
    FeatureNetwork(file("f.json", R"({"input": [1, 8, 8], "weights": "w", "layers": )" + layers + "}"), "");
  });
  auto network = [](const std::string& input, const std::string& list) {
    build_network(nlohmann::json::parse(R"({"input": )" + input + R"(, "layers": )" + list + "}"));
  };
  std::string nested = "[]";
  for (int i = 0; i < 200; ++i) nested = R"([{"type": "residual", "layers": )" + nested + "}]";
  network("[1, 8, 8]", nested);  // deep, and well
  refused("more weights than there are",
          [&] { network("[1048576]", R"([{"type": "linear", "out": 1048576}, {"type": "linear", "out": 1048576}])"); });
  refused("values", [&] { network("[1, 8, 8]", R"([{"type": "pad", "pixels": 1048576}])"); });
  refused("values", [&] { network("[1, 8, 8]", R"([{"type": "upsample", "factor": 1048576}])"); });
  refused("values", [&] { network("[1048576, 1048576, 1048576]", "[]"); });
  refused("cannot make", [&] { network("[4]", R"([{"type": "reshape", "shape": [-2, -2]}])"); });
  refused("must be from 1 to 1048576", [&] { network("[1, 8, 8]", R"([{"type": "linear", "out": 1000000000}])"); });
  refused("must be a whole number", [&] { network("[1, 8, 8]", R"([{"type": "linear", "out": 2.5}])"); });
}

// --- Pictures and tables
// -----------------------------------------------------------------------------------------------

uint32_t crc(const std::string& bytes) {
  uint32_t c = ~0U;
  for (const char b : bytes) {
    c ^= static_cast<unsigned char>(b);
    for (int k = 0; k < 8; ++k) c = c >> 1 ^ (c & 1 ? 0xedb88320U : 0);
  }
  return ~c;
}
std::string big(uint32_t value) {
  std::string out = little(value, 4);
  return {out.rbegin(), out.rend()};
}

TEST_F(Hostile, PicturesLargerThanTheirFiles) {
  auto png = [](uint32_t width, uint32_t height) {
    const std::string head = "IHDR" + big(width) + big(height) + std::string("\1\0\0\0\0", 5);
    return "\x89PNG\r\n\x1a\n" + big(13) + head + big(crc(head)) + big(0) + "IDAT" + big(crc("IDAT")) + big(0) +
           "IEND" + big(crc("IEND"));
  };
  refused("larger than 32768", [&] { read_image(file("a.png", png(32768, 32768))); });
  refused("", [&] { read_image(file("a.png", png(1000000, 1000000))); });
  // The frame of a JPEG, baseline and progressive.
  const std::string head("\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0", 20);
  auto frame = [](uint32_t height, uint32_t width, char kind) {
    std::string out = std::string("\xff", 1) + kind + std::string("\0\x11\x08", 3);
    out += static_cast<char>(height >> 8);
    out += static_cast<char>(height & 0xff);
    out += static_cast<char>(width >> 8);
    out += static_cast<char>(width & 0xff);
    out += std::string("\3\1\x11\0\2\x11\0\3\x11\0", 10);
    return out + std::string("\xff\xda\0\x0c\3\1\0\2\x11\3\x11\0\x3f\0", 14);  // and the start of a scan
  };
  for (const char kind : {'\xc0', '\xc2'})
    refused("larger than 32768", [&] { read_image(file("a.jpg", head + frame(32767, 32767, kind) + "\xff\xd9")); });
  refused("damaged JPEG", [&] { read_image(file("a.jpg", head + frame(16, 16, '\xc0') + "\xff\xd9")); });
}

TEST_F(Hostile, SparseTablesThatGrow) {
  std::string rows;
  for (int i = 0; i < 20000; ++i) rows += i % 2 ? "1 100000:1\n" : "0 1:1\n";
  refused("more than 1000 times", [&] { read_labelled_table(file("a.libsvm", rows)); });
  refused("from 1 to 100000", [&] { read_labelled_table(file("a.libsvm", "1 1000000:1\n0 1:1\n")); });
  EXPECT_EQ(read_labelled_table(file("a.libsvm", "1 1:1\n0 2:1 1:3\n")).features.size(1), 2);
}

TEST_F(Hostile, Idx) {
  const std::string head("\0\0\x08\x03\x7f\xff\xff\xff\x7f\xff\xff\xff\x7f\xff\xff\xff", 16);
  file("train-images-idx3-ubyte", head + "data");
  refused("length its header says", [&] { read_images("mnist:" + folder_); });
}

// --- Runs
// --------------------------------------------------------------------------------------------------------------

TEST_F(Hostile, RunsThatWereTamperedWith) {
  const auto target = make_banana();
  FitOptions options;
  options.learn.max_iterations = 5;
  Observer silent;
  const std::string run = path("run");
  {
    OutputFolder folder(run, FolderKind::kRun);
    save_fit(folder, *target, options, fit(*target, options, silent));
    SampleRequest request;
    request.options.draws = 50;
    sample_into(folder, *target, load_fit(run, 2), request, 0, silent);
  }
  auto tamper = [&](const std::string& name, const std::string& content, const std::function<void()>& read) {
    const std::string before = read_file(run + "/" + name);
    write_file(run + "/" + name, content);
    refused("", read);
    write_file(run + "/" + name, before);
  };
  auto more = [&] {
    OutputFolder folder(run, FolderKind::kRun, OutputFolder::Use::kGoOn);
    sample_into(folder, *target, load_fit(run, 2), finished_request(run), 10, silent);
  };
  for (const char* text : {"", "{}", "[]", "null", "{\"target\": 3}", "{\"target\": \"banana\", \"fit\": 1}"})
    tamper("config.json", text, [&] { load_fit(run, 2); });
  for (const char* text : {"", "{}", "[1]", "{\"parameters\": 3}"}) {
    tamper("summary.json", text, [&] { load_summary(run); });
    tamper("summary.json", text, more);
  }
  // Numbers that their types do not hold.
  for (const char* number : {"4e98", "2.5", "99999999999", "-1e300", "\"ten\""}) {
    std::string text = read_file(run + "/summary.json");
    const std::string field = "\"leapfrog_steps\": ";
    for (size_t at = 0; (at = text.find(field, at)) != std::string::npos;)
      text.replace(at += field.size(), text.find(',', at) - at, number);
    tamper("summary.json", text, [&] { load_summary(run); });
    tamper("summary.json", text, more);
  }
  const std::string proposal = read_file(run + "/proposal.pt");
  for (const size_t size : {size_t{0}, size_t{10}, proposal.size() / 2, proposal.size() - 1})
    tamper("proposal.pt", proposal.substr(0, size), [&] { load_fit(run, 2); });
  tamper("proposal.pt", with_data(dictionary(tensor(0, {1}, {1}))), [&] { load_fit(run, 2); });
  tamper("sampler.pt", with_data(dictionary(tensor(0, {1}, {1}))), more);
  tamper("sampler.pt", "nothing", more);
  write_zip(path("other.npz"), {{"draws.npy", npy("(4, 1000000000000, 2)")}});
  tamper("draws.npz", read_file(path("other.npz")), [&] { StoredDraws(run).read("draws", 0, 0, 10); });
  more();  // and whole again it goes on
  EXPECT_EQ(load_summary(run).summary.draws, 60);
}

}  // namespace
}  // namespace hastings
