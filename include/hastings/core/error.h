// Every error hastings throws. The library never prints and never exits; the program turns an error
// into one line and `exit_code()`.
#pragma once

#include <stdexcept>
#include <string>

namespace hastings {

class Error : public std::runtime_error {
 public:
  Error(const std::string& what, int exit_code) : std::runtime_error(without_nul(what)), exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }

 private:
  static std::string without_nul(std::string text);  // a NUL in a name would cut the message
  int exit_code_;
};

// An option or a name that makes no sense: exit code 2, like a malformed command line.
class ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& what) : Error(what, 2) {}
};

// A file that cannot be read, parsed or written: exit code 3.
class DataError : public Error {
 public:
  explicit DataError(const std::string& what) : Error(what, 3) {}
};

// The numbers broke down: a density that is never finite, a loss that stays non-finite: exit code 4.
class NumericalError : public Error {
 public:
  explicit NumericalError(const std::string& what) : Error(what, 4) {}
};

// The observer asked to stop (Ctrl-C): exit code 130, as shells expect.
class Interrupted : public Error {
 public:
  explicit Interrupted(const std::string& what) : Error(what, 130) {}
};

// LibTorch reports memory that is not to be had as an error like any other.
bool is_out_of_memory(const std::exception& error);

}  // namespace hastings
