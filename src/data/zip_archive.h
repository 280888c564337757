// A zip archive that is given up unless it is closed.
#pragma once

#include <zip.h>

#include <memory>

namespace hastings {

struct DiscardZip {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
using ZipArchive = std::unique_ptr<zip_t, DiscardZip>;

}  // namespace hastings
