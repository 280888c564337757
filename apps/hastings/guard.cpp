#include "guard.h"

#include <fmt/format.h>
#include <semaphore.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "hastings/core/foreign.h"
#include "hastings/core/programs.h"

namespace hastings::app {
namespace {

constexpr int kInterrupted = 130, kForeign = 3;
constexpr auto kPatience = std::chrono::milliseconds(850);  // of who pressed Ctrl-C

std::atomic<bool> stop{false}, as_json{false}, printed{false};
sem_t pressed;

// For signal handlers: neither memory nor locks.
void say(int to, std::initializer_list<const char*> parts) {
  for (const char* part : parts) {
    if (::write(to, part, std::strlen(part)) < 0) return;
  }
}

void on_interrupt(int) {
  if (stop.exchange(true)) {  // a second time: at once
    end_programs();
    ::_exit(kInterrupted);
  }
  sem_post(&pressed);
}

void end_what_does_not_stop() {
  while (sem_wait(&pressed) != 0 && errno == EINTR) {
  }
  std::this_thread::sleep_for(kPatience);
  if (printed) return;  // its document is on the way
  end_programs();
  say(STDERR_FILENO, {"\nhastings: interrupted; what is stored is whole, the same command goes on from there\n"});
  if (as_json) say(STDOUT_FILENO, {"{\"code\":130,\"error\":\"interrupted\"}\n"});
  ::_exit(kInterrupted);
}

[[noreturn]] void end_of_foreign_code(const char* name, const char* how) {
  say(STDERR_FILENO, {"hastings: ", name, ": its code ", how, "; it ended the program\n"});
  if (as_json && !printed) say(STDOUT_FILENO, {"{\"code\":3,\"error\":\"a plugin ended the program\"}\n"});
  ::_exit(kForeign);
}

void on_crash(int signal) {
  const char* how = signal == SIGABRT ? "aborted" : signal == SIGFPE ? "divided by zero" : "crashed";
  if (const char* name = ForeignCode::running()) end_of_foreign_code(name, how);
  say(STDERR_FILENO, {"hastings: a fault of the program: it ", how, "\n"});
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void on_exit() {
  if (const char* name = ForeignCode::running()) end_of_foreign_code(name, "called exit");
}

void handle(int signal, void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(signal, &action, nullptr);
}

// No control character of a name may cut the line or paint the terminal.
std::string printable(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += (byte < 0x20 && c != '\n') || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return out;
}

}  // namespace

void watch_over_the_end(bool json) {
  as_json = json;
  sem_init(&pressed, 0, 0);
  std::thread(end_what_does_not_stop).detach();
  static const std::string own = "hastings";
  const ForeignCode stack_for_handlers(own);  // an overflow of ours is told as well
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) handle(signal, on_interrupt, SA_RESTART);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) handle(signal, on_crash, SA_ONSTACK | SA_NODEFER);
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit fails like one to a full disk
  std::atexit(on_exit);
  std::at_quick_exit(on_exit);
}

bool interrupted() { return stop; }

int fail(int code, const std::string& message) {
  const std::string line = printable(fmt::format("hastings: {}\n", message));
  std::fwrite(line.data(), 1, line.size(), stderr);
  if (as_json && !printed) print_json({{"error", message}, {"code", code}}, -1);
  return code;
}

void print_json(const nlohmann::json& document, int indent) {
  printed = true;
  const std::string text = document.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
}

int flushed(int code) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  printed = true;
  return fail(3, fmt::format("standard output cannot be written: {}", std::strerror(errno != 0 ? errno : EIO)));
}

}  // namespace hastings::app
