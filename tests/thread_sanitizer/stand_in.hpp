// What this program uses of oneTBB, on std::thread, for builds with the thread sanitizer: the
// library comes without instrumentation, so that the sanitizer sees neither its hand-over of work
// nor its joins and takes every use for a race. Here all of that is visible, and what it finds are
// races of this program. Nothing more is ordered than beginnings and joins: pieces of work that
// merely follow each other in time on different threads stay unordered, or their races would hide.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace tbb {

namespace stand_in {

inline thread_local int concurrency = 0;  // of the arena that this thread works in; 0: of none
inline std::atomic<int> most_allowed{0};  // 0: no limit

/// A number that no other living thread has, so that per-thread values are reused.
class ThreadNumber {
 public:
  ThreadNumber() {
    const std::scoped_lock lock(mutex());
    while (taken().contains(number_)) ++number_;
    taken().insert(number_);
  }
  ~ThreadNumber() {
    const std::scoped_lock lock(mutex());
    taken().erase(number_);
  }
  ThreadNumber(const ThreadNumber&) = delete;
  ThreadNumber& operator=(const ThreadNumber&) = delete;
  static std::size_t of_this_thread() {
    static thread_local ThreadNumber number;
    return number.number_;
  }

 private:
  static std::mutex& mutex() {
    static std::mutex mutex;
    return mutex;
  }
  static std::set<std::size_t>& taken() {
    static std::set<std::size_t> taken;
    return taken;
  }
  std::size_t number_ = 0;
};

}  // namespace stand_in

namespace info {
inline int default_concurrency() {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}
}  // namespace info

class global_control {
 public:
  enum parameter { max_allowed_parallelism };
  global_control(parameter, std::size_t value)
      : before_(stand_in::most_allowed.exchange(static_cast<int>(value))) {}
  ~global_control() { stand_in::most_allowed = before_; }
  global_control(const global_control&) = delete;
  global_control& operator=(const global_control&) = delete;

 private:
  int before_;
};

namespace this_task_arena {
inline int max_concurrency() {
  const int wanted =
      stand_in::concurrency > 0 ? stand_in::concurrency : info::default_concurrency();
  const int most = stand_in::most_allowed;
  return most > 0 ? std::min(wanted, most) : wanted;
}
template <class Use>
void isolate(const Use& use) {
  use();
}
}  // namespace this_task_arena

class task_arena {
 public:
  explicit task_arena(int concurrency) : concurrency_(concurrency) {}
  template <class Use>
  auto execute(const Use& use) {
    struct Restored {
      int before = stand_in::concurrency;
      ~Restored() { stand_in::concurrency = before; }
    } const restored;
    stand_in::concurrency = concurrency_;
    return use();
  }

 private:
  int concurrency_;
};

class simple_partitioner {};

template <class Index>
class blocked_range {
 public:
  blocked_range(Index begin, Index end, std::size_t grain = 1)
      : begin_(begin), end_(end), grain_(grain) {}
  Index begin() const { return begin_; }
  Index end() const { return end_; }
  std::size_t grainsize() const { return grain_; }

 private:
  Index begin_;
  Index end_;
  std::size_t grain_;
};

/// Ranges of the grain's size, taken in order by as many threads as the arena has.
template <class Index, class Body>
void parallel_for(const blocked_range<Index>& range, const Body& body) {
  if (!(range.begin() < range.end())) return;
  const auto total = static_cast<std::size_t>(range.end() - range.begin());
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error;
  const auto work = [&, concurrency = stand_in::concurrency] {
    stand_in::concurrency = concurrency;
    const auto take = [&] { return next.fetch_add(range.grainsize(), std::memory_order_relaxed); };
    for (std::size_t at = take(); at < total && !failed.load(std::memory_order_relaxed);
         at = take()) {
      const auto first = static_cast<Index>(range.begin() + static_cast<Index>(at));
      const std::size_t size = std::min(range.grainsize(), total - at);
      try {
        body(blocked_range<Index>(first, static_cast<Index>(first + static_cast<Index>(size))));
      } catch (...) {
        if (!failed.exchange(true, std::memory_order_relaxed)) error = std::current_exception();
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < this_task_arena::max_concurrency(); ++i) threads.emplace_back(work);
  for (auto& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
}

template <class Index, class Body>
void parallel_for(Index first, Index last, const Body& body, simple_partitioner = {}) {
  parallel_for(blocked_range<Index>(first, last), [&](const blocked_range<Index>& range) {
    for (Index i = range.begin(); i < range.end(); ++i) body(i);
  });
}

template <class Value>
class enumerable_thread_specific {
 public:
  /// `arguments`: of each value's constructor, or one callable that makes it.
  template <class... Arguments>
  explicit enumerable_thread_specific(const Arguments&... arguments)
      : make_([=] {
          if constexpr (sizeof...(Arguments) == 1 && (std::is_invocable_v<Arguments> && ...)) {
            return (arguments(), ...);
          } else {
            return Value(arguments...);
          }
        }) {}
  enumerable_thread_specific(enumerable_thread_specific&& other) noexcept
      : id_(other.id_), make_(std::move(other.make_)), values_(std::move(other.values_)) {}
  enumerable_thread_specific& operator=(enumerable_thread_specific&& other) noexcept {
    id_ = other.id_;
    make_ = std::move(other.make_);
    values_ = std::move(other.values_);
    return *this;
  }

  /// Locks at a thread's first use only; see above.
  Value& local() {
    static thread_local std::map<std::uint64_t, Value*> known;  // by id
    Value*& value = known[id_];
    if (value == nullptr) {
      const std::scoped_lock lock(mutex_);
      const std::size_t number = stand_in::ThreadNumber::of_this_thread();
      auto found = values_.find(number);
      if (found == values_.end()) found = values_.emplace(number, make_()).first;
      value = &found->second;
    }
    return *value;
  }

 private:
  static std::uint64_t new_id() {
    static std::atomic<std::uint64_t> next{0};
    return next.fetch_add(1, std::memory_order_relaxed);
  }
  std::uint64_t id_ = new_id();
  std::function<Value()> make_;
  std::mutex mutex_;
  std::map<std::size_t, Value> values_;
};

}  // namespace tbb
