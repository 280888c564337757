// NumPy archives: arrays of doubles, written from files that may be larger than memory.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "hastings/core/tensor.h"

namespace hastings {

// One array of an archive: its shape, and the raw little-endian doubles as the concatenation of files.
struct NpzArray {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<std::string> parts;
};

// Whole or not there, like every file.
void write_npz(const std::string& path, const std::vector<NpzArray>& arrays);

// All arrays of doubles in an archive.
std::map<std::string, Tensor> read_npz(const std::string& path);

}  // namespace hastings
