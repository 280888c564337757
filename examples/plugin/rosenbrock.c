/* A density in C: build with
 *   cc -O2 -shared -fPIC -I include examples/plugin/rosenbrock.c -o rosenbrock.so -lm
 * and run
 *   hastings sample plugin:./rosenbrock.so
 */
#include <hastings/plugin.h>

int64_t hastings_dim(void) { return 2; }

int hastings_log_prob(const double* x, int64_t n, double* log_prob, double* gradient) {
  for (int64_t i = 0; i < n; ++i) {
    const double a = x[2 * i], b = x[2 * i + 1], valley = b - a * a;
    log_prob[i] = -0.5 * a * a - 2.0 * valley * valley;
    if (gradient) {
      gradient[2 * i] = -a + 8.0 * a * valley;
      gradient[2 * i + 1] = -4.0 * valley;
    }
  }
  return 0;
}
