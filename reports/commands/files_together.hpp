// Files of which a run leaves all or none.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kvreplay::commands {

/// Holds files under their partial names until publish() gives all of them their own. Whatever has
/// no name of its own by then is removed with the object, and so are folders that it made and that
/// are empty. All of it throws OutputError.
class FilesTogether {
 public:
  explicit FilesTogether(bool overwrite) : overwrite_(overwrite) {}
  ~FilesTogether();
  FilesTogether(const FilesTogether&) = delete;
  FilesTogether& operator=(const FilesTogether&) = delete;

  /// Makes `folder`, and those above it, where it is missing.
  void make_folder(const std::filesystem::path& folder);
  /// Writes `PATH.partial`. Throws std::invalid_argument where a file of that path is held.
  void add(const std::filesystem::path& path, std::string_view bytes);
  /// A file that is replaced lies as PATH.replaced until all have their names. Where one cannot
  /// have it, those that got theirs are removed, and what was replaced has its name again.
  void publish();

 private:
  struct Named {
    std::filesystem::path target;
    std::filesystem::path old;  ///< where what had the name before lies; empty: nothing had
    bool is_new;                ///< the file of this run has the name
  };

  void name(const std::filesystem::path& partial, std::vector<Named>& named) const;
  /// Says, behind "; ", what became of it.
  static std::string take_back(const std::vector<Named>& named);

  bool overwrite_;
  std::vector<std::filesystem::path> folders_;  ///< made here, those above first
  std::vector<std::filesystem::path> files_;
};

}  // namespace kvreplay::commands
