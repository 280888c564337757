#include "raw_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "../core/write_all.h"
#include "hastings/core/error.h"

namespace hastings {
namespace {

constexpr size_t kBuffer = 1 << 18;

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw DataError(fmt::format("{}: {}: {}", path, what, std::strerror(errno)));
}

}  // namespace

RawFile::RawFile(std::string path, int64_t keep) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail(path_, "cannot be written");
  struct stat info;
  const bool there = ::fstat(descriptor_, &info) == 0 && info.st_size >= keep;
  if (!there || ::ftruncate(descriptor_, keep) != 0 || ::lseek(descriptor_, keep, SEEK_SET) != keep) {
    ::close(descriptor_);
    if (!there) throw DataError(fmt::format("{}: is shorter than the stored state says", path_));
    fail(path_, "cannot be written");
  }
  buffer_.reserve(kBuffer);
}

RawFile::~RawFile() { ::close(descriptor_); }

void RawFile::append(const double* values, int64_t count) {
  const auto* bytes = reinterpret_cast<const char*>(values);
  buffer_.insert(buffer_.end(), bytes, bytes + static_cast<size_t>(count) * sizeof(double));
  if (buffer_.size() >= kBuffer) flush();
}

void RawFile::flush() {
  if (!write_all(descriptor_, buffer_)) fail(path_, "cannot be written");
}

void read_raw(const std::string& path, int64_t first, int64_t count, double* out) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail(path, "cannot be read back");
  const auto bytes = static_cast<size_t>(count) * sizeof(double);
  for (size_t done = 0; done < bytes;) {
    const ssize_t n = ::pread(file, reinterpret_cast<char*>(out) + done, bytes - done,
                              static_cast<off_t>(first * 8) + static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      ::close(file);
      throw DataError(fmt::format("{}: cannot be read back", path));
    }
    done += static_cast<size_t>(n);
  }
  ::close(file);
}

}  // namespace hastings
