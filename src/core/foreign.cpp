#include "hastings/core/foreign.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>

namespace hastings {
namespace {

thread_local const char* current = nullptr;

// Where a handler runs if the code's own stack has overflowed; one for each thread, for as long as that lives.
struct HandlerStack {
  HandlerStack() : memory(new char[kSize]) {
    stack_t before;
    if (sigaltstack(nullptr, &before) == 0 && (before.ss_flags & SS_DISABLE) == 0) return;  // there is one
    stack_t stack = {};
    stack.ss_sp = memory.get();
    stack.ss_size = kSize;
    ours = sigaltstack(&stack, nullptr) == 0;
  }
  ~HandlerStack() {
    stack_t none = {};
    none.ss_flags = SS_DISABLE;
    if (ours) sigaltstack(&none, nullptr);
  }
  static constexpr size_t kSize = 64 << 10;
  std::unique_ptr<char[]> memory;
  bool ours = false;
};

}  // namespace

ForeignCode::ForeignCode(const std::string& name) : before_(current) {
  static thread_local const HandlerStack stack;
  current = name.c_str();
}
ForeignCode::~ForeignCode() { current = before_; }
const char* ForeignCode::running() { return current; }

void show_print(std::string_view text) {
  static std::atomic<int> shown = 0;
  constexpr int kShown = 20;
  const int number = shown++;
  if (number < kShown) std::fwrite(text.data(), 1, text.size(), stderr);
  if (number == kShown) std::fputs("hastings: further prints of the density are not shown\n", stderr);
}

}  // namespace hastings
