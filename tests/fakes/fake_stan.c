// A shared object with BridgeStan's functions, or something like it. FAKE says what is wrong with it.
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define GOOD 0
#define WRONG_VERSION 1
#define MISSING 2
#define CONSTRUCT_FAILS 3
#define DENSITY_FAILS 4
#define DENSITY_NAN 5
#define NO_VERSION 6
#define NO_PARAMETERS 7
#define BAD_NAMES 8

#if FAKE == WRONG_VERSION
const int bs_major_version = 1;
#elif FAKE != NO_VERSION
const int bs_major_version = 2;
#endif

static int model;
static char* message(const char* text) { return strcpy(malloc(strlen(text) + 1), text); }

void* bs_model_construct(const char* data, unsigned seed, char** error) {
  (void)data, (void)seed;
  if (FAKE == CONSTRUCT_FAILS) {
    *error = message("variable N is not\nin the data");
    return NULL;
  }
  return &model;
}
void bs_model_destruct(void* m) { (void)m; }
void bs_free_error_msg(char* text) { free(text); }
const char* bs_model_info(const void* m) { return (void)m, "STAN_THREADS=false"; }
const char* bs_param_names(const void* m, bool tp, bool gq) {
  return (void)m, (void)tp, (void)gq, FAKE == BAD_NAMES ? "a" : "a,b.1,b.2";
}
const char* bs_param_unc_names(const void* m) { return (void)m, "a,b.1"; }
int bs_param_num(const void* m, bool tp, bool gq) { return (void)m, (void)tp, (void)gq, 3; }
int bs_param_unc_num(const void* m) { return (void)m, FAKE == NO_PARAMETERS ? 0 : 2; }
int bs_param_constrain(const void* m, bool tp, bool gq, const double* u, double* x, void* rng, char** error) {
  (void)m, (void)tp, (void)gq, (void)error;
  x[0] = u[0];
  x[1] = exp(u[1]);
  x[2] = *(unsigned*)rng;
  return 0;
}
#if FAKE != MISSING
int bs_log_density_gradient(const void* m, bool propto, bool jacobian, const double* u, double* value, double* gradient,
                            char** error) {
  (void)m, (void)propto, (void)jacobian;
  if (FAKE == DENSITY_FAILS || u[0] > 100) {
    *error = message("scale is negative");
    return -1;
  }
  *value = FAKE == DENSITY_NAN ? NAN : -0.5 * (u[0] * u[0] + u[1] * u[1]);
  if (gradient) {
    gradient[0] = -u[0];
    gradient[1] = -u[1];
  }
  return 0;
}
int bs_log_density(const void* m, bool propto, bool jacobian, const double* u, double* value, char** error) {
  return bs_log_density_gradient(m, propto, jacobian, u, value, NULL, error);
}
#else
int bs_log_density(const void* m, bool propto, bool jacobian, const double* u, double* value, char** error) {
  return (void)m, (void)propto, (void)jacobian, (void)u, (void)value, (void)error, 0;
}
#endif
void* bs_rng_construct(unsigned seed, char** error) {
  (void)error;
  unsigned* rng = malloc(sizeof *rng);
  *rng = seed;
  return rng;
}
void bs_rng_destruct(void* rng) { free(rng); }
