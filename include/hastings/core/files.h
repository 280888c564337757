// Files that are whole or not there: written under another name, flushed to disk, then renamed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hastings {

class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();  // without commit(): the file never was
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view bytes);
  void commit();

 private:
  void flush();
  std::string path_, temporary_;
  std::vector<char> buffer_;
  int descriptor_ = -1;
};

// The name a file is written under until it is whole: hidden, and nobody else's.
std::string temporary_of(const std::string& path);

void write_file(const std::string& path, std::string_view content);
std::string read_file(const std::string& path);  // DataError if it cannot be read

// mkdir -p; DataError with the reason.
void make_directory(const std::string& path);

}  // namespace hastings
