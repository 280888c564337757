#include "hastings/core/output_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <vector>

#include "hastings/core/error.h"
#include "hastings/core/files.h"

namespace hastings {
namespace {

namespace fs = std::filesystem;

// The mark: a line that says what the folder is and who has it, then a line for each thing in it that is ours.
constexpr const char* kMark = ".hastings";
constexpr size_t kHeadSize = 48;  // of the first line, so that it can be written over

struct Word {
  const char *mark, *speech;
};
Word word(FolderKind kind) {
  switch (kind) {
    case FolderKind::kRun:
      return {"run", "a run"};
    case FolderKind::kGan:
      return {"gan", "a GAN's run"};
    case FolderKind::kSamples:
      return {"samples", "a folder of samples"};
    case FolderKind::kExperiment:
      return {"experiment", "an experiment's folder"};
    case FolderKind::kData:
      return {"data", "a data set that was fetched"};
  }
  return {};
}

std::string head(FolderKind kind, pid_t holder) {
  std::string text = fmt::format("hastings folder 1 {}", word(kind).mark);
  if (holder != 0) text += fmt::format(" held by {}", holder);
  text.resize(kHeadSize - 1, ' ');
  return text + "\n";
}

std::string mark_of(const std::string& path) { return (fs::path(path) / kMark).string(); }

// The words of a mark's first line; empty if there is no mark.
std::vector<std::string> head_words(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(mark_of(path), ignored)) return {};
  std::istringstream first(read_file(mark_of(path)).substr(0, kHeadSize));
  std::vector<std::string> words;
  for (std::string w; first >> w;) words.push_back(w);
  return words;
}

// The working folder, what is above it, and the user's own.
bool is_sacred(const std::string& path) {
  std::error_code error;
  const fs::path there = fs::weakly_canonical(path, error), here = fs::current_path(error);
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home != '\0' && there == fs::weakly_canonical(home, error)) return true;
  const auto [end, unused] = std::mismatch(there.begin(), there.end(), here.begin(), here.end());
  return end == there.end();
}

[[noreturn]] void cannot_be_written(const std::string& path) {
  throw DataError(fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
}

// "NAME", "FOLDER/NAME" or "FOLDER/": a list that was tampered with leads nowhere else.
bool is_plain(const std::string& name) {
  const fs::path path = name;
  bool plain = !name.empty() && path.is_relative() && name.find('\n') == std::string::npos;
  for (const auto& part : path) plain = plain && part != "." && part != "..";
  return plain && name.find("//") == std::string::npos && name != "/";
}

// Is a folder on the way from `folder` to what is called `name` below it a link?
bool leads_through_link(const fs::path& folder, const std::string& name) {
  fs::path at = folder;
  const fs::path parent = fs::path(name.ends_with("/") ? name.substr(0, name.size() - 1) : name).parent_path();
  std::error_code ignored;
  for (const auto& part : parent) {
    at /= part;
    if (fs::is_symlink(at, ignored)) return true;
  }
  return false;
}

// Removes what is called `name` below the folder, and what was left of it half written; never through a link.
void remove_below(const fs::path& folder, const std::string& name) {
  if (leads_through_link(folder, name)) return;
  const fs::path path = folder / (name.ends_with("/") ? name.substr(0, name.size() - 1) : name);
  std::error_code ignored;
  if (name.ends_with("/")) {
    fs::remove_all(path, ignored);
  } else if (!fs::is_directory(fs::symlink_status(path, ignored))) {
    fs::remove(path, ignored);
    fs::remove(temporary_of(path.string()), ignored);
  }
}

}  // namespace

bool is_output_folder(const std::string& path, FolderKind kind) {
  const auto words = head_words(path);
  return words.size() >= 4 && words[0] == "hastings" && words[1] == "folder" && words[3] == word(kind).mark;
}

OutputFolder::OutputFolder(std::string path, FolderKind kind, Use use) : path_(std::move(path)), kind_(kind) {
  while (path_.size() > 1 && path_.back() == '/') path_.pop_back();
  try {
    take(use);
  } catch (...) {
    if (mark_ >= 0) ::close(mark_);
    if (made_) {
      ::unlink(mark_of(path_).c_str());
      ::rmdir(path_.c_str());
    }
    throw;
  }
}

void OutputFolder::take(Use use) {
  if (path_.empty()) throw ConfigError("an output folder has no name");
  if (use == Use::kWrite && is_sacred(path_))
    throw ConfigError(fmt::format("{}: is the working folder, one above it, / or your home: give another", path_));
  std::error_code error;
  const auto status = fs::status(path_, error);
  if (fs::exists(status) && !fs::is_directory(status))
    throw ConfigError(fmt::format("{}: is a file, not a folder; it is left as it is", path_));
  if (fs::is_directory(status)) {
    const bool empty = fs::is_empty(path_, error);
    if (error) throw DataError(fmt::format("{}: cannot be read: {}", path_, error.message()));
    if (!is_output_folder(path_, kind_) && (use == Use::kGoOn || !empty))
      throw ConfigError(fmt::format("{}: is not {} of hastings ({} in it does not say so); nothing in it is touched",
                                    path_, word(kind_).speech, kMark));
  } else if (use == Use::kGoOn) {
    throw ConfigError(fmt::format("{}: there is no such run", path_));
  } else {
    make_directory(path_);
    made_ = true;
  }
  mark_ = ::open(mark_of(path_).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (mark_ < 0) cannot_be_written(path_);
  lock();
  read_list();
  if (!write_head(::getpid())) cannot_be_written(path_);
}

void OutputFolder::lock() {
  if (::flock(mark_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) cannot_be_written(path_);
    const auto words = head_words(path_);
    const std::string who = words.size() >= 7 ? fmt::format("process {}", words[6]) : "another process";
    throw DataError(fmt::format("{}: {} is writing it", path_, who));
  }
  check();  // who held it before us may have removed it
}

bool OutputFolder::write_head(int holder) {
  const std::string line = head(kind_, holder);
  return ::pwrite(mark_, line.data(), line.size(), 0) == static_cast<ssize_t>(line.size());
}

void OutputFolder::read_list() {
  const std::string text = read_file(mark_of(path_));
  for (size_t at = std::min(text.size(), kHeadSize), end; (end = text.find('\n', at)) != std::string::npos;
       at = end + 1) {
    const std::string name = text.substr(at, end - at);
    if (is_plain(name)) ours_.insert(name);
  }
}

void OutputFolder::write_list() {
  std::string text;
  for (const auto& name : ours_) text += name + "\n";
  if (::ftruncate(mark_, static_cast<off_t>(kHeadSize)) != 0 ||
      ::pwrite(mark_, text.data(), text.size(), static_cast<off_t>(kHeadSize)) != static_cast<ssize_t>(text.size()))
    cannot_be_written(path_);
}

OutputFolder::~OutputFolder() {
  std::error_code error;
  bool bare = made_;
  for (const auto& entry : fs::directory_iterator(path_, error)) bare = bare && entry.path().filename() == kMark;
  if (bare && !error) {
    ::unlink(mark_of(path_).c_str());
    ::rmdir(path_.c_str());
  } else {  // the same whoever had it
    write_head(0);
  }
  ::close(mark_);
}

void OutputFolder::list(const std::string& name) {
  const std::string line = name + "\n";
  const off_t end = ::lseek(mark_, 0, SEEK_END);
  if (::pwrite(mark_, line.data(), line.size(), end) != static_cast<ssize_t>(line.size())) {
    const int why = errno;
    [[maybe_unused]] const int cut = ::ftruncate(mark_, end);  // a part of a name is none
    errno = why;
    cannot_be_written(path_);
  }
  ours_.insert(name);
}

std::string OutputFolder::file(const std::string& name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const fs::path path = fs::path(path_) / name;
  check();
  if (!is_plain(name)) throw ConfigError(fmt::format("'{}' is no name for a file of ours", name));
  if (leads_through_link(path_, name))
    throw ConfigError(fmt::format("{}: lies behind a link, which is not followed", path.string()));
  if (!ours_.contains(name)) {
    if (fs::exists(fs::symlink_status(path)))
      throw ConfigError(fmt::format("{}: is there already, and not by hastings; it is left as it is", path.string()));
    list(name);
  }
  if (path.parent_path() != fs::path(path_)) make_directory(path.parent_path().string());
  return path.string();
}

std::string OutputFolder::subfolder(const std::string& name) {
  const std::string path = file(name + "/");
  make_directory(path);
  return path.substr(0, path.size() - 1);
}

void OutputFolder::remove(const std::string& name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& listed : {name, name + "/"}) {
    if (ours_.contains(listed)) remove_below(path_, listed);
  }
}

void OutputFolder::clear() { remove_all_but(""); }

void OutputFolder::remove_all_but(const std::string& kept) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::set<fs::path> folders;  // emptied ones go too
  std::set<std::string> left;
  for (const auto& name : ours_) {
    if (name == kept || name == kept + "/") {
      left.insert(name);
      continue;
    }
    remove_below(path_, name);
    const fs::path parent = (fs::path(path_) / name).parent_path();
    if (!name.ends_with("/") && parent != fs::path(path_) && !leads_through_link(path_, name)) folders.insert(parent);
  }
  for (const auto& folder : folders) ::rmdir(folder.c_str());  // if nothing is left in it
  ours_ = left;
  write_list();
}

void OutputFolder::check() const {
  struct stat held, there;
  if (::fstat(mark_, &held) != 0 || ::stat(mark_of(path_).c_str(), &there) != 0 || held.st_ino != there.st_ino ||
      held.st_dev != there.st_dev)
    throw DataError(fmt::format("{}: was removed or replaced while hastings was writing it", path_));
}

}  // namespace hastings
