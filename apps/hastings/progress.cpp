#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "guard.h"

namespace hastings::app {
namespace {

std::string bar(double share) {
  const int width = 24, full = static_cast<int>(std::clamp(share, 0.0, 1.0) * width);
  std::string text;
  for (int i = 0; i < width; ++i) text += i < full ? "█" : "░";
  return text;
}

std::string clock(double seconds) {
  const auto s = static_cast<int64_t>(std::clamp(seconds, 0.0, 1e9) + 0.5);
  if (s >= 72 * 3600) return fmt::format("{} days", s / 86400);
  return s < 60 ? fmt::format("{} s", s) : fmt::format("{}:{:02} min", s / 60, s % 60);
}

}  // namespace

Progress::Progress(bool quiet) : quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0) {}
Progress::~Progress() { done(); }

bool Progress::should_stop() { return interrupted(); }

void Progress::show(const std::string& line, bool last) {
  if (quiet_) return;
  const auto now = std::chrono::steady_clock::now();
  const auto pause = std::chrono::milliseconds(terminal_ ? 100 : 5000);
  if (!last && now - last_ < pause) return;
  last_ = now;
  if (terminal_) {
    std::fputs(fmt::format("\r\033[K{}", line).c_str(), stderr);
    open_ = true;
  } else {
    std::fputs((line + "\n").c_str(), stderr);
  }
  std::fflush(stderr);
}

void Progress::done() {
  if (open_) std::fputs("\n", stderr);
  open_ = false;
}

void Progress::on_learn(const LearnProgress& p) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (p.phase == "anneal") {
    show(fmt::format("anneal {} beta {:.3g}, acceptance of moves {:.2f}", bar(p.beta), p.beta, p.acceptance),
         p.beta >= 1);
    return;
  }
  if (p.phase == "hmc") {
    show(fmt::format("start  Hamiltonian moves from the mode, acceptance {:.2f}", p.acceptance), true);
    return;
  }
  if (p.phase.starts_with("calibrate")) {
    show(fmt::format("{}{}", p.phase,
                     p.max_iterations > 1 ? fmt::format(" ({} of {})", p.iteration, p.max_iterations) : ""),
         true);
    return;
  }
  // Whichever limit comes first; learning usually converges before.
  const double by_steps =
      p.max_iterations > 0 ? static_cast<double>(p.iteration) / static_cast<double>(p.max_iterations) : 0;
  const double by_time = p.max_seconds > 0 ? p.seconds / p.max_seconds : 0, share = std::max(by_steps, by_time);
  const double left = share > 0 ? p.seconds * (1 - share) / share : 0;
  const std::string acceptance = std::isnan(p.acceptance) ? "" : fmt::format("acceptance {:.3f}, ", p.acceptance);
  show(fmt::format("learn  {} step {}, {}loss {:.4f} ({}), at most {} left", bar(share), p.iteration, acceptance,
                   p.loss, p.phase, clock(left)),
       false);
}

void Progress::on_sample(const SampleProgress& p) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (chain_done_.empty()) sampling_since_ = now;
  if (chain_done_.size() <= static_cast<size_t>(p.chain)) chain_done_.resize(static_cast<size_t>(p.chain) + 1, 0);
  chain_done_[static_cast<size_t>(p.chain)] = p.done;
  const auto done = static_cast<double>(std::accumulate(chain_done_.begin(), chain_done_.end(), int64_t{0}));
  const double share = done / (static_cast<double>(p.total) * static_cast<double>(p.chains));
  const double seconds = std::chrono::duration<double>(now - sampling_since_).count();
  const std::string what = std::isnan(p.acceptance)
                               ? fmt::format("{:.0f} proposals scored", done)
                               : fmt::format("{:.0f} draws, acceptance {:.3f}", done, p.acceptance);
  // Where draws are made until they suffice, nobody knows how many that will be.
  const std::string left =
      share > 0 && share <= 1 ? fmt::format(", about {} left", clock(seconds * (1 - share) / share)) : "";
  show(fmt::format("sample {} {}{}", bar(share), what, left), false);
}

void Progress::on_summary() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (terminal_) show("summarising the draws", true);
}

void Progress::on_warning(const std::string& text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  done();
  std::fputs(fmt::format("hastings: warning: {}\n", text).c_str(), stderr);
}

}  // namespace hastings::app
