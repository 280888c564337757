// A zip archive that is given up unless it is closed.
#pragma once

#include <zip.h>

#include <cstdint>
#include <memory>

namespace hastings {

struct DiscardZip {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
using ZipArchive = std::unique_ptr<zip_t, DiscardZip>;

constexpr uint64_t kDeflate = 1032;  // so many bytes a compressed one makes at the most

// Adds up what the entries of a file say they hold; false where that is more than the file can.
class ZipBudget {
 public:
  explicit ZipBudget(uint64_t file_size) : file_size_(file_size) {}
  bool holds(const zip_stat_t& entry) {
    constexpr zip_uint64_t kKnown = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
    if ((entry.valid & kKnown) != kKnown || entry.comp_size > file_size_) return false;
    const bool stored = entry.comp_method == ZIP_CM_STORE;
    if (entry.size > (stored ? entry.comp_size : kDeflate * entry.comp_size)) return false;
    packed_ += entry.comp_size;  // entries may not lie on top of each other either
    return packed_ <= file_size_;
  }

 private:
  uint64_t file_size_, packed_ = 0;
};

}  // namespace hastings
