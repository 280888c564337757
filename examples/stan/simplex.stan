// Counts of categories with a Dirichlet prior, and a scale: a simplex and a positive parameter.
data {
  int<lower=2> K;
  array[K] int<lower=0> count;
  int<lower=1> N;
  vector[N] x;
}
parameters {
  simplex[K] share;
  real<lower=0> scale;
}
model {
  share ~ dirichlet(rep_vector(2.0, K));
  count ~ multinomial(share);
  scale ~ inv_gamma(3, 2);
  x ~ normal(0, scale);
}
