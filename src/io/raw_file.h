// A file of numbers that grows: appended to through a buffer, cut to a length, read back in ranges.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hastings {

class RawFile {
 public:
  // Keeps the first `keep` bytes of what is there; DataError if there are fewer.
  RawFile(std::string path, int64_t keep);
  ~RawFile();
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;

  void append(const double* values, int64_t count);
  void flush();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::vector<char> buffer_;
  int descriptor_ = -1;
};

// `count` doubles of a file, from the given one on.
void read_raw(const std::string& path, int64_t first, int64_t count, double* out);

}  // namespace hastings
