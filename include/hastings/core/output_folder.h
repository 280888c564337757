// A folder that a command writes. Nothing in it that is not ours is ever touched:
//   - it must not exist, be empty, or carry our mark of the same kind; anything else is refused;
//   - the working folder, the folders above it, / and $HOME are never made into one;
//   - the mark lists what we wrote, before it is written; only that is ever replaced or removed;
//   - one process at a time: the mark is locked, and the system lets go of the lock when its holder dies.
#pragma once

#include <mutex>
#include <set>
#include <string>

namespace hastings {

enum class FolderKind { kRun, kGan, kSamples, kExperiment, kData };

class OutputFolder {
 public:
  enum class Use {
    kWrite,  // made if need be
    kGoOn,   // it must be there already, and ours
  };
  // ConfigError where the folder is refused, DataError where another process has it or the disk says no.
  OutputFolder(std::string path, FolderKind kind, Use use = Use::kWrite);
  ~OutputFolder();  // a folder that was made for nothing goes again
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  const std::string& path() const { return path_; }
  // The path of one of our files, "NAME" or "FOLDER/NAME", from now on listed; its folder is made. ConfigError if
  // somebody else's file has that name.
  std::string file(const std::string& name);
  // The same for a folder that is ours with all that is in it; made if need be.
  std::string subfolder(const std::string& name);
  void remove(const std::string& name);  // if it is listed
  void clear();                          // removes everything that is listed
  void remove_all_but(const std::string& name);
  // DataError if the folder was removed or replaced while we were at work.
  void check() const;

 private:
  void take(Use use);
  void lock();
  bool write_head(int holder);  // process number; 0: nobody
  void read_list();
  void write_list();
  void list(const std::string& name);
  std::string path_;
  FolderKind kind_;
  int mark_ = -1;  // descriptor
  bool made_ = false;
  std::set<std::string> ours_;  // folders end with a slash
  mutable std::mutex mutex_;    // of the list: several threads may write files
};

// A hidden folder in one of ours, empty at first; it goes when it is no longer needed.
class ScratchFolder {
 public:
  ScratchFolder(OutputFolder& in, std::string name) : in_(in), name_(std::move(name)) {
    in_.remove(name_);
    path_ = in_.subfolder(name_);
  }
  ~ScratchFolder() { in_.remove(name_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  OutputFolder& in_;
  std::string name_, path_;
};

// Does the folder carry our mark of this kind?
bool is_output_folder(const std::string& path, FolderKind kind);

}  // namespace hastings
