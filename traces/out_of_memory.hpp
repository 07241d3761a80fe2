// Memory that the machine does not have, where there is more to say of it than std::bad_alloc does.
#pragma once

#include <memory>
#include <new>
#include <string>
#include <utility>

namespace kvreplay {

class OutOfMemory : public std::bad_alloc {
 public:
  /// One sentence that says what the memory was for and what helps.
  explicit OutOfMemory(std::string what)
      : what_(std::make_shared<const std::string>(std::move(what))) {}
  const char* what() const noexcept override { return what_->c_str(); }

 private:
  std::shared_ptr<const std::string> what_;  // copies of exceptions must not throw
};

}  // namespace kvreplay
