#include "hastings/io/npz.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <cstring>
#include <memory>

#include "../data/zip_archive.h"
#include "hastings/core/error.h"

namespace hastings {
namespace {

std::string npy_header(const std::string& type, const std::vector<int64_t>& shape) {
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", type,
                                 fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  while ((text.size() + 11) % 64 != 0) text += ' ';
  text += '\n';
  std::string header = "\x93NUMPY";
  header += '\x01';
  header += '\0';
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

// A zip source that is a header followed by files.
struct Parts {
  std::string header;
  std::vector<std::string> files;
  size_t header_at = 0, file_at = 0;
  std::FILE* open = nullptr;
  zip_error_t error;

  ~Parts() { close(); }
  void close() {
    if (open) std::fclose(open);
    open = nullptr;
  }
  zip_int64_t read(char* data, zip_uint64_t length) {
    if (header_at < header.size()) {
      const size_t n = std::min<size_t>(length, header.size() - header_at);
      std::memcpy(data, header.data() + header_at, n);
      header_at += n;
      return static_cast<zip_int64_t>(n);
    }
    while (file_at < files.size()) {
      if (!open && !(open = std::fopen(files[file_at].c_str(), "rb"))) return -1;
      const size_t n = std::fread(data, 1, length, open);
      if (n > 0) return static_cast<zip_int64_t>(n);
      if (std::ferror(open)) return -1;
      close();
      ++file_at;
    }
    return 0;
  }
};

zip_int64_t parts_callback(void* state, void* data, zip_uint64_t length, zip_source_cmd_t command) {
  auto* parts = static_cast<Parts*>(state);
  switch (command) {
    case ZIP_SOURCE_OPEN:
      parts->close();
      parts->header_at = parts->file_at = 0;
      return 0;
    case ZIP_SOURCE_READ: {
      const zip_int64_t n = parts->read(static_cast<char*>(data), length);
      if (n < 0) zip_error_set(&parts->error, ZIP_ER_READ, errno);
      return n;
    }
    case ZIP_SOURCE_CLOSE:
      parts->close();
      return 0;
    case ZIP_SOURCE_STAT:
      zip_stat_init(static_cast<zip_stat_t*>(data));
      return sizeof(zip_stat_t);
    case ZIP_SOURCE_ERROR:
      return zip_error_to_data(&parts->error, data, length);
    case ZIP_SOURCE_FREE:
      delete parts;
      return 0;
    case ZIP_SOURCE_SUPPORTS:
      return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT,
                                            ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE, -1);
    default:
      zip_error_set(&parts->error, ZIP_ER_OPNOTSUPP, 0);
      return -1;
  }
}

}  // namespace

void write_npz(const std::string& path, const std::vector<NpzArray>& arrays) {
  int code = 0;
  ZipArchive archive(zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code));
  auto fail = [&](const std::string& why) { throw DataError(fmt::format("{}: cannot be written: {}", path, why)); };
  if (!archive) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    fail(zip_error_strerror(&error));
  }
  for (const auto& array : arrays) {
    auto* parts = new Parts{npy_header(array.type, array.shape), array.parts, 0, 0, nullptr, {}};
    zip_error_init(&parts->error);
    zip_source_t* source = zip_source_function(archive.get(), parts_callback, parts);
    const zip_int64_t index =
        source ? zip_file_add(archive.get(), (array.name + ".npy").c_str(), source, ZIP_FL_OVERWRITE) : -1;
    if (index < 0) fail(zip_strerror(archive.get()));
    zip_file_set_dostime(archive.get(), static_cast<zip_uint64_t>(index), 0, 33,
                         0);  // 1980: the same draws, the same bytes
    zip_set_file_compression(archive.get(), static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
  }
  if (zip_close(archive.get()) != 0) fail(zip_strerror(archive.get()));
  archive.release();  // closed
}

}  // namespace hastings
