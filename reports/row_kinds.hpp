// Studies of rows whose findings have one form: a few figures for each head, layer and all.
#pragma once

#include <array>
#include <string_view>

namespace kvreplay {

struct RowKind {
  std::string_view kind;     ///< of findings
  std::string_view heading;  ///< "Entries that hardly count"
};

constexpr std::array<RowKind, 4> kRowKinds = {{{"sparsity", "Entries that hardly count"},
                                               {"persistence", "Tokens that go on to matter"},
                                               {"overlap", "Selections from step to step"},
                                               {"entropy", "How widely rows spread"}}};

}  // namespace kvreplay
