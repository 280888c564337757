// Linear regression with unknown noise.
data {
  int<lower=1> N, K;
  matrix[N, K] X;
  vector[N] y;
}
parameters {
  real alpha;
  vector[K] beta;
  real<lower=0> sigma;
}
model {
  alpha ~ normal(0, 5);
  beta ~ normal(0, 2);
  sigma ~ normal(0, 2);
  y ~ normal_id_glm(X, alpha, beta, sigma);
}
