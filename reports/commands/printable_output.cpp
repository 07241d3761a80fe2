#include "reports/commands/printable_output.hpp"

#include "traces/quoted.hpp"

namespace kvreplay::commands {

PrintableOutput::~PrintableOutput() {
  sync();
  out_.rdbuf(target_);
}

std::streambuf::int_type PrintableOutput::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  const char one = traits_type::to_char_type(c);
  return xsputn(&one, 1) == 1 ? c : traits_type::eof();
}

std::streamsize PrintableOutput::xsputn(const char* text, std::streamsize size) {
  waiting_.append(text, static_cast<std::size_t>(size));
  const auto end = waiting_.rfind('\n');
  return end == std::string::npos || pass(end + 1) ? size : 0;
}

int PrintableOutput::sync() {
  const bool passed = pass(waiting_.size());
  return target_->pubsync() == 0 && passed ? 0 : -1;
}

bool PrintableOutput::pass(std::size_t size) {
  const std::string shown = printable_lines(std::string_view(waiting_).substr(0, size));
  waiting_.erase(0, size);
  const auto bytes = static_cast<std::streamsize>(shown.size());
  return target_->sputn(shown.data(), bytes) == bytes;
}

}  // namespace kvreplay::commands
