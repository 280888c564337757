// The JSON beside a script or module: its parameters and its data.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "hastings/core/tensor.h"
#include "hastings/target/constrain.h"

namespace hastings {

struct Description {
  std::string path;  // of the JSON
  std::vector<Parameter> parameters;
  std::map<std::string, Tensor> data;
  std::vector<std::string> observed;  // names of data
  at::ScalarType dtype = at::kDouble;
  bool has_dtype = false;
};

// Of the model in MODEL.py or MODEL.pt, from MODEL.json; empty where there is none. DataError if it makes no sense.
Description read_description(const std::string& model);

}  // namespace hastings
