// A dictionary of tensors as one file, whole or not there.
#pragma once

#include <map>
#include <string>

#include "hastings/core/tensor.h"

namespace hastings {

void write_tensors(const std::string& path, const std::map<std::string, Tensor>& tensors);
std::map<std::string, Tensor> read_tensors(const std::string& path);

}  // namespace hastings
