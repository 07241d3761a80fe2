// Studies of rows whose findings have one form: a few figures for each head, layer and all.
#pragma once

#include <array>
#include <string_view>

namespace kvreplay {

struct RowKind {
  std::string_view kind;     ///< of findings
  std::string_view heading;  ///< "Entries that hardly count"
  bool shares;               ///< the first figure is a share
};

constexpr std::array<RowKind, 4> kRowKinds = {{{"sparsity", "Entries that hardly count", true},
                                               {"persistence", "Tokens that go on to matter", true},
                                               {"overlap", "Selections from step to step", true},
                                               {"entropy", "How widely rows spread", false}}};

}  // namespace kvreplay
