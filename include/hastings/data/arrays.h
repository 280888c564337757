// Arrays from files: NumPy's npy and npz, and tables of numbers.
#pragma once

#include <map>
#include <string>

#include "hastings/core/tensor.h"

namespace hastings {

// Floating-point arrays come as double, whole numbers and booleans as int64. DataError for anything else.
Tensor read_npy(const std::string& path);
std::map<std::string, Tensor> read_npz(const std::string& path);

// FILE.npy, FILE.npz:NAME, a table of numbers (CSV or white space), or FILE.csv:NAME for one of its columns; a table of
// one column is a vector.
Tensor read_array(const std::string& spec);

}  // namespace hastings
