#include "stan_compile.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/uuid/name_generator_sha1.hpp>
#include <boost/uuid/uuid_io.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "hastings/core/error.h"
#include "hastings/core/files.h"

extern char** environ;

namespace hastings {
namespace {

namespace fs = std::filesystem;

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string home(const char* xdg, const char* below) {
  const std::string folder = from_environment(xdg);
  return folder.empty() ? from_environment("HOME") + "/" + below : folder;
}

struct Outcome {
  int code = -1;
  std::string output;  // both streams
};

// A program run to its end.
Outcome run(const std::vector<std::string>& command, const std::string& log) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  std::vector<char*> arguments;
  for (const auto& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed) return {-1, fmt::format("{}: {}", command[0], std::strerror(failed))};
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128, read_file(log)};
}

struct Toolchain {
  std::string root, stanc, library;  // library: folder of libtbb
  std::vector<std::string> includes;
};

std::string first_that_holds(const std::string& root, const std::vector<const char*>& folders, const char* file) {
  for (const char* folder : folders) {
    const fs::path candidate = fs::path(root) / folder;
    if (fs::exists(candidate / file)) return candidate.lexically_normal().string();
  }
  return {};
}

// CmdStan, BridgeStan, or a wheel with everything in one folder.
std::optional<Toolchain> toolchain_in(const std::string& root) {
  Toolchain t;
  t.root = root;
  const std::string stanc = first_that_holds(root, {"", "bin"}, "stanc");
  if (stanc.empty()) return std::nullopt;
  t.stanc = stanc + "/stanc";
  const std::vector<std::pair<const char*, std::vector<const char*>>> wanted = {
      {"stan/model/model_header.hpp", {"include", "stan/src"}},
      {"stan/math.hpp", {"include", "stan/lib/stan_math"}},
      {"Eigen/Dense", {"include", "stan/lib/stan_math/lib/eigen_3.4.0", "stan/lib/stan_math/lib/eigen_3.3.9"}},
      {"boost/version.hpp",
       {"include", "stan/lib/stan_math/lib/boost_1.87.0", "stan/lib/stan_math/lib/boost_1.84.0",
        "stan/lib/stan_math/lib/boost_1.81.0", "stan/lib/stan_math/lib/boost_1.78.0"}},
      {"tbb/task_arena.h",
       {"include", "stan/lib/stan_math/lib/tbb_2020.3/include", "stan/lib/stan_math/lib/tbb/include"}},
      {"sundials/sundials_types.h",
       {"include", "stan/lib/stan_math/lib/sundials_6.1.1/include", "stan/lib/stan_math/lib/sundials_7.0.0/include"}},
      {"rapidjson/reader.h", {"include", "stan/lib/rapidjson_1.1.0"}},
  };
  for (const auto& [file, folders] : wanted) {
    const std::string folder = first_that_holds(root, folders, file);
    if (folder.empty()) return std::nullopt;
    if (std::find(t.includes.begin(), t.includes.end(), folder) == t.includes.end()) t.includes.push_back(folder);
  }
  t.library = first_that_holds(root, {"lib", "stan/lib/stan_math/lib/tbb"}, "libtbb.so");
  if (t.library.empty()) return std::nullopt;
  return t;
}

// The newest of ~/.cmdstan/cmdstan-2.35.0 and its like.
std::vector<std::string> versions_in(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) found.push_back(entry.path().string());
  std::sort(found.rbegin(), found.rend());
  return found;
}

Toolchain find_toolchain(const std::string& given) {
  for (const std::string& asked : {given, from_environment("HASTINGS_STAN")}) {
    if (asked.empty()) continue;
    if (auto t = toolchain_in(asked)) return *t;
    throw ConfigError(fmt::format("{}: is not a Stan toolchain (stanc, the headers of Stan and libtbb)", asked));
  }
  std::vector<std::string> places = {from_environment("CMDSTAN"), from_environment("BRIDGESTAN"),
                                     home("XDG_DATA_HOME", ".local/share") + "/hastings/stan"};
  for (const char* kind : {"/.cmdstan", "/.bridgestan"}) {
    for (const auto& folder : versions_in(from_environment("HOME") + kind)) places.push_back(folder);
  }
  for (const auto& place : places) {
    if (place.empty()) continue;
    if (auto t = toolchain_in(place)) return *t;
  }
  throw ConfigError(
      "no Stan toolchain was found; run `scripts/setup --stan`, or name a CmdStan or BridgeStan folder with "
      "--stan-toolchain or HASTINGS_STAN");
}

std::string digest(const std::string& text) {
  return boost::uuids::to_string(boost::uuids::name_generator_sha1(boost::uuids::ns::url())(text));
}

// A folder that is gone again at the end.
struct Scratch {
  explicit Scratch(const std::string& below) : path(fmt::format("{}/build-{}", below, ::getpid())) {
    make_directory(path);
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  std::string path;
};

// stanc's own words, with the user's file name.
std::string stanc_error(const std::string& model, const std::string& output) {
  std::string text = output;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.empty() ? model + ": stanc failed" : text;
}

void compile(const std::vector<std::string>& command, const std::string& what, const std::string& scratch) {
  const Outcome outcome = run(command, scratch + "/log");
  if (outcome.code == 0) return;
  std::string errors;
  for (size_t at = 0; at < outcome.output.size() && errors.size() < 2000;) {
    const size_t end = std::min(outcome.output.find('\n', at), outcome.output.size());
    const std::string line = outcome.output.substr(at, end - at);
    if (line.find("error") != std::string::npos) errors += "\n  " + line;
    at = end + 1;
  }
  throw DataError(fmt::format("{}: the C++ compiler failed{}", what, errors.empty() ? "" : ":" + errors));
}

}  // namespace

std::string compile_stan(const std::string& model, const StanOptions& options) {
  const Toolchain tools = find_toolchain(options.toolchain);
  const std::string cache = home("XDG_CACHE_HOME", ".cache") + "/hastings/stan";
  make_directory(cache);
  const Scratch scratch(cache);
  const std::string generated = scratch.path + "/model.cpp";
  const std::string folder = fs::absolute(model).parent_path().string();
  const Outcome stanc =
      run({tools.stanc, "--o=" + generated, "--include-paths=" + folder, model}, scratch.path + "/log");
  if (stanc.code != 0) throw DataError(stanc_error(model, stanc.output));

  std::string compiler = from_environment("CXX");
  if (compiler.empty()) compiler = "g++";
  const Outcome version = run({compiler, "--version"}, scratch.path + "/log");
  if (version.code != 0)
    throw ConfigError(fmt::format("a C++ compiler is needed for Stan programs: {}", version.output));
  std::vector<std::string> flags = {compiler, "-std=c++17",     "-O2",          "-fPIC",
                                    "-w",     "-DSTAN_THREADS", "-D_REENTRANT", "-DBOOST_DISABLE_ASSERTS"};
  for (const auto& include : tools.includes) flags.push_back("-I" + include);
  auto with = [&](std::initializer_list<std::string> more) {
    auto command = flags;
    command.insert(command.end(), more.begin(), more.end());
    return command;
  };
  const std::string setting = fmt::format("{}\n{}\n", fmt::join(flags, " "), version.output);
  const std::string bridge = cache + "/bridge-" + digest(setting + kStanBridge) + ".o";
  const std::string library = cache + "/model-" + digest(setting + kStanBridge + read_file(generated)) + ".so";
  if (fs::exists(library)) return library;

  if (!fs::exists(bridge)) {
    if (options.tell) options.tell("Compiling the bridge to Stan (once, about a minute) ...");
    write_file(scratch.path + "/bridge.cpp", kStanBridge);
    compile(with({"-c", scratch.path + "/bridge.cpp", "-o", scratch.path + "/bridge.o"}), "the bridge to Stan",
            scratch.path);
    fs::rename(scratch.path + "/bridge.o", bridge);
  }
  if (options.tell) options.tell(fmt::format("Compiling {} (once, about a minute) ...", model));
  std::vector<std::string> command =
      with({generated, bridge, "-shared", "-o", scratch.path + "/model.so", "-L" + tools.library});
  for (const char* name : {"sundials_cvodes", "sundials_idas", "sundials_kinsol", "sundials_nvecserial"}) {
    const std::string archive = fmt::format("{}/lib{}.a", tools.library, name);
    if (fs::exists(archive)) command.push_back(archive);
  }
  command.insert(command.end(), {"-ltbb", "-Wl,-rpath," + tools.library});
  compile(command, model, scratch.path);
  fs::rename(scratch.path + "/model.so", library);
  return library;
}

}  // namespace hastings
