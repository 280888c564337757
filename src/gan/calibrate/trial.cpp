#include "hastings/gan/calibrate/trial.h"

#include <fmt/format.h>

#include <cmath>

namespace hastings {
namespace {

constexpr double kEnoughUnique = 0.5, kEnoughAcceptance = 0.02;  // below, a chain does not move
constexpr double kGoodUnique = 0.85, kGoodAcceptance = 0.2;      // above, it does not stick by bad luck either

}  // namespace

bool Trial::sound() const {
  return log_loss < std::log(2.0) && acceptance >= kEnoughAcceptance && unique >= kEnoughUnique;
}

int Trial::overlap() const { return !sound() ? 0 : acceptance >= kGoodAcceptance && unique >= kGoodUnique ? 2 : 1; }

double Trial::farthest() const { return distance + 2 * distance_error; }

std::string Trial::name() const {
  if (protocol == ProtocolKind::kPlain) return "plain generator";
  return fmt::format("{}{}, {}", method == CalibratorKind::kNone ? "raw logits" : to_string(method),
                     entry_of(method).with_ridge() ? fmt::format(" (C = {:g})", penalty) : "", to_string(protocol));
}

}  // namespace hastings
