#include "hastings/core/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "hastings/core/error.h"
#include "write_all.h"

namespace hastings {
namespace {

constexpr size_t kBuffer = 1 << 20;

[[noreturn]] void fail(const std::string& path, const char* what) {
  const char* why = errno == ENOENT ? "its folder is not there (was it removed?)" : std::strerror(errno);
  throw DataError(fmt::format("{}: {}: {}", path, what, why));
}

}  // namespace

std::string temporary_of(const std::string& path) {
  const std::filesystem::path p = path;
  return (p.parent_path() / fmt::format(".{}.hastings-tmp", p.filename().string())).string();
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)), temporary_(temporary_of(path_)) {
  ::unlink(temporary_.c_str());  // what a kill left
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail(path_, "cannot be written");
  buffer_.reserve(kBuffer);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::string_view bytes) {
  if (buffer_.size() + bytes.size() > kBuffer) flush();
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void AtomicFile::flush() {
  if (!write_all(descriptor_, buffer_)) fail(path_, "cannot be written");
}

void AtomicFile::commit() {
  flush();
  if (::fsync(descriptor_) != 0) fail(path_, "cannot be written");
  if (::close(descriptor_) != 0) {
    descriptor_ = -1;
    ::unlink(temporary_.c_str());
    fail(path_, "cannot be written");
  }
  descriptor_ = -1;
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    ::unlink(temporary_.c_str());
    fail(path_, "cannot be written");
  }
}

void write_file(const std::string& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

std::string read_file(const std::string& path) {
  std::error_code error;
  // A directory has no bytes, a device or a pipe may have no end.
  if (!std::filesystem::is_regular_file(path, error)) throw DataError(fmt::format("{}: cannot be read", path));
  std::ifstream file(path, std::ios::binary);
  const auto size = std::filesystem::file_size(path, error);
  if (!file || error) throw DataError(fmt::format("{}: cannot be read", path));
  std::string text(size, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(size)))
    throw DataError(fmt::format("{}: cannot be read to its end", path));
  return text;
}

void make_directory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw DataError(fmt::format("{}: cannot be made: {}", path, error.message()));
}

}  // namespace hastings
