// Tensors by name as PyTorch pickles them.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/Dict.h>

#include <map>
#include <string>

namespace hastings {

inline c10::Dict<std::string, Tensor> dictionary(const std::map<std::string, Tensor>& tensors) {
  c10::Dict<std::string, Tensor> out;
  // Cloned: of a part of a tensor the whole memory would be written.
  for (const auto& [name, tensor] : tensors) out.insert(name, tensor.clone(at::MemoryFormat::Contiguous));
  return out;
}

}  // namespace hastings
