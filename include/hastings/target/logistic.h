// The posterior of Bayesian logistic regression: y_i ~ Bernoulli(sigmoid(x_i' theta)), theta ~ N(0, I),
// columns standardised, the bias as last coordinate. The prior is normalised, so the integral of
// exp(log_prob) is the marginal likelihood.
#pragma once

#include <memory>
#include <string>

#include "hastings/data/table.h"
#include "hastings/target/subsampled.h"

namespace hastings {

std::unique_ptr<SubsampledTarget> make_logistic(std::string name, const LabelledTable& table);

// From the data of a file (see read_labelled_table).
std::unique_ptr<SubsampledTarget> make_logistic_from_file(const std::string& path);

// 200 observations of 4 standard normal columns with coefficients drawn from the prior; fixed seed.
std::unique_ptr<SubsampledTarget> make_logistic_simulated();

// A data set simulated from given coefficients (the last is the bias): for calibration tests.
LabelledTable simulate_logistic(const Tensor& theta, int64_t rows, Stream& stream);

}  // namespace hastings
