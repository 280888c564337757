// Threads. Work is cut into tasks by the problem, never by the machine, and every task runs its tensor
// operations on one thread: results do not depend on how many threads there are.
#pragma once

#include <cstdint>
#include <functional>

namespace hastings {

// Runs task(0) .. task(count - 1) on up to `threads` threads; the first exception is rethrown.
void parallel_tasks(int64_t count, int threads, const std::function<void(int64_t)>& task);

// 0 means all cores.
int resolve_threads(int threads);

// Keeps tensor operations of the calling thread on that thread while it lives.
class SingleThreaded {
 public:
  SingleThreaded();
  ~SingleThreaded();
  SingleThreaded(const SingleThreaded&) = delete;
  SingleThreaded& operator=(const SingleThreaded&) = delete;

 private:
  int before_;
};

}  // namespace hastings
