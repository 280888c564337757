// PNG by libpng, JPEG by libjpeg.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <png.h>

#include <cstdio>
// jpeglib.h wants stdio first
#include <jpeglib.h>

#include <csetjmp>
#include <cstring>

#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/data/images.h"

namespace hastings {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw DataError(fmt::format("{}: {}", path, what));
}

// A picture may be large where its file is: so many bytes decoded for each one in the file, or so many in any case.
constexpr uint64_t kMaxFactor = 1000, kAlways = uint64_t{64} << 20;
constexpr uint64_t kMaxSide = 1 << 15;
constexpr int kMaxScans = 100;  // of a progressive JPEG: each goes through the whole picture again

bool too_large(uint64_t width, uint64_t height, uint64_t file_size) {
  return width > kMaxSide || height > kMaxSide || width * height * 3 > std::max(kAlways, kMaxFactor * file_size);
}
constexpr const char* kTooLarge = "is larger than 32768 pixels a side, or than a file of its size may be";

Tensor planes(const std::vector<uint8_t>& interleaved, int64_t height, int64_t width) {
  return at::from_blob(const_cast<uint8_t*>(interleaved.data()), {height, width, 3}, at::kByte)
      .permute({2, 0, 1})
      .contiguous();
}

Tensor decode_png(const std::string& path, const std::string& bytes) {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0)
    fail(path, fmt::format("is a damaged PNG ({})", image.message));
  image.format = PNG_FORMAT_RGB;
  if (too_large(image.width, image.height, bytes.size())) {
    png_image_free(&image);
    fail(path, kTooLarge);
  }
  std::vector<uint8_t> pixels(PNG_IMAGE_SIZE(image));
  const png_color white = {255, 255, 255};  // behind transparent pixels
  if (png_image_finish_read(&image, &white, pixels.data(), 0, nullptr) == 0)
    fail(path, fmt::format("is a damaged PNG ({})", image.message));
  return planes(pixels, image.height, image.width);
}

struct JpegErrors {
  jpeg_error_mgr base;
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
  jpeg_progress_mgr progress;
};

[[noreturn]] void jump_back(j_common_ptr common) { std::longjmp(reinterpret_cast<JpegErrors*>(common->err)->back, 1); }

// No object with a destructor lives across the jump.
bool decode_jpeg_into(const std::string& bytes, std::vector<uint8_t>& pixels, JpegErrors& errors, int64_t& height,
                      int64_t& width) {
  jpeg_decompress_struct info;
  info.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = [](j_common_ptr common) {
    auto* e = reinterpret_cast<JpegErrors*>(common->err);
    common->err->format_message(common, e->message);
    jump_back(common);
  };
  errors.base.emit_message = [](j_common_ptr, int) {};
  if (setjmp(errors.back) != 0) {
    jpeg_destroy_decompress(&info);
    return false;
  }
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  errors.progress.progress_monitor = [](j_common_ptr common) {
    if (reinterpret_cast<j_decompress_ptr>(common)->input_scan_number <= kMaxScans) return;
    std::strcpy(reinterpret_cast<JpegErrors*>(common->err)->message, "more scans than any picture needs");
    jump_back(common);
  };
  info.progress = &errors.progress;
  jpeg_read_header(&info, TRUE);
  if (too_large(info.image_width, info.image_height, bytes.size())) {
    std::strcpy(errors.message, kTooLarge);
    jump_back(reinterpret_cast<j_common_ptr>(&info));
  }
  info.out_color_space = JCS_RGB;
  jpeg_start_decompress(&info);
  height = info.output_height;
  width = info.output_width;
  pixels.resize(static_cast<size_t>(height * width * 3));
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = pixels.data() + static_cast<size_t>(info.output_scanline) * static_cast<size_t>(width) * 3;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  // A truncated file only warns, and its rest is grey: that is not the image.
  const bool whole = errors.base.num_warnings == 0;
  if (!whole) std::strcpy(errors.message, "truncated or corrupt data");
  jpeg_destroy_decompress(&info);
  return whole;
}

}  // namespace

Tensor read_image(const std::string& path) {
  const std::string bytes = read_file(path);
  if (bytes.starts_with("\x89PNG")) return decode_png(path, bytes);
  if (!bytes.starts_with("\xff\xd8")) fail(path, "is neither PNG nor JPEG");
  std::vector<uint8_t> pixels;
  JpegErrors errors;
  int64_t height = 0, width = 0;
  if (!decode_jpeg_into(bytes, pixels, errors, height, width))
    fail(path,
         errors.message == std::string(kTooLarge) ? kTooLarge : fmt::format("is a damaged JPEG ({})", errors.message));
  return planes(pixels, height, width);
}

void write_png(const std::string& path, const Tensor& image) {
  const bool colour = image.size(0) == 3;
  const Tensor rows = image.permute({1, 2, 0}).contiguous();
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.size(2));
  png.height = static_cast<png_uint_32>(image.size(1));
  png.format = colour ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  png_alloc_size_t size = 0;
  if (png_image_write_to_memory(&png, nullptr, &size, 0, rows.data_ptr(), 0, nullptr) == 0)
    fail(path, fmt::format("cannot be written as PNG ({})", png.message));
  std::string bytes(size, '\0');
  if (png_image_write_to_memory(&png, bytes.data(), &size, 0, rows.data_ptr(), 0, nullptr) == 0)
    fail(path, fmt::format("cannot be written as PNG ({})", png.message));
  bytes.resize(size);
  write_file(path, bytes);
}

Tensor image_grid(const Tensor& images, int64_t columns) {
  constexpr int64_t kBorder = 2;
  const int64_t n = images.size(0), c = images.size(1), h = images.size(2), w = images.size(3);
  columns = std::max<int64_t>(1, std::min(columns, n));
  const int64_t rows = (n + columns - 1) / columns;
  Tensor grid = at::full({c, rows * (h + kBorder) + kBorder, columns * (w + kBorder) + kBorder}, 255, at::kByte);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t y = kBorder + i / columns * (h + kBorder), x = kBorder + i % columns * (w + kBorder);
    grid.narrow(1, y, h).narrow(2, x, w).copy_(images[i]);
  }
  return grid;
}

}  // namespace hastings
