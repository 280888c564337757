#include "torchscript.h"

#include <fmt/format.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/print_handler.h>
#include <torch/csrc/jit/serialization/import.h>
#include <zip.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <regex>
#include <string_view>

#include "hastings/core/error.h"
#include "hastings/core/foreign.h"

namespace hastings {
namespace {

namespace jit = torch::jit;

constexpr std::array kNamespaces = {"aten", "prim", "quantized", "_quantized", "prepacked", "sparse"};
constexpr std::array kRefused = {"aten::save",      "aten::from_file", "prim::PythonOp",
                                 "prim::rpc_async", "prim::rpc_sync",  "prim::rpc_remote"};

template <class List>
bool contains(const List& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

void check_block(const std::string& path, const jit::Block& block) {
  for (const jit::Node* node : block.nodes()) {
    const std::string name = node->kind().toQualString();
    const std::string space = name.substr(0, name.find("::"));
    if (!contains(kNamespaces, space) || contains(kRefused, name)) {
      const auto place = node->sourceRange().file_line_col();
      const std::string line = place ? fmt::format(", line {}", std::get<1>(*place)) : "";
      throw DataError(fmt::format("{}{}: uses {}, which is not allowed: a program may compute, not read or write files",
                                  path, line, name));
    }
    for (const jit::Block* inner : node->blocks()) check_block(path, *inner);
  }
}

// Loading a module may already run code of it (__setstate__), so its source is looked through before.
void check_source(const std::string& path) {
  int code = 0;
  const std::unique_ptr<zip_t, void (*)(zip_t*)> archive(zip_open(path.c_str(), ZIP_RDONLY, &code), zip_discard);
  if (!archive) return;  // loading will say so
  static const std::regex comment("#[^\n]*"), refused("\\.[\\s\\\\]*(save|from_file|rpc_async|rpc_sync|rpc_remote)\\b");
  constexpr zip_uint64_t kMost = 16 << 20;
  for (zip_int64_t e = 0; e < zip_get_num_entries(archive.get(), 0); ++e) {
    zip_stat_t info;
    if (zip_stat_index(archive.get(), static_cast<zip_uint64_t>(e), 0, &info) != 0 || info.name == nullptr) continue;
    const std::string_view name = info.name;
    if (name.find("/code/") == std::string_view::npos || !name.ends_with(".py")) continue;
    if (info.size > kMost) throw DataError(fmt::format("{}: '{}' in it is longer than any program", path, name));
    std::string text(info.size, '\0');
    const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file(
        zip_fopen_index(archive.get(), static_cast<zip_uint64_t>(e), 0), zip_fclose);
    if (!file || zip_fread(file.get(), text.data(), info.size) != static_cast<zip_int64_t>(info.size)) continue;
    // Line by line: the library's expressions recurse over what they look at.
    std::string rest;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const std::string line = text.substr(at, std::min<size_t>(end - at, 4096));
      const std::string now = rest + std::regex_replace(line, comment, "");
      std::smatch found;
      if (std::regex_search(now, found, refused))
        throw DataError(fmt::format("{}: uses {}, which is not allowed: a program may compute, not read or write files",
                                    path, found[1].str()));
      const auto last = now.find_last_not_of(" \t\\");
      rest = last != std::string::npos && now[last] == '.' ? "." : "";
      at = end + 1;
    }
  }
}

}  // namespace

void check_operators(const std::string& path, const jit::CompilationUnit& unit) {
  jit::setPrintHandler([](const std::string& text) { show_print(text); });
  for (jit::Function* function : unit.get_functions()) {
    if (function->isGraphFunction()) check_block(path, *jit::toGraphFunction(*function).graph()->block());
  }
}

jit::Module load_checked_module(const std::string& path) {
  check_source(path);
  jit::setPrintHandler([](const std::string& text) { show_print(text); });
  jit::Module module = jit::load(path, at::kCPU);
  check_operators(path, *module._ivalue()->compilation_unit());
  module.eval();
  return module;
}

void rethrow_if_out_of_memory(const std::exception& error) {
  if (is_out_of_memory(error)) throw std::bad_alloc();
}

}  // namespace hastings
