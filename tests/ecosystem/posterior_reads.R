# R reads our Stan CSV; its posterior package finds the same ESS and R-hat.
compared <- 0
for (run in commandArgs(trailingOnly = TRUE)) {
  summary <- jsonlite::fromJSON(file.path(run, "summary.json"))
  chains <- lapply(seq_len(summary$chains), function(c)
    read.csv(file.path(run, sprintf("chain-%d.csv", c)), comment.char = "#", check.names = FALSE))
  for (i in seq_len(nrow(summary$parameters))) {
    p <- summary$parameters[i, ]
    draws <- sapply(chains, function(chain) chain[[p$name]])
    theirs <- c(posterior::ess_bulk(draws), posterior::ess_tail(draws), posterior::rhat(draws))
    ours <- c(p$ess_bulk, p$ess_tail, p$rhat)
    # R-hat folds the draws about their median, from which the two in the middle are equally far: rounding ranks them.
    if (any(abs(ours - theirs) > c(1e-6, 1e-6, 1e-5) * (1 + abs(ours)))) {
      cat(run, p$name, ours, "against", theirs, "\n")
      quit(status = 1)
    }
    compared <- compared + 3
  }
}
cat("ok R posterior", as.character(packageVersion("posterior")), ":", compared, "figures agree\n")
