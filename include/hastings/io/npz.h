// NumPy archives, written from files that may be larger than memory. (Reading: data/arrays.h.)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hastings {

// One array of an archive: its shape, and the raw little-endian numbers as the concatenation of files.
struct NpzArray {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<std::string> parts;
  std::string type = "<f8";  // as NumPy writes it; "|u1" for bytes
};

// Whole or not there, like every file.
void write_npz(const std::string& path, const std::vector<NpzArray>& arrays);

}  // namespace hastings
