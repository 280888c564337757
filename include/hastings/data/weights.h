// Weights of networks from the files people have: safetensors, and PyTorch's own .pth/.pt/.ckpt in both layouts (zip
// and legacy). Nothing in a file is ever executed: of a pickle only tensors and the dictionaries that hold them are
// built.
#pragma once

#include <map>
#include <string>

#include "hastings/core/tensor.h"

namespace hastings {

using Weights = std::map<std::string, Tensor>;

// Tensors by name, on the CPU, in the precision of the file. A dictionary within a dictionary gives "outer.inner". What
// kind of file it is its content says. DataError for a file that holds no tensors or is damaged. With `text` the file
// must be a pair (text, dictionary of tensors), as a stored proposal is.
Weights read_weights(const std::string& path, std::string* text = nullptr);

int64_t elements_in(const Weights& weights);  // of all tensors together

// Whole or not there.
void write_safetensors(const std::string& path, const Weights& weights);

}  // namespace hastings
