// Code that is not ours, called in our process: a plugin, a Stan model. It may crash, or end the process; whoever
// watches over that can ask whose code it was.
#pragma once

#include <string>
#include <string_view>

namespace hastings {

// While it lives, this thread runs the code of `name`, which must live longer.
class ForeignCode {
 public:
  explicit ForeignCode(const std::string& name);
  ~ForeignCode();
  ForeignCode(const ForeignCode&) = delete;
  ForeignCode& operator=(const ForeignCode&) = delete;

  static const char* running();  // on this thread; null: none

 private:
  const char* before_;
};

// What such code prints goes to standard error, and not for ever: a density is evaluated a million times.
void show_print(std::string_view text);

}  // namespace hastings
