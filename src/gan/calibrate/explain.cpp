#include "explain.h"

#include <fmt/format.h>

#include <cmath>

namespace hastings {

void explain(ChosenCalibration& c, const CalibrateOptions& o) {
  auto& say = c.reasons;
  const Trial &e = c.expected, &p = c.plain;
  if (c.protocol == ProtocolKind::kPlain && e.sound() && e.farthest() <= p.distance) {
    say.push_back("No filter: real and generated images do not overlap.");
  } else if (c.protocol == ProtocolKind::kPlain) {
    say.push_back(
        fmt::format("No filter: nothing tried brings the samples nearer to held-out images than the generator's own "
                    "({:.2f}, error {:.2f}, in {}).",
                    p.distance, p.distance_error, c.space));
  } else {
    say.push_back(fmt::format("{}: held-out distance {:.2f} (error {:.2f}) in {}; the plain generator has {:.2f}.",
                              e.name(), e.distance, e.distance_error, c.space, p.distance));
    say.push_back(
        fmt::format("Its log-loss on held-out data is {:.3f} (a constant has {:.3f}), acceptance {:.2f}, {:.0f} % of "
                    "the outputs differ.",
                    e.log_loss, std::log(2.0), e.acceptance, 100 * e.unique));
  }
  const Trial& r = c.raw;
  const bool raw_used = o.method == CalibratorKind::kNone && c.protocol != ProtocolKind::kPlain;
  if (!r.sound()) {
    const std::string text = fmt::format(
        "With the discriminator's own logits a chain would accept {:.2g} % of the proposals and {:.0f} % of its "
        "outputs would be "
        "repeats (log-loss {:.2f}; a constant has {:.2f}): they are {}.",
        100 * r.acceptance, 100 * (1 - r.unique), r.log_loss, std::log(2.0),
        r.log_loss > std::log(2.0) ? "far too sure of themselves" : "too sharp for the overlap there is");
    (raw_used ? c.warnings : say).push_back(text);
  }
  if (c.protocol != ProtocolKind::kPlain && !e.sound() && !raw_used)
    c.warnings.push_back(
        fmt::format("{}: acceptance {:.2g}, {:.0f} % of the outputs are repeats: the chain hardly moves.", e.name(),
                    e.acceptance, 100 * (1 - e.unique)));
  if (c.quality.accuracy > 0.9 && c.protocol != ProtocolKind::kPlain)
    c.warnings.push_back(fmt::format(
        "The calibrated score tells {:.0f} % of held-out real from generated images: few proposals can pass "
        "for real. More proposals an "
        "output (--per-output), a milder calibration (a smaller --penalty) or a discriminator stopped "
        "earlier would help.",
        100 * c.quality.accuracy));
  if (c.protocol == ProtocolKind::kChain && c.advised_per_output > 2 * o.per_output)
    c.warnings.push_back(fmt::format(
        "By its autocorrelation the chain wants {} proposals an output for one repeat in twenty; it has {}.",
        c.advised_per_output, o.per_output));
}

}  // namespace hastings
