// A shared object and its symbols.
#pragma once

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "hastings/core/error.h"
#include "hastings/core/foreign.h"

namespace hastings {

class Library {
 public:
  explicit Library(std::string path) : path_(std::move(path)) {
    if (!std::filesystem::exists(path_)) throw DataError(fmt::format("{}: cannot be opened", path_));
    // dlopen looks for names without a slash in the system's folders.
    const ForeignCode foreign(path_);
    handle_ = ::dlopen(std::filesystem::absolute(path_).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle_) throw DataError(fmt::format("{}: is not a usable shared object: {}", path_, why()));
  }
  ~Library() {
    const ForeignCode foreign(path_);
    ::dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  template <class T>
  T* find(const char* symbol) const {  // null if there is none
    return reinterpret_cast<T*>(::dlsym(handle_, symbol));
  }
  template <class T>
  T* get(const char* symbol) const {
    T* found = find<T>(symbol);
    if (!found) throw DataError(fmt::format("{}: has no function {}", path_, symbol));
    return found;
  }
  const std::string& path() const { return path_; }

 private:
  std::string why() const {
    const char* text = ::dlerror();
    std::string what = text ? text : "unknown reason";
    const auto at = what.find(": ");  // the path again
    return at == std::string::npos ? what : what.substr(at + 2);
  }
  std::string path_;
  void* handle_ = nullptr;
};

}  // namespace hastings
