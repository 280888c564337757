#include "hastings/io/tensors.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/data/weights.h"
#include "pickled.h"

namespace hastings {

void write_tensors(const std::string& path, const std::map<std::string, Tensor>& tensors) {
  const auto bytes = torch::jit::pickle_save(c10::IValue(dictionary(tensors)));
  write_file(path, {bytes.data(), bytes.size()});
}

std::map<std::string, Tensor> read_tensors(const std::string& path) {
  try {
    return read_weights(path);
  } catch (const DataError& error) {
    throw DataError(fmt::format("{} (it is damaged or not a stored state)", error.what()));
  }
}

}  // namespace hastings
