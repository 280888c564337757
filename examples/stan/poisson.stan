// Counts in groups: a hierarchical Poisson regression with exposure; predictions for every group.
data {
  int<lower=1> N, G;
  array[N] int<lower=1, upper=G> group;
  vector[N] x;
  vector<lower=0>[N] exposure;
  array[N] int<lower=0> y;
}
parameters {
  real mu;
  real slope;
  real<lower=0> spread;
  vector[G] z;
}
transformed parameters {
  vector[G] intercept = mu + spread * z;
}
model {
  mu ~ normal(0, 2);
  slope ~ normal(0, 1);
  spread ~ normal(0, 1);
  z ~ std_normal();
  y ~ poisson_log(intercept[group] + slope * x + log(exposure));
}
generated quantities {
  vector[G] rate = exp(intercept);
  array[G] int predicted = poisson_rng(rate);
}
