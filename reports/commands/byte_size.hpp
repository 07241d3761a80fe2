// Options that take a size in bytes: 8G, 512M, 1.5G.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reports/commands/command.hpp"

namespace kvreplay::commands {

class ByteSize final : public po::typed_value<std::uint64_t> {
 public:
  ByteSize() : po::typed_value<std::uint64_t>(nullptr) {}
  void xparse(boost::any& store, const std::vector<std::string>& words) const override;
};

/// The value of an option: a number with K, M, G or T for powers of 1,000, or of bytes without.
/// Other texts are errors that name the option.
inline po::typed_value<std::uint64_t>* byte_size() {
  return new ByteSize();  // boost takes ownership
}

}  // namespace kvreplay::commands
