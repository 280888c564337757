// TorchScript densities: source compiled in the process, or saved modules.
#include <ATen/ATen.h>
#include <ATen/core/function.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/parser.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/frontend/sugared_value.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <filesystem>
#include <regex>
#include <sstream>

#include "../core/torchscript.h"
#include "checked.h"
#include "description.h"
#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/core/foreign.h"
#include "hastings/target/constrain.h"
#include "hastings/target/user.h"

namespace hastings {
namespace {

namespace fs = std::filesystem;
namespace jit = torch::jit;

[[noreturn]] void wrong(const std::string& path, const std::string& what) {
  throw DataError(fmt::format("{}: {}", path, what));
}

// TorchScript's messages are a page of context; the user needs the reason and the line of his file.
std::string reason(const std::string& path, const std::string& message) {
  std::string line;
  static const std::regex place("File \"([^\"]*)\", line ([0-9]+)");
  for (std::sregex_iterator at(message.begin(), message.end(), place), end; at != end; ++at) line = (*at)[2];
  std::string what;
  std::istringstream lines(message);
  for (std::string text; std::getline(lines, text);) {
    const auto first = text.find_first_not_of(" \t");
    if (first == std::string::npos) continue;
    text = text.substr(first);
    if (text.starts_with("RuntimeError:")) what = text.substr(std::min<size_t>(14, text.size()));
    if (what.empty() && text.rfind("The following operation failed", 0) != 0 && text.rfind("Traceback", 0) != 0 &&
        text.rfind("File", 0) != 0)
      what = text;
  }
  while (!what.empty() && (what.back() == ':' || what.back() == '.')) what.pop_back();
  return line.empty() ? fmt::format("{}: {}", path, what) : fmt::format("{}, line {}: {}", path, line, what);
}

// "torch" in a script: LibTorch's operators, and the names of types (torch.double), which are numbers to them.
struct TorchNames final : jit::BuiltinModule {
  TorchNames() : BuiltinModule("aten") {}
  std::shared_ptr<jit::SugaredValue> attr(const jit::SourceRange& loc, jit::GraphFunction& m,
                                          const std::string& field) override {
    static const std::map<std::string, at::ScalarType> types = {
        {"double", at::kDouble}, {"float64", at::kDouble}, {"float", at::kFloat}, {"float32", at::kFloat},
        {"long", at::kLong},     {"int64", at::kLong},     {"int", at::kInt},     {"int32", at::kInt},
        {"bool", at::kBool},     {"half", at::kHalf},      {"float16", at::kHalf}};
    const auto found = types.find(field);
    if (found == types.end()) return BuiltinModule::attr(loc, m, field);
    return std::make_shared<jit::SimpleValue>(m.graph()->insertConstant(static_cast<int64_t>(found->second), loc));
  }
};

// The names a script may use beside its own.
struct Names final : jit::Resolver {
  std::shared_ptr<jit::SugaredValue> resolveValue(const std::string& name, jit::GraphFunction&,
                                                  const jit::SourceRange&) override {
    if (name == "torch") return std::make_shared<TorchNames>();
    if (name == "Exception" || name.ends_with("Error")) return std::make_shared<jit::ExceptionValue>(name);
    return nullptr;
  }
};

// A compiled function: stack of arguments in, one value out.
using Call = std::function<c10::IValue(std::vector<c10::IValue>)>;

struct Compiled {
  Call call;
  std::vector<c10::Argument> arguments;  // without self
};

std::unique_ptr<Target> target_of(const std::string& name, const std::string& path, Description d, const Compiled& f) {
  if (d.parameters.empty())
    wrong(path, fmt::format("how many parameters? Write them into {}, as {{\"dim\": N}}", d.path));
  if (f.arguments.empty()) wrong(path, "log_prob takes no argument; the first is x");
  std::map<std::string, Tensor> observed;
  for (const auto& key : d.observed) {
    if (!d.data.count(key)) wrong(d.path, fmt::format("\"observed\" names '{}', which is not under \"data\"", key));
    observed[key] = d.data[key];
  }
  std::vector<c10::IValue> data;
  for (size_t i = 1; i < f.arguments.size(); ++i) {
    const auto& argument = f.arguments[i];
    const auto found = d.data.find(argument.name());
    if (found == d.data.end()) {
      if (argument.default_value()) {
        data.push_back(*argument.default_value());
        continue;
      }
      wrong(path, fmt::format("log_prob wants '{}', which {} does not give under \"data\"", argument.name(), d.path));
    }
    Tensor value = found->second;
    if (value.is_floating_point()) value = value.to(d.dtype);
    const auto kind = argument.type()->kind();
    if (kind == c10::TypeKind::IntType) {
      data.emplace_back(value.item<int64_t>());
    } else if (kind == c10::TypeKind::FloatType) {
      data.emplace_back(value.item<double>());
    } else {
      data.emplace_back(value);
    }
    d.data.erase(found);
  }
  if (!d.data.empty()) wrong(d.path, fmt::format("log_prob has no argument '{}'", d.data.begin()->first));
  const auto dtype = d.dtype;
  auto log_prob = [name, path, f, data, dtype](const Tensor& x) -> Tensor {
    const jit::GraphOptimizerEnabledGuard plain(false);  // shapes vary, and densities are small
    const ForeignCode foreign(path);
    std::vector<c10::IValue> stack = {x.to(dtype)};
    stack.insert(stack.end(), data.begin(), data.end());
    c10::IValue value;
    try {
      value = f.call(std::move(stack));
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      rethrow_if_out_of_memory(error);
      throw ConfigError(fmt::format("target {}: {}", name, reason(path, error.what())));
    }
    if (!value.isTensor())
      throw ConfigError(fmt::format("target {}: log_prob returns {}, not a tensor", name, value.tagKind()));
    return value.toTensor();
  };
  return make_constrained(name, std::move(d.parameters), std::move(log_prob), std::move(observed));
}

// Import lines please editors; TorchScript source has none. They are left blank, so that line numbers stay.
std::string without_imports(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool import = line.rfind("import ", 0) == 0 || line.rfind("from ", 0) == 0;
    out += import ? "\n" : line + "\n";
  }
  return out;
}

}  // namespace

std::unique_ptr<Target> make_script_target(const std::string& path) {
  const std::string source = without_imports(read_file(path));
  auto unit = std::make_shared<jit::CompilationUnit>();
  const ForeignCode foreign(path);  // nested deeply enough, a source overflows the compiler's stack
  try {
    jit::Parser parser(std::make_shared<jit::Source>(source, path, 1));
    std::vector<jit::Def> functions;
    std::vector<jit::ResolverPtr> resolvers;
    while (parser.lexer().cur().kind != jit::TK_EOF) {
      functions.emplace_back(parser.parseFunction(false));
      resolvers.push_back(std::make_shared<Names>());
    }
    unit->define(c10::nullopt, {}, {}, functions, resolvers, nullptr);
    check_operators(path, *unit);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw DataError(reason(path, error.what()));
  }
  auto* function = unit->find_function(c10::QualifiedName("log_prob"));
  if (!function) wrong(path, "defines no function log_prob");
  Compiled compiled;
  compiled.arguments = function->getSchema().arguments();
  compiled.call = [function, unit](std::vector<c10::IValue> stack) { return (*function)(std::move(stack)); };
  return target_of("script:" + path, path, read_description(path), compiled);
}

std::unique_ptr<Target> make_module_target(const std::string& path) {
  if (!fs::exists(path)) wrong(path, "cannot be opened");
  std::shared_ptr<jit::Module> module;
  const ForeignCode foreign(path);
  try {
    module = std::make_shared<jit::Module>(load_checked_module(path));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    rethrow_if_out_of_memory(error);
    wrong(path, "is not a saved TorchScript module (torch.jit.save)");
  }
  for (const Tensor& parameter : module->parameters()) parameter.set_requires_grad(false);
  Description d = read_description(path);
  if (!d.has_dtype) {
    for (const Tensor& parameter : module->parameters()) {
      if (!parameter.is_floating_point()) continue;
      d.dtype = parameter.scalar_type();
      break;
    }
  }
  if (d.parameters.empty() && module->hasattr("dim") && module->attr("dim").isInt())
    d.parameters = {{"x", module->attr("dim").toInt(), Constraint::kFree, 0, 1}};
  const char* name = module->find_method("log_prob") ? "log_prob" : "forward";
  const auto method = module->find_method(name);
  if (!method) wrong(path, "has neither log_prob nor forward");
  Compiled compiled;
  const auto& arguments = method->function().getSchema().arguments();
  compiled.arguments.assign(arguments.begin() + 1, arguments.end());
  compiled.call = [module, name](std::vector<c10::IValue> stack) { return module->get_method(name)(std::move(stack)); };
  return target_of("module:" + path, path, std::move(d), compiled);
}

}  // namespace hastings
