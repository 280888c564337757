// An autoregression of order two, and a forecast.
data {
  int<lower=3> T;
  vector[T] y;
  int<lower=1> ahead;
}
parameters {
  real alpha;
  real<lower=-1, upper=1> phi1;
  real<lower=-1, upper=1> phi2;
  real<lower=0> sigma;
}
model {
  alpha ~ normal(0, 2);
  phi1 ~ normal(0, 0.5);
  phi2 ~ normal(0, 0.5);
  sigma ~ normal(0, 1);
  y[3:T] ~ normal(alpha + phi1 * y[2:(T - 1)] + phi2 * y[1:(T - 2)], sigma);
}
generated quantities {
  vector[ahead] forecast;
  {
    real before = y[T - 1];
    real last = y[T];
    for (t in 1:ahead) {
      forecast[t] = normal_rng(alpha + phi1 * last + phi2 * before, sigma);
      before = last;
      last = forecast[t];
    }
  }
}
