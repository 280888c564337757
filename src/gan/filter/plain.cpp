// plain: every K-th proposal as it comes.
#include "protocols.h"

namespace hastings {
namespace {

class Plain final : public Protocol {
 public:
  explicit Plain(const FilterOptions& options) : per_output_(options.per_output) {}

  void feed(std::span<const double> log_weight) override {
    for (size_t i = 0; i < log_weight.size(); ++i, ++fed_) {
      if (fed_ % per_output_ == per_output_ - 1) chosen_.push_back(fed_);
    }
  }

  Filtered finish() override {
    Filtered out;
    out.accepted = static_cast<int64_t>(chosen_.size());
    out.acceptance = static_cast<double>(chosen_.size()) / static_cast<double>(fed_);
    out.longest_run = 1;
    out.chosen = std::move(chosen_);
    return out;
  }

 private:
  int64_t per_output_, fed_ = 0;
  std::vector<int64_t> chosen_;
};

}  // namespace

MadeProtocol make_plain(const FilterOptions& options, std::vector<double>, const Streams&) {
  return std::make_unique<Plain>(options);
}

}  // namespace hastings
