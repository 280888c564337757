#include "hastings/core/error.h"

#include <new>
#include <string_view>

namespace hastings {

std::string Error::without_nul(std::string text) {
  for (size_t at = 0; (at = text.find('\0', at)) != std::string::npos;) text.replace(at, 1, "\\x00");
  return text;
}

bool is_out_of_memory(const std::exception& error) {
  const std::string_view what = error.what();
  auto says = [&](const char* words) { return what.find(words) != std::string_view::npos; };
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr || says("can't allocate memory") ||
         says("not enough memory") || says("std::bad_alloc");
}

}  // namespace hastings
