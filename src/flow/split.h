// Which coordinates of a coupling condition (a) and which are mapped (b).
#pragma once

#include <cstdint>

namespace hastings {

struct Split {
  int64_t a_begin, a_size, b_begin, b_size;
  Split(int64_t dim, bool swapped) {
    const int64_t head = dim / 2, tail = dim - head;
    a_begin = swapped ? head : 0;
    a_size = swapped ? tail : head;
    b_begin = swapped ? 0 : head;
    b_size = swapped ? head : tail;
  }
};

}  // namespace hastings
