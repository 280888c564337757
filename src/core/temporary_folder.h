// A folder of a name that nobody has, inside another; it goes with all that is in it.
#pragma once

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "hastings/core/error.h"

namespace hastings {

class TemporaryFolder {
 public:
  TemporaryFolder(const std::string& in, const std::string& stem) : path_(fmt::format("{}/{}XXXXXX", in, stem)) {
    if (::mkdtemp(path_.data()) == nullptr)
      throw DataError(fmt::format("{}: cannot be written: {}", in, std::strerror(errno)));
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace hastings
