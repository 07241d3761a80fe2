// Where tests find their inputs.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

namespace kvreplay::testing {

/// Committed inputs and expected values, each with its origin noted beside it.
inline std::filesystem::path test_data() {
  return KVREPLAY_TEST_DATA;
}

/// Set by skip(); the program then ends with kSkipCode unless something failed.
inline bool skipped = false;
constexpr int kSkipCode = 77;

/// Says why the rest of a test cannot run here; ctest counts the test as skipped.
inline void skip(const std::string& reason) {
  std::cout << "SKIPPED: " << reason << std::endl;
  skipped = true;
}

/// The shared material of the project (cases, the 260K-parameter model), from $KVREPLAY_SHARED or
/// beside the checkout. Calls skip() and returns an empty path where `relative` is missing.
inline std::filesystem::path shared_or_skip(const std::string& relative) {
  const char* set = std::getenv("KVREPLAY_SHARED");
  auto path = std::filesystem::path(set != nullptr ? set : KVREPLAY_SHARED) / relative;
  if (std::filesystem::exists(path)) return path;
  skip(path.string() + " is missing");
  return {};
}

/// The SmolLM2-135M-Instruct GGUF from $KVREPLAY_MODEL or ./run's cache; else as above.
inline std::filesystem::path model_or_skip() {
  const char* set = std::getenv("KVREPLAY_MODEL");
  if (set != nullptr && std::filesystem::exists(set)) return set;
  skip("set KVREPLAY_MODEL to SmolLM2-135M-Instruct.Q4_1.gguf (./test does)");
  return {};
}

/// A fresh folder removed when the test ends.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    auto pattern = (std::filesystem::temp_directory_path() / "kvreplay-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr)
      throw std::runtime_error("cannot make a temporary folder");
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace kvreplay::testing
