// Images, data sets of images, their splits, and files of weights.
#include <fmt/format.h>
#include <zip.h>

#include <cstdio>
#include <filesystem>
#include <set>
// jpeglib.h wants stdio first
#include <jpeglib.h>

#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/data/images.h"
#include "hastings/data/weights.h"
#include "support.h"

namespace hastings {
namespace {

namespace fs = std::filesystem;

std::string scratch(const std::string& name) {
  const std::string path = (fs::path(::testing::TempDir()) / "hastings-images" / name).string();
  fs::remove_all(path);
  make_directory(path);
  return path;
}

Tensor noise(at::IntArrayRef shape, uint64_t seed) {
  return (Stream(seed, Phase::kTest, 0, Purpose::kData).uniform(shape) * 256).floor().to(at::kByte);
}

template <class E>
void expect_error(const std::function<void()>& f, const std::string& part) {
  try {
    f();
    FAIL() << "no error; expected one with: " << part;
  } catch (const E& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

std::string big_endian(uint32_t v) {
  return {static_cast<char>(v >> 24), static_cast<char>(v >> 16), static_cast<char>(v >> 8), static_cast<char>(v)};
}

void write_mnist(const std::string& folder, int train, int test) {
  for (const auto& [stem, count, seed] : {std::tuple{"train", train, 1}, {"t10k", test, 2}}) {
    const Tensor pixels = noise({count, 28, 28}, static_cast<uint64_t>(seed));
    std::string images =
        std::string("\0\0\x08\x03", 4) + big_endian(static_cast<uint32_t>(count)) + big_endian(28) + big_endian(28);
    images.append(reinterpret_cast<const char*>(pixels.data_ptr<uint8_t>()), static_cast<size_t>(pixels.numel()));
    write_file(folder + "/" + stem + "-images-idx3-ubyte", images);
    std::string labels = std::string("\0\0\x08\x01", 4) + big_endian(static_cast<uint32_t>(count));
    for (int i = 0; i < count; ++i) labels += static_cast<char>(i % 10);
    write_file(folder + "/" + stem + "-labels-idx1-ubyte", labels);
  }
}

TEST(Images, PngComesBackAsItWas) {
  const std::string folder = scratch("png");
  for (const int64_t channels : {1, 3}) {
    const Tensor image = noise({channels, 13, 7}, 3);
    write_png(folder + "/a.png", image);
    EXPECT_TRUE(read_image(folder + "/a.png").equal(image.expand({3, 13, 7})));
  }
}

TEST(Images, JpegIsReadAndATruncatedOneRefused) {
  const std::string path = scratch("jpeg") + "/a.jpg";
  std::vector<uint8_t> row(16 * 3, 200);
  std::FILE* file = std::fopen(path.c_str(), "wb");
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  jpeg_stdio_dest(&info, file);
  info.image_width = info.image_height = 16;
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_start_compress(&info, TRUE);
  JSAMPROW pointer = row.data();
  for (int y = 0; y < 16; ++y) jpeg_write_scanlines(&info, &pointer, 1);
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::fclose(file);
  const Tensor image = read_image(path);
  ASSERT_EQ(image.sizes(), (at::IntArrayRef{3, 16, 16}));
  EXPECT_LE((image.to(at::kInt) - 200).abs().max().item<int>(), 2);
  const std::string bytes = read_file(path);
  write_file(path, bytes.substr(0, bytes.size() - 30));
  expect_error<DataError>([&] { read_image(path); }, "damaged JPEG");
  write_file(path, "GIF89a");
  expect_error<DataError>([&] { read_image(path); }, "neither PNG nor JPEG");
}

TEST(Images, DamagedPngIsRefused) {
  const std::string path = scratch("bad-png") + "/a.png";
  write_png(path, noise({3, 20, 20}, 1));
  std::string bytes = read_file(path);
  write_file(path, bytes.substr(0, bytes.size() / 2));
  expect_error<DataError>([&] { read_image(path); }, "damaged PNG");
}

TEST(Images, MnistWithItsOfficialSplit) {
  const std::string folder = scratch("mnist");
  write_mnist(folder, 400, 150);
  const ImageSet set = read_images("mnist:" + folder);
  EXPECT_EQ(set.pixels.sizes(), (at::IntArrayRef{550, 1, 28, 28}));
  EXPECT_EQ(set.train_size, 400);
  EXPECT_EQ(set.labels[13].item<int64_t>(), 3);
  ImageOptions options;
  options.size = 32;
  options.channels = 3;
  EXPECT_EQ(read_images("mnist:" + folder, options).pixels.sizes(), (at::IntArrayRef{550, 3, 32, 32}));
  const std::string path = folder + "/train-images-idx3-ubyte";
  write_file(path, read_file(path) + "x");
  expect_error<DataError>([&] { read_images("mnist:" + folder); }, "length");
  fs::remove(path);
  expect_error<DataError>([&] { read_images("mnist:" + folder); }, "hastings data fetch mnist");
}

TEST(Images, Cifar10Binary) {
  const std::string folder = scratch("cifar");
  const Tensor pixels = noise({2, 3, 32, 32}, 5);
  std::string bytes;
  for (int64_t i = 0; i < 2; ++i) {
    bytes += static_cast<char>(i + 7);
    bytes.append(reinterpret_cast<const char*>(pixels[i].data_ptr<uint8_t>()), 3072);
  }
  for (const char* part :
       {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"})
    write_file(fmt::format("{}/{}.bin", folder, part), bytes);
  const ImageSet set = read_images("cifar10:" + folder);
  EXPECT_EQ(set.train_size, 10);
  EXPECT_TRUE(set.pixels.narrow(0, 10, 2).equal(pixels));
  EXPECT_EQ(set.labels[11].item<int64_t>(), 8);
  write_file(folder + "/test_batch.bin", bytes + "x");
  expect_error<DataError>([&] { read_images("cifar10:" + folder); }, "binary version");
}

TEST(Images, FolderIsCroppedAndResized) {
  const std::string folder = scratch("folder");
  make_directory(folder + "/sub");
  Tensor image = at::zeros({3, 30, 20}, at::kByte);
  image.narrow(1, 10, 10).narrow(2, 5, 10).fill_(255);
  write_png(folder + "/sub/b.png", image);
  write_png(folder + "/a.PNG", at::full({3, 30, 20}, 9, at::kByte));
  ImageOptions options;
  options.crop = "10x10+5+10";
  options.size = 5;
  const ImageSet set = read_images("folder:" + folder, options);
  ASSERT_EQ(set.pixels.sizes(), (at::IntArrayRef{2, 3, 5, 5}));
  EXPECT_TRUE(set.pixels[0].eq(9).all().item<bool>());    // a before sub/b
  EXPECT_TRUE(set.pixels[1].eq(255).all().item<bool>());  // exactly the white part
  options.crop = "10x10";
  EXPECT_TRUE(read_images(folder, options).pixels[1].eq(255).all().item<bool>());  // it is the centre too
  options.crop = "40x10";
  expect_error<DataError>([&] { read_images(folder, options); }, "beyond");
  options.crop = "ten";
  expect_error<ConfigError>([&] { read_images(folder, options); }, "crop 'ten'");
  write_png(folder + "/c.png", at::zeros({3, 8, 8}, at::kByte));
  expect_error<DataError>([&] { read_images(folder); }, "crop or resize");
}

void write_npy(const std::string& path, const Tensor& bytes) {
  std::string text = fmt::format("{{'descr': '|u1', 'fortran_order': False, 'shape': ({}, {}, {}, {}), }}",
                                 bytes.size(0), bytes.size(1), bytes.size(2), bytes.size(3));
  while ((text.size() + 11) % 64 != 0) text += ' ';
  text += '\n';
  std::string file("\x93NUMPY\x01\0", 8);
  file += static_cast<char>(text.size());
  file += '\0';
  file += text;
  file.append(static_cast<const char*>(bytes.contiguous().data_ptr()), static_cast<size_t>(bytes.numel()));
  write_file(path, file);
}

TEST(Images, ArraysInEitherLayout) {
  const std::string folder = scratch("npy");
  const Tensor images = noise({4, 3, 6, 5}, 2);
  write_npy(folder + "/nchw.npy", images);
  write_npy(folder + "/nhwc.npy", images.permute({0, 2, 3, 1}).contiguous());
  EXPECT_TRUE(read_images(folder + "/nchw.npy").pixels.equal(images));
  EXPECT_TRUE(read_images(folder + "/nhwc.npy").pixels.equal(images));
  write_npy(folder + "/odd.npy", noise({4, 5, 6, 7}, 2));
  expect_error<DataError>([&] { read_images(folder + "/odd.npy"); }, "channels");
  expect_error<ConfigError>([&] { read_images("nothing-like-this"); }, "must be mnist:FOLDER");
}

TEST(Images, AFingerprintKnowsEveryPixelAndTheOrder) {
  ImageSet set, other;
  set.pixels = noise({50, 1, 3, 3}, 11);  // 450 bytes: no multiple of eight
  other.pixels = set.pixels.clone();
  EXPECT_EQ(fingerprint(set), fingerprint(other));
  other.pixels[49][0][2][2].bitwise_xor_(1);
  EXPECT_NE(fingerprint(set), fingerprint(other));
  other.pixels = set.pixels.flip(0);
  EXPECT_NE(fingerprint(set), fingerprint(other));
  other.pixels = set.pixels.narrow(0, 0, 49);
  EXPECT_NE(fingerprint(set), fingerprint(other));
}

TEST(Splits, AreDisjointAndDeterministicAndLeaksAreFound) {
  ImageSet set;
  set.name = "made";
  set.pixels = noise({1200, 1, 4, 4}, 11);
  set.train_size = 900;
  SplitOptions options;
  options.calibrate = 200;
  options.reference = 300;
  const Splits a = make_splits(set, options, 5), b = make_splits(set, options, 5), c = make_splits(set, options, 6);
  EXPECT_EQ(a.calibrate, b.calibrate);
  EXPECT_NE(a.calibrate, c.calibrate);
  EXPECT_EQ(a.train.size() + a.calibrate.size() + a.reference.size(), 1200u);
  for (const int64_t i : a.calibrate) EXPECT_GE(i, 900);  // from the test set, as far as it reaches
  EXPECT_EQ(check_splits(set, a), 0);
  Splits leaking = a;
  leaking.calibrate[0] = leaking.train[0];
  expect_error<DataError>([&] { check_splits(set, leaking); }, "two splits");
  leaking = a;
  leaking.train[0] = 1200;
  expect_error<DataError>([&] { check_splits(set, leaking); }, "other data");
  set.pixels[a.calibrate[3]].copy_(set.pixels[a.train[7]]);  // a copy under another index
  EXPECT_EQ(check_splits(set, a), 1);
  options.train = false;
  const Splits foreign = make_splits(set, options, 5);
  EXPECT_TRUE(foreign.train.empty());
  EXPECT_EQ(foreign.reference.size(), 1000u);
  set.pixels = set.pixels.narrow(0, 0, 200);
  set.train_size = 0;
  expect_error<DataError>([&] { make_splits(set, {}, 1); }, "too few");
}

TEST(Weights, SafetensorsComeBack) {
  const std::string path = scratch("weights") + "/w.safetensors";
  const Weights weights = {{"a.weight", at::randn({3, 4})},
                           {"b", at::arange(5, at::kLong)},
                           {"c", at::randn({2}, at::kDouble)},
                           {"h", at::randn({7}).to(at::kHalf)},
                           {"empty", at::empty({0, 3})}};
  write_safetensors(path, weights);
  const Weights back = read_weights(path);
  ASSERT_EQ(back.size(), weights.size());
  for (const auto& [name, value] : weights) EXPECT_TRUE(back.at(name).equal(value)) << name;
  const std::string bytes = read_file(path);
  write_file(path, bytes.substr(0, bytes.size() - 4));
  expect_error<DataError>([&] { read_weights(path); }, "within the file");
  write_file(path, std::string(8, '\xff') + "{" + std::string(20, ' '));
  expect_error<DataError>([&] { read_weights(path); }, "longer than the file");
  write_file(path, "no weights in here at all");
  expect_error<DataError>([&] { read_weights(path); }, "neither safetensors nor");
}

// What torch.save writes for {"w": tensor of 2x2 floats}, opcode by opcode.
std::string tensor_pickle() {
  auto text = [](const std::string& s) {
    return std::string("X") + std::string{static_cast<char>(s.size()), 0, 0, 0} + s;
  };
  std::string p("\x80\x02}q\x00(", 6);
  p += text("w");
  p += "ctorch._utils\n_rebuild_tensor_v2\n(";
  p += "(" + text("storage") + "ctorch\nFloatStorage\n" + text("0") + text("cpu") + std::string("K\x04") + "tQ";
  p += std::string("K\x00", 2) + "K\x02K\x02\x86" + "K\x01K\x02\x86";  // offset 0, size (2, 2), stride (1, 2)
  p += std::string("\x89") + "ccollections\nOrderedDict\n)RtRu.";
  return p;
}

std::string four_floats() {
  const float values[4] = {1, 2, 3, 4};
  return {reinterpret_cast<const char*>(values), sizeof values};
}

TEST(Weights, PyTorchZipAndLegacy) {
  const std::string folder = scratch("pth");
  const Tensor wanted = at::tensor({1.f, 3.f, 2.f, 4.f}).view({2, 2});  // columns lie together
  const std::string zip_path = folder + "/zip.pth", pickle = tensor_pickle(), data = four_floats();
  int code = 0;
  zip_t* archive = zip_open(zip_path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  zip_file_add(archive, "archive/data.pkl", zip_source_buffer(archive, pickle.data(), pickle.size(), 0), 0);
  zip_file_add(archive, "archive/data/0", zip_source_buffer(archive, data.data(), data.size(), 0), 0);
  ASSERT_EQ(zip_close(archive), 0);
  EXPECT_TRUE(read_weights(zip_path).at("w").equal(wanted));

  const std::string magic("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15),
      protocol("\x80\x02M\xe9\x03.", 6);
  const std::string system("\x80\x02}q\x00.", 6), keys = std::string("\x80\x02]q\x00X\x01\x00\x00\x00", 10) + "0a.";
  const int64_t count = 4;
  const std::string legacy =
      magic + protocol + system + pickle + keys + std::string(reinterpret_cast<const char*>(&count), 8) + data;
  write_file(folder + "/legacy.pth", legacy);
  EXPECT_TRUE(read_weights(folder + "/legacy.pth").at("w").equal(wanted));
  write_file(folder + "/legacy.pth", legacy.substr(0, legacy.size() - 1));
  expect_error<DataError>([&] { read_weights(folder + "/legacy.pth"); }, "ends before");
}

TEST(Weights, NothingInAPickleIsExecuted) {
  const std::string path = scratch("hostile") + "/evil.pth";
  // os.system('touch FILE') as a pickle would ask for it
  const std::string marker = path + ".touched";
  std::string pickle("\x80\x02", 2);
  pickle += "cos\nsystem\nX";
  const std::string command = "touch " + marker;
  pickle += std::string{static_cast<char>(command.size()), 0, 0, 0} + command + "\x85R.";
  write_file(path, pickle + pickle + pickle + pickle + pickle);
  EXPECT_THROW(read_weights(path), DataError);
  EXPECT_FALSE(fs::exists(marker));
  write_file(path, std::string("\x80\x02((((((((((((((tt", 18));
  EXPECT_THROW(read_weights(path), DataError);
  // A tensor that reaches beyond its storage.
  std::string far = tensor_pickle();
  far.replace(far.find("K\x02K\x02\x86"), 5, "K\x09K\x02\x86");
  const int64_t count = 4;
  const std::string head("\x80\x02K\x00.\x80\x02K\x00.\x80\x02K\x00.", 15);
  write_file(path, head + far + std::string("\x80\x02]q\x00X\x01\x00\x00\x00", 10) + "0a." +
                       std::string(reinterpret_cast<const char*>(&count), 8) + four_floats());
  expect_error<DataError>([&] { read_weights(path); }, "beyond its data");
}

}  // namespace
}  // namespace hastings
