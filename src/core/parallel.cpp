#include "hastings/core/parallel.h"

#include <ATen/Parallel.h>
#include <omp.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace hastings {
namespace {

// Threads that outlive a call: learning hands them work thousands of times a second. They wait for a
// new batch number, then take tasks from a shared counter.
class Pool {
 public:
  static Pool& instance() {
    static Pool pool;
    return pool;
  }

  void run(int64_t count, int threads, const std::function<void(int64_t)>& task) {
    const std::lock_guard<std::mutex> one_caller(caller_);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      while (static_cast<int>(workers_.size()) < threads - 1) {
        const int id = static_cast<int>(workers_.size());
        workers_.emplace_back([this, id] { work(id); });
      }
      task_ = &task;
      count_ = count;
      next_ = 0;
      active_ = threads - 1;
      busy_ = threads - 1;
      error_ = nullptr;
      ++batch_;
    }
    start_.notify_all();
    drain(task, count);
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
    if (error_) std::rethrow_exception(error_);
  }

 private:
  Pool() = default;
  ~Pool() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    start_.notify_all();
    for (auto& worker : workers_) worker.join();
  }

  void drain(const std::function<void(int64_t)>& task, int64_t count) {
    const SingleThreaded single;
    for (int64_t i = next_++; i < count; i = next_++) {
      try {
        task(i);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!error_) error_ = std::current_exception();
        next_ = count;
      }
    }
  }

  void work(int id) {
    omp_set_num_threads(1);
    uint64_t seen = 0;
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      start_.wait(lock, [&] { return stop_ || batch_ != seen; });
      if (stop_) return;
      seen = batch_;
      if (id >= active_) continue;
      const auto* task = task_;
      const int64_t count = count_;
      lock.unlock();
      drain(*task, count);
      lock.lock();
      if (--busy_ == 0) done_.notify_one();
    }
  }

  std::mutex caller_, mutex_;
  std::condition_variable start_, done_;
  std::vector<std::thread> workers_;
  const std::function<void(int64_t)>* task_ = nullptr;
  int64_t count_ = 0;
  std::atomic<int64_t> next_{0};
  int active_ = 0, busy_ = 0;
  uint64_t batch_ = 0;
  bool stop_ = false;
  std::exception_ptr error_;
};

}  // namespace

SingleThreaded::SingleThreaded() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
SingleThreaded::~SingleThreaded() { omp_set_num_threads(before_); }

int resolve_threads(int threads) {
  if (threads > 0) return threads;
  const unsigned cores = std::thread::hardware_concurrency();
  return cores == 0 ? 1 : static_cast<int>(cores);
}

void parallel_tasks(int64_t count, int threads, const std::function<void(int64_t)>& task) {
  threads = static_cast<int>(std::min<int64_t>(resolve_threads(threads), count));
  if (threads <= 1) {
    const SingleThreaded single;
    for (int64_t i = 0; i < count; ++i) task(i);
    return;
  }
  Pool::instance().run(count, threads, task);
}

}  // namespace hastings
