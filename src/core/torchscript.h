// What every TorchScript program of a user goes through before it runs: it computes, it does not touch files. That is a
// fence against accidents, not a wall: code that a user names runs with the user's rights.
#pragma once

#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/module.h>

#include <stdexcept>
#include <string>

namespace hastings {

// DataError if a function of the unit uses an operator beyond LibTorch's computing ones, or one that reads or writes
// files; `path` is for the message.
void check_operators(const std::string& path, const torch::jit::CompilationUnit& unit);

// torch::jit::load on the CPU, in evaluation mode, with the same check, before anything of it runs; its exceptions for
// what is no module.
torch::jit::Module load_checked_module(const std::string& path);

// As std::bad_alloc.
void rethrow_if_out_of_memory(const std::exception& error);

}  // namespace hastings
