// Algorithm 1 as something that goes on: its state, a step, the end of a window.
#pragma once

#include <chrono>

#include "hastings/core/fields.h"
#include "hastings/learn/learner.h"
#include "schedule.h"
#include "step.h"

namespace hastings {

// Learning is good enough: two judgements together, for one alone may be lucky.
class GoodEnough {
 public:
  explicit GoodEnough(double target_acceptance) : target_(target_acceptance) {}
  void begin(double lag_one) { last_lag_ = lag_one; }
  bool operator()(const Step::Judgement& j) {
    const double lag = 0.5 * (j.lag_one + last_lag_);
    last_lag_ = j.lag_one;
    return j.value.acceptance >= target_ && lag < kLagOne;
  }
  double last_lag() const { return last_lag_; }

  template <class Archive>
  void fields(Archive& a) {
    a("last_lag", last_lag_);
  }

 private:
  static constexpr double kLagOne = 0.04;  // autocorrelation that is as good as none (the paper's is 0.05)
  double target_, last_lag_ = 1;
};

// Drawing what is wanted with the proposal as it is, against what was spent so far, in evaluations of the density (a
// gradient counted as two): learning beyond that cannot pay.
class PaysNoMore {
 public:
  PaysNoMore(double wanted_ess, int64_t buffer, int64_t batch) : wanted_(wanted_ess), buffer_(buffer), batch_(batch) {}
  bool operator()(const Step::Judgement& j, double last_lag, int64_t iterations) const {
    if (wanted_ <= 0 || j.value.acceptance < kUsable) return false;
    const double lag = std::min(0.99, std::max(j.lag_one, last_lag)), efficiency = (1 - lag) / (1 + lag);
    return wanted_ / efficiency <= static_cast<double>(kStartCost * buffer_ + 3 * batch_ * iterations);
  }

 private:
  static constexpr double kUsable = 0.8;     // acceptance below which no proposal is left as it is
  static constexpr int64_t kStartCost = 16;  // evaluations of the start, for each point of the buffer
  double wanted_;
  int64_t buffer_, batch_;
};

class Learning {
 public:
  Learning(const Target& target, FlowProposal& proposal, Population& buffer, const LearnOptions& options,
           Observer& observer);

  void begin();                          // judges the start, which may need no learning
  void resume(const TensorMap& stored);  // goes on where to_tensors() was taken
  void step();
  bool window_ends() const;
  void end_window();  // judges, keeps the best, lowers the rate, ends
  bool finished() const { return finished_ || result_.iterations >= options_.max_iterations; }
  LearnResult result();  // the proposal is the best there was

  template <class Archive>
  void fields(Archive& a) {
    a("step", step_);
    a("schedule", schedule_);
    a("good", good_);
    a("buffer", buffer_);
    a("order", order_);
    a("row", at_row_);
    a("best_loss", best_loss_);
    a("skipped_in_row", skipped_in_row_);
    a("result", result_);
    a("seconds", stored_seconds_);
    a("noise", noise_);
    a("accept", accept_);
    a("rows", rows_);
    a("judge_noise", judge_noise_);
    a("judge_accept", judge_accept_);
  }
  TensorMap stored();  // to_tensors(), with the time

 private:
  Step::Judgement judge();
  Tensor next_rows();
  void move_buffer(const Step::Outcome& out, const Tensor& rows);
  void count_skipped(bool skipped);
  bool out_of_time() const { return options_.max_seconds > 0 && elapsed() > options_.max_seconds; }
  double elapsed() const;
  void keep_if_best(const LearnProgress& row);
  void stop_if_due(const Step::Judgement& judged, bool late);
  void stop(const char* why) {
    result_.stopped = why;
    finished_ = true;
  }

  const Target& target_;
  FlowProposal& proposal_;
  Population& buffer_;
  LearnOptions options_;
  Observer& observer_;
  int64_t batch_, settle_;
  bool vi_;
  Step step_;
  Schedule schedule_;
  GoodEnough good_;
  PaysNoMore pays_no_more_;
  Stream noise_, accept_, rows_, judge_noise_, judge_accept_;
  LearnResult result_;
  Tensor order_;           // the buffer's rows in the order of this pass
  int64_t at_row_ = 0;     // of it
  double loss_ = 0;        // sum over the window
  int64_t in_window_ = 0;  // steps that count
  int64_t skipped_in_row_ = 0;
  double best_loss_ = std::numeric_limits<double>::infinity();
  bool finished_ = false;
  double stored_seconds_ = 0;  // of an earlier process
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace hastings
