// For a program that has to end at once: ends the other programs that the library is waiting for.
#pragma once

namespace hastings {

void end_programs();

}  // namespace hastings
