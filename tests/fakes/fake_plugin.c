// Shared objects that are almost plugins. FAKE says what is wrong.
#include <hastings/plugin.h>

#define MISSING 1
#define FAILS 2
#define NO_DIMENSION 3

int64_t hastings_dim(void) { return FAKE == NO_DIMENSION ? 0 : 1; }
#if FAKE != MISSING
int hastings_log_prob(const double* x, int64_t n, double* log_prob, double* gradient) {
  for (int64_t i = 0; i < n; ++i) log_prob[i] = -0.5 * x[i] * x[i];
  for (int64_t i = 0; gradient && i < n; ++i) gradient[i] = -x[i];
  return FAKE == FAILS ? 7 : 0;
}
#endif
