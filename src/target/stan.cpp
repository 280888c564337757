// Stan models through BridgeStan's C functions (Roualdes et al. 2023).
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <mutex>
#include <sstream>

#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/core/json.h"
#include "hastings/target/user.h"
#include "library.h"
#include "stan_compile.h"

namespace hastings {
namespace {

constexpr int kMajor = 2;      // of BridgeStan's interface
constexpr unsigned kSeed = 1;  // of transformed data that are random

// The functions we use, as BridgeStan 2 declares them.
struct Functions {
  explicit Functions(const Library& library)
      : construct(library.get<void*(const char*, unsigned, char**)>("bs_model_construct")),
        destruct(library.get<void(void*)>("bs_model_destruct")),
        free_error(library.get<void(char*)>("bs_free_error_msg")),
        info(library.get<const char*(const void*)>("bs_model_info")),
        names(library.get<const char*(const void*, bool, bool)>("bs_param_names")),
        unconstrained_names(library.get<const char*(const void*)>("bs_param_unc_names")),
        count(library.get<int(const void*, bool, bool)>("bs_param_num")),
        unconstrained_count(library.get<int(const void*)>("bs_param_unc_num")),
        constrain(
            library.get<int(const void*, bool, bool, const double*, double*, void*, char**)>("bs_param_constrain")),
        density(library.get<int(const void*, bool, bool, const double*, double*, char**)>("bs_log_density")),
        gradient(library.get<int(const void*, bool, bool, const double*, double*, double*, char**)>(
            "bs_log_density_gradient")),
        rng_construct(library.get<void*(unsigned, char**)>("bs_rng_construct")),
        rng_destruct(library.get<void(void*)>("bs_rng_destruct")) {}
  void* (*construct)(const char*, unsigned, char**);
  void (*destruct)(void*);
  void (*free_error)(char*);
  const char* (*info)(const void*);
  const char* (*names)(const void*, bool, bool);
  const char* (*unconstrained_names)(const void*);
  int (*count)(const void*, bool, bool);
  int (*unconstrained_count)(const void*);
  int (*constrain)(const void*, bool, bool, const double*, double*, void*, char**);
  int (*density)(const void*, bool, bool, const double*, double*, char**);
  int (*gradient)(const void*, bool, bool, const double*, double*, double*, char**);
  void* (*rng_construct)(unsigned, char**);
  void (*rng_destruct)(void*);
};

std::vector<std::string> split_names(const char* text) {
  std::vector<std::string> names;
  std::istringstream list(text ? text : "");
  for (std::string name; std::getline(list, name, ',');) names.push_back(name);
  return names;
}

void check_version(const Library& library) {
  const int* major = library.find<const int>("bs_major_version");
  if (!major)
    throw DataError(fmt::format("{}: is not a model that BridgeStan built (no bs_major_version)", library.path()));
  if (*major != kMajor) {
    throw DataError(fmt::format("{}: was built with BridgeStan {}, this program understands {}; build it anew",
                                library.path(), *major, kMajor));
  }
}

class StanTarget final : public Target {
 public:
  StanTarget(std::string name, const std::string& library, const std::string& data)
      : name_(std::move(name)), library_((library)), f_((check_version(library_), library_)) {
    // Read here, so that a file that is not there is our error; the model takes the text.
    const std::string text = data.empty() ? "" : read_file(data);
    if (!data.empty() && text.find_first_not_of(" \t\r\n") == std::string::npos)
      throw DataError(fmt::format("{}: is empty; a JSON object was expected", data));
    check_json_depth(data, text);  // Stan's own reader recurses
    char* error = nullptr;
    using SetCallback = int(void (*)(const char*, size_t), char**);
    if (auto* set_callback = library_.find<SetCallback>("bs_set_print_callback"))
      set_callback(
          [](const char* text, size_t size) {
            show_print({text, size});
          },
          nullptr);  // not there in every version
    const ForeignCode foreign(library_.path());
    model_ = f_.construct(text.c_str(), kSeed, &error);
    if (!model_)
      throw DataError(fmt::format("{}: {}", data.empty() ? name_ : data, taken(error, "the model could not be made")));
    try {
      dim_ = f_.unconstrained_count(model_);
      outputs_ = f_.count(model_, true, true);
      names_ = split_names(f_.names(model_, true, true));
      if (dim_ < 1) throw DataError(fmt::format("{}: has no parameters", name_));
      if (dim_ > kMaxDim) throw DataError(fmt::format("{}: has {} parameters, more than {}", name_, dim_, kMaxDim));
      if (outputs_ != static_cast<int64_t>(names_.size()))
        throw DataError(fmt::format("{}: has {} outputs, but {} names", name_, outputs_, names_.size()));
      const char* info = f_.info(model_);
      threads_ = info && std::string(info).find("STAN_THREADS=true") != std::string::npos;
    } catch (...) {
      f_.destruct(model_);
      throw;
    }
  }
  ~StanTarget() override { f_.destruct(model_); }

  std::string name() const override { return name_; }
  int64_t dim() const override { return dim_; }
  std::vector<std::string> parameter_names() const override {
    auto names = split_names(f_.unconstrained_names(model_));
    return static_cast<int64_t>(names.size()) == dim_ ? names : Target::parameter_names();
  }
  std::vector<std::string> output_names() const override { return names_; }

  Tensor log_prob(const Tensor& x) const override {
    const Tensor points = x.detach().contiguous(), value = at::empty({x.size(0)}, at::kDouble);
    const double* u = points.data_ptr<double>();
    double* out = value.data_ptr<double>();
    const auto lock = locked();
    const ForeignCode foreign(library_.path());
    for (int64_t i = 0; i < points.size(0); ++i) {
      char* error = nullptr;
      if (f_.density(model_, false, true, u + i * dim_, out + i, &error) != 0) out[i] = refused(error);
    }
    return value;
  }

  Gradient with_gradient(const Tensor& x) const override {
    const Tensor points = x.detach().contiguous(), value = at::empty({x.size(0)}, at::kDouble);
    const Tensor gradient = at::zeros({x.size(0), dim_}, at::kDouble);
    const double* u = points.data_ptr<double>();
    double *out = value.data_ptr<double>(), *slope = gradient.data_ptr<double>();
    const auto lock = locked();
    const ForeignCode foreign(library_.path());
    for (int64_t i = 0; i < points.size(0); ++i) {
      char* error = nullptr;
      if (f_.gradient(model_, false, true, u + i * dim_, out + i, slope + i * dim_, &error) != 0)
        out[i] = refused(error);
    }
    return {value, gradient};
  }

  // Generated quantities draw from a generator of their own for every draw, seeded by the stream: the same whether a
  // run was stopped in between or not.
  Tensor outputs(const Tensor& x, Stream& stream) const override {
    const Tensor points = x.detach().contiguous();
    const uint64_t position = stream.position();
    Tensor out = at::empty({points.size(0), outputs_}, at::kDouble);
    const auto lock = locked();
    const ForeignCode foreign(library_.path());
    for (int64_t i = 0; i < points.size(0); ++i) {
      char* error = nullptr;
      stream.seek(position + static_cast<uint64_t>(i));
      void* rng = f_.rng_construct(static_cast<unsigned>(stream.uniform() * 4294967296.0), &error);
      int code = -1;
      if (rng) {
        code = f_.constrain(model_, true, true, points.data_ptr<double>() + i * dim_,
                            out.data_ptr<double>() + i * outputs_, rng, &error);
        f_.rng_destruct(rng);
      }
      if (code != 0) {  // a generated quantity that cannot be computed is no reason to lose the draw
        out[i].fill_(std::numeric_limits<double>::quiet_NaN());
        refused(error);
      }
    }
    return out;
  }

  std::string complaint() const override {
    const std::lock_guard<std::mutex> lock(complaint_mutex_);
    return complaint_;
  }

 private:
  std::string taken(char* error, const std::string& otherwise) const {
    if (!error) return otherwise;
    std::string text = error;
    f_.free_error(error);
    for (char& c : text) c = c == '\n' ? ' ' : c;
    while (!text.empty() && text.back() == ' ') text.pop_back();
    return text.empty() ? otherwise : text;
  }
  // Stan's way to reject a point; the first reason is kept.
  double refused(char* error) const {
    const std::string why = taken(error, "the density could not be computed");
    const std::lock_guard<std::mutex> lock(complaint_mutex_);
    if (complaint_.empty()) complaint_ = why;
    return -std::numeric_limits<double>::infinity();
  }
  std::unique_lock<std::mutex> locked() const {
    return threads_ ? std::unique_lock<std::mutex>() : std::unique_lock<std::mutex>(mutex_);
  }

  std::string name_;
  Library library_;
  Functions f_;
  void* model_ = nullptr;
  int64_t dim_ = 0, outputs_ = 0;
  std::vector<std::string> names_;
  bool threads_ = false;
  mutable std::mutex mutex_, complaint_mutex_;
  mutable std::string complaint_;
};

}  // namespace

std::unique_ptr<Target> make_stan_target(const std::string& path, const StanOptions& options) {
  if (!std::filesystem::exists(path)) throw DataError(fmt::format("{}: cannot be opened", path));
  const std::string name = "stan:" + path + (options.data.empty() ? "" : " data=" + options.data);
  return std::make_unique<StanTarget>(name, path.ends_with(".so") ? path : compile_stan(path, options), options.data);
}

}  // namespace hastings
