#include "stan_compile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/uuid/name_generator_sha1.hpp>
#include <boost/uuid/uuid_io.hpp>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "../core/process.h"
#include "../core/temporary_folder.h"
#include "hastings/core/error.h"
#include "hastings/core/files.h"

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

// A program run to its end, with what it said.
struct Said {
  int code = -1;
  std::string output;
};
Said run(const std::vector<std::string>& command, const std::string& log) {
  const Outcome outcome = run_program(command, log);
  return {outcome.code, outcome.code < 0 ? outcome.why : read_file(log)};
}

struct Toolchain {
  std::string stanc, library, solvers;  // library: folder of libtbb; solvers: of SUNDIALS, may be empty
  std::vector<std::string> includes;
};

// What is in a folder, the newest version first.
std::vector<std::string> versions_in(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) found.push_back(entry.path().string());
  std::sort(found.rbegin(), found.rend());
  return found;
}

std::string first_that_holds(const std::vector<fs::path>& folders, const char* file) {
  for (const auto& folder : folders) {
    if (fs::exists(folder / file)) return folder.lexically_normal().string();
  }
  return {};
}

// CmdStan, BridgeStan (both keep Stan's sources, each library in a folder with its version), or a wheel with everything
// in one folder.
std::optional<Toolchain> toolchain_in(const std::string& folder) {
  const fs::path root = folder, stan = root / "stan";
  Toolchain t;
  t.stanc = first_that_holds({root, root / "bin"}, "stanc");
  if (t.stanc.empty()) return std::nullopt;
  t.stanc += "/stanc";
  std::vector<fs::path> places = {root / "include", stan / "src", stan / "lib/stan_math"}, archives = {root / "lib"};
  for (const fs::path& libraries : {stan / "lib", stan / "lib/stan_math/lib"}) {
    for (const auto& library : versions_in(libraries)) {
      places.emplace_back(library);
      places.push_back(fs::path(library) / "include");
      archives.push_back(fs::path(library) / "lib");
    }
  }
  for (const char* header : {"stan/model/model_header.hpp", "stan/math.hpp", "Eigen/Dense", "boost/version.hpp",
                             "tbb/task_arena.h", "sundials/sundials_types.h", "rapidjson/reader.h"}) {
    const std::string place = first_that_holds(places, header);
    if (place.empty()) return std::nullopt;
    if (std::find(t.includes.begin(), t.includes.end(), place) == t.includes.end()) t.includes.push_back(place);
  }
  t.library = first_that_holds({root / "lib", stan / "lib/stan_math/lib/tbb"}, "libtbb.so");
  if (t.library.empty()) return std::nullopt;
  t.solvers = first_that_holds(archives, "libsundials_cvodes.a");
  return t;
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

// stanc's own words, with the user's file name.
std::string stanc_error(const std::string& model, const std::string& output) {
  std::string text = output;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.empty() ? model + ": stanc failed" : text;
}

void compile(const std::vector<std::string>& command, const std::string& what, const std::string& scratch) {
  const Said outcome = run(command, scratch + "/log");
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
  const TemporaryFolder scratch(cache, "build-");
  const std::string generated = scratch.path() + "/model.cpp";
  const std::string folder = fs::absolute(model).parent_path().string();
  const Said stanc =
      run({tools.stanc, "--o=" + generated, "--include-paths=" + folder, model}, scratch.path() + "/log");
  if (stanc.code != 0) throw DataError(stanc_error(model, stanc.output));

  std::string compiler = from_environment("CXX");
  if (compiler.empty()) compiler = "g++";
  const Said version = run({compiler, "--version"}, scratch.path() + "/log");
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
    write_file(scratch.path() + "/bridge.cpp", kStanBridge);
    compile(with({"-c", scratch.path() + "/bridge.cpp", "-o", scratch.path() + "/bridge.o"}), "the bridge to Stan",
            scratch.path());
    fs::rename(scratch.path() + "/bridge.o", bridge);
  }
  if (options.tell) options.tell(fmt::format("Compiling {} (once, about a minute) ...", model));
  std::vector<std::string> command =
      with({generated, bridge, "-shared", "-o", scratch.path() + "/model.so", "-L" + tools.library});
  for (const char* name : {"sundials_cvodes", "sundials_idas", "sundials_kinsol", "sundials_nvecserial"}) {
    const std::string archive = fmt::format("{}/lib{}.a", tools.solvers, name);
    if (fs::exists(archive)) command.push_back(archive);
  }
  command.insert(command.end(), {"-ltbb", "-Wl,-rpath," + tools.library});
  compile(command, model, scratch.path());
  fs::rename(scratch.path() + "/model.so", library);
  return library;
}

}  // namespace hastings
