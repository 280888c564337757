// Compiled together with the C++ that stanc makes of a Stan program: the model behind the C functions that BridgeStan
// defines (Roualdes et al. 2023), so that models built here and by BridgeStan are used in the same way.
#include <stan/io/empty_var_context.hpp>
#include <stan/io/json/json_data.hpp>
#include <stan/model/log_prob_grad.hpp>
#include <stan/model/model_header.hpp>
#include <stan/services/util/create_rng.hpp>
#include <stan/version.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

stan::model::model_base& new_model(stan::io::var_context& data, unsigned int seed, std::ostream* messages);

namespace {

char* copied(const std::string& text) {
  char* out = static_cast<char*>(std::malloc(text.size() + 1));
  if (out) std::memcpy(out, text.c_str(), text.size() + 1);
  return out;
}

// Stan keeps the tape of its derivatives by thread; it is made at a thread's first call.
void prepare_thread() { static thread_local stan::math::ChainableStack tape; }

using PrintCallback = void (*)(const char* text, size_t size);
PrintCallback print_callback = nullptr;
std::mutex print_mutex;

// What the program's print statements say in this thread; handed on after every call.
thread_local std::ostringstream printed;

void deliver_prints() {
  if (printed.tellp() <= 0) return;
  const std::string text = printed.str();
  printed.str("");
  const std::lock_guard<std::mutex> lock(print_mutex);
  if (print_callback) {
    print_callback(text.data(), text.size());
  } else {
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
}

template <class F>
int guarded(char** error, F f) {
  int code = -1;
  try {
    prepare_thread();
    f();
    code = 0;
  } catch (const std::exception& e) {
    if (error) *error = copied(e.what());
  } catch (...) {
    if (error) *error = copied("unknown error");
  }
  deliver_prints();
  return code;
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const auto& name : names) out += (out.empty() ? "" : ",") + name;
  return out;
}

using Vector = Eigen::VectorXd;

std::unique_ptr<stan::io::var_context> values_in(const std::string& text) {
  if (text.empty()) return std::unique_ptr<stan::io::var_context>(new stan::io::empty_var_context);
  if (text.size() >= 5 && text.compare(text.size() - 5, 5, ".json") == 0) {
    std::ifstream file(text);
    if (!file) throw std::runtime_error("cannot open data file " + text);
    return std::unique_ptr<stan::io::var_context>(new stan::json::json_data(file));
  }
  std::istringstream stream(text);
  return std::unique_ptr<stan::io::var_context>(new stan::json::json_data(stream));
}

double value_and_gradient(const stan::model::model_base& model, bool propto, bool jacobian, Vector& at, Vector& slope) {
  using stan::model::log_prob_grad;
  if (propto)
    return jacobian ? log_prob_grad<true, true>(model, at, slope, &printed)
                    : log_prob_grad<true, false>(model, at, slope, &printed);
  return jacobian ? log_prob_grad<false, true>(model, at, slope, &printed)
                  : log_prob_grad<false, false>(model, at, slope, &printed);
}

// How the gradient changes along a direction, by central differences of the fourth order.
Vector change_along(const stan::model::model_base& model, bool propto, bool jacobian, const Vector& at,
                    const Vector& direction) {
  const double length = direction.norm();
  if (length == 0) return Vector::Zero(at.size());
  const double h = 1e-3 * std::max(1.0, at.cwiseAbs().maxCoeff()) / length;
  auto slope = [&](double steps) {
    Vector moved = at + steps * h * direction, out(at.size());
    value_and_gradient(model, propto, jacobian, moved, out);
    return out;
  };
  return (8 * (slope(1) - slope(-1)) - (slope(2) - slope(-2))) / (12 * h);
}

}  // namespace

extern "C" {

extern const int bs_major_version = 2;
extern const int bs_minor_version = 6;
extern const int bs_patch_version = 1;

struct bs_rng {
  stan::rng_t generator;
};

struct bs_model {
  std::unique_ptr<stan::model::model_base> model;
  std::string name, info, unconstrained, names[2][2];
  int unconstrained_count = 0, counts[2][2] = {};
};

bs_model* bs_model_construct(const char* data, unsigned int seed, char** error) {
  std::unique_ptr<bs_model> out(new bs_model);
  const int code = guarded(error, [&] {
    const auto context = values_in(data ? data : "");
    out->model.reset(&new_model(*context, seed, &printed));
    const auto& model = *out->model;
    out->name = model.model_name();
    std::vector<std::string> names;
    model.unconstrained_param_names(names, false, false);
    out->unconstrained = joined(names);
    out->unconstrained_count = static_cast<int>(names.size());
    for (const bool tp : {false, true}) {
      for (const bool gq : {false, true}) {
        names.clear();
        model.constrained_param_names(names, tp, gq);
        out->names[tp][gq] = joined(names);
        out->counts[tp][gq] = static_cast<int>(names.size());
      }
    }
    out->info = "Stan version: " + stan::MAJOR_VERSION + "." + stan::MINOR_VERSION + "." + stan::PATCH_VERSION + "\n";
#ifdef STAN_THREADS
    out->info += "STAN_THREADS=true\n";
#else
    out->info += "STAN_THREADS=false\n";
#endif
    for (const auto& line : model.model_compile_info()) out->info += line + "\n";
  });
  return code == 0 ? out.release() : nullptr;
}

void bs_model_destruct(bs_model* m) { delete m; }
void bs_free_error_msg(char* message) { std::free(message); }
const char* bs_name(const bs_model* m) { return m->name.c_str(); }
const char* bs_model_info(const bs_model* m) { return m->info.c_str(); }
const char* bs_param_names(const bs_model* m, bool tp, bool gq) { return m->names[tp][gq].c_str(); }
const char* bs_param_unc_names(const bs_model* m) { return m->unconstrained.c_str(); }
int bs_param_num(const bs_model* m, bool tp, bool gq) { return m->counts[tp][gq]; }
int bs_param_unc_num(const bs_model* m) { return m->unconstrained_count; }

int bs_param_constrain(const bs_model* m, bool tp, bool gq, const double* u, double* x, bs_rng* rng, char** error) {
  return guarded(error, [&] {
    if (gq && !rng) throw std::invalid_argument("generated quantities need a generator");
    Vector in = Eigen::Map<const Vector>(u, m->unconstrained_count), out;
    stan::rng_t unused = stan::services::util::create_rng(0, 1);
    m->model->write_array(rng ? rng->generator : unused, in, out, tp, gq, &printed);
    Eigen::Map<Vector>(x, out.size()) = out;
  });
}

int bs_param_unconstrain(const bs_model* m, const double* x, double* u, char** error) {
  return guarded(error, [&] {
    Vector in = Eigen::Map<const Vector>(x, m->counts[0][0]), out;
    m->model->unconstrain_array(in, out, &printed);
    Eigen::Map<Vector>(u, out.size()) = out;
  });
}

int bs_param_unconstrain_json(const bs_model* m, const char* json, double* u, char** error) {
  return guarded(error, [&] {
    const auto context = values_in(json ? json : "");
    Vector out;
    m->model->transform_inits(*context, out, &printed);
    Eigen::Map<Vector>(u, out.size()) = out;
  });
}

int bs_log_density_gradient(const bs_model* m, bool propto, bool jacobian, const double* u, double* value,
                            double* gradient, char** error) {
  return guarded(error, [&] {
    Vector in = Eigen::Map<const Vector>(u, m->unconstrained_count), out(m->unconstrained_count);
    *value = value_and_gradient(*m->model, propto, jacobian, in, out);
    Eigen::Map<Vector>(gradient, out.size()) = out;
  });
}

int bs_log_density(const bs_model* m, bool propto, bool jacobian, const double* u, double* value, char** error) {
  if (propto) {  // which terms are constant shows only in differentiation
    std::vector<double> gradient(static_cast<size_t>(m->unconstrained_count));
    return bs_log_density_gradient(m, true, jacobian, u, value, gradient.data(), error);
  }
  return guarded(error, [&] {
    Vector in = Eigen::Map<const Vector>(u, m->unconstrained_count);
    *value = jacobian ? m->model->log_prob_jacobian(in, &printed) : m->model->log_prob(in, &printed);
  });
}

int bs_log_density_hessian(const bs_model* m, bool propto, bool jacobian, const double* u, double* value,
                           double* gradient, double* hessian, char** error) {
  return guarded(error, [&] {
    const int n = m->unconstrained_count;
    Vector in = Eigen::Map<const Vector>(u, n), slope(n);
    *value = value_and_gradient(*m->model, propto, jacobian, in, slope);
    Eigen::MatrixXd rows(n, n);
    for (int i = 0; i < n; ++i) rows.row(i) = change_along(*m->model, propto, jacobian, in, Vector::Unit(n, i));
    Eigen::Map<Vector>(gradient, n) = slope;
    Eigen::Map<Eigen::MatrixXd>(hessian, n, n) = 0.5 * (rows + rows.transpose());
  });
}

int bs_log_density_hessian_vector_product(const bs_model* m, bool propto, bool jacobian, const double* u,
                                          const double* direction, double* value, double* product, char** error) {
  return guarded(error, [&] {
    const int n = m->unconstrained_count;
    Vector in = Eigen::Map<const Vector>(u, n), slope(n);
    *value = value_and_gradient(*m->model, propto, jacobian, in, slope);
    Eigen::Map<Vector>(product, n) =
        change_along(*m->model, propto, jacobian, in, Eigen::Map<const Vector>(direction, n));
  });
}

int bs_set_print_callback(PrintCallback callback, char** error) {
  return guarded(error, [&] {
    const std::lock_guard<std::mutex> lock(print_mutex);
    print_callback = callback;
  });
}

bs_rng* bs_rng_construct(unsigned int seed, char** error) {
  bs_rng* out = nullptr;
  guarded(error, [&] { out = new bs_rng{stan::services::util::create_rng(seed, 1)}; });
  return out;
}
void bs_rng_destruct(bs_rng* rng) { delete rng; }

}  // extern "C"
