#include "traces/mapped_file.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "traces/errors.hpp"
#include "traces/input_file.hpp"
#include "traces/out_of_memory.hpp"

namespace kvreplay {

MappedFile::MappedFile(const std::filesystem::path& path) {
  const InputFile file(path);
  void* start = mmap(nullptr, file.size(), PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (start == MAP_FAILED) {
    if (errno == ENOMEM)
      throw OutOfMemory(path.string() +
                        ": not enough room in memory to map the file; raise the "
                        "limit of the process (ulimit -v) or end other programs");
    throw InputError(path.string() + ": the file cannot be mapped into memory: " +
                     std::generic_category().message(errno));
  }
  bytes_ = {static_cast<const std::byte*>(start), file.size()};
}

MappedFile::~MappedFile() {
  // munmap takes a pointer to non-const but does not write through it.
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::fetch(std::span<const std::byte> some) const {
  advise(some, MADV_WILLNEED);
}

void MappedFile::release(std::span<const std::byte> some) const {
  // A fault maps the pages around it too, 64 KiB of them: also some that were let go before.
  constexpr std::size_t kWindow = std::size_t{64} << 10;
  const auto first = static_cast<std::size_t>(some.data() - bytes_.data());
  const std::size_t begin = first - std::min(first, kWindow);
  advise(bytes_.subspan(begin, first + some.size() - begin), MADV_DONTNEED);
}

// What the system makes of advice does not change what is read, nor does it matter if it fails.
void MappedFile::advise(std::span<const std::byte> some, int advice) const {
  if (some.empty()) return;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto first = static_cast<std::size_t>(some.data() - bytes_.data());
  const std::size_t begin = first / page * page;
  madvise(const_cast<std::byte*>(bytes_.data()) + begin, first + some.size() - begin, advice);
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace kvreplay
