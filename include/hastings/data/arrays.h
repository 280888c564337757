// Arrays from files: NumPy's npy and npz, and tables of numbers.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "hastings/core/tensor.h"

namespace hastings {

// What stands before the numbers of an npy array. `read` fills so many bytes or returns false; `name` is for errors.
struct NpyHead {
  std::string type;  // as NumPy writes it: "<f8"
  std::vector<int64_t> shape;
  bool fortran = false;
  int64_t size = 0;  // bytes of the head
};
using ByteReader = std::function<bool(char* data, size_t size)>;
NpyHead read_npy_head(const std::string& name, const ByteReader& read);

// Floating-point arrays come as double, whole numbers and booleans as int64. DataError for anything else.
Tensor read_npy(const std::string& path);
std::map<std::string, Tensor> read_npz(const std::string& path);

// The same in the type of the file.
Tensor read_npy_as_stored(const std::string& path);
std::map<std::string, Tensor> read_npz_as_stored(const std::string& path);

// FILE.npy, FILE.npz:NAME, a table of numbers (CSV or white space), or FILE.csv:NAME for one of its columns; a table of
// one column is a vector.
Tensor read_array(const std::string& spec);

}  // namespace hastings
