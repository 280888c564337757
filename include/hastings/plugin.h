/* A density as a shared object, for C and C++. Implement the two functions, build with -shared -fPIC, and run
 *
 *   hastings sample plugin:./model.so
 *
 * Both may be called from several threads at once. */
#ifndef HASTINGS_PLUGIN_H
#define HASTINGS_PLUGIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Number of parameters. */
int64_t hastings_dim(void);

/* x: n points, one after the other, dim numbers each. Writes n values of the log density (up to a constant), and, where
 * `gradient` is not null, n times dim derivatives. A point outside the support has log density -INFINITY. Returns 0;
 * anything else means that nothing could be computed, and ends the run. */
int hastings_log_prob(const double* x, int64_t n, double* log_prob, double* gradient);

#ifdef __cplusplus
}
#endif

#endif
