// Writing to a descriptor until everything is written.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <vector>

namespace hastings {

// Writes and empties the buffer; false with errno set where that failed.
inline bool write_all(int descriptor, std::vector<char>& buffer) {
  for (size_t done = 0; done < buffer.size();) {
    const ssize_t n = ::write(descriptor, buffer.data() + done, buffer.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    done += static_cast<size_t>(n);
  }
  buffer.clear();
  return true;
}

}  // namespace hastings
