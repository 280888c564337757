// Other programs, run to their end.
#pragma once

#include <string>
#include <vector>

namespace hastings {

struct Outcome {
  int code = -1;    // 128 + the signal's number where one ended it; -1 if it could not be started
  std::string why;  // it could not be started
};

// Standard input is empty; both outputs go to `log`, or where ours go. The program and its children are a group of
// their own, which `end_programs` ends.
Outcome run_program(const std::vector<std::string>& command, const std::string& log = "");
Outcome run_shell(const std::string& script);

std::string quoted_for_shell(const std::string& text);

}  // namespace hastings
