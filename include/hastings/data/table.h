// Labelled tables: CSV, white-space separated (.dat) and libsvm files.
#pragma once

#include <string>
#include <vector>

#include "hastings/core/tensor.h"

namespace hastings {

struct LabelledTable {
  Tensor features;                 // [rows, columns] double
  Tensor labels;                   // [rows] double, 0 or 1
  std::vector<std::string> names;  // of the columns; empty when the file names none
};

// The label is the last column (the first field in libsvm files); its two values, sorted, become 0 and 1.
// A first line without any number is a header. Anything else that is not a number, a row of another
// length, a label with other than two values, a constant column: a DataError naming file, line, column.
LabelledTable read_labelled_table(const std::string& path);

// A table of numbers, [rows, columns] double; a header is skipped.
Tensor read_table(const std::string& path);

// The column of that name in its header, [rows] double.
Tensor read_column(const std::string& path, const std::string& name);

// Columns minus their mean over their population standard deviation.
Tensor standardised(const Tensor& features);

}  // namespace hastings
