// Two Gaussians whose means are ordered, so that the labels are known.
data {
  int<lower=1> N;
  vector[N] y;
}
parameters {
  ordered[2] mu;
  vector<lower=0>[2] sigma;
  real<lower=0, upper=1> weight;
}
model {
  mu ~ normal(0, 3);
  sigma ~ lognormal(0, 0.5);
  weight ~ beta(3, 3);
  for (n in 1:N) {
    target += log_mix(weight, normal_lpdf(y[n] | mu[1], sigma[1]), normal_lpdf(y[n] | mu[2], sigma[2]));
  }
}
