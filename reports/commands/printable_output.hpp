// Keeps what files hold from steering the terminal that it is printed on.
#pragma once

#include <ostream>
#include <streambuf>
#include <string>

namespace kvreplay::commands {

/// While it lives, what is written to `out` goes through printable_lines(), line by line; what
/// comes from files should have gone through printable() before, as its line ends are kept here.
class PrintableOutput : private std::streambuf {
 public:
  explicit PrintableOutput(std::ostream& out) : out_(out), target_(out.rdbuf(this)) {}
  ~PrintableOutput() override;
  PrintableOutput(const PrintableOutput&) = delete;
  PrintableOutput& operator=(const PrintableOutput&) = delete;

 private:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* text, std::streamsize size) override;
  int sync() override;
  /// Passes the first `size` bytes that wait on.
  bool pass(std::size_t size);

  std::ostream& out_;
  std::streambuf* target_;
  std::string waiting_;  // the line that has not ended
};

}  // namespace kvreplay::commands
