// Writes rows of a trace in forms that other programs read.
#pragma once

#include <ostream>
#include <string_view>

#include "traces/row_source.hpp"
#include "traces/run_control.hpp"

namespace kvreplay {

/// text: one row a line, values apart by spaces. csv: header and layer,head,row,key,probability.
/// npy: float32 [rows, end of the range], zeros above the diagonal. All of recorded rows only.
enum class DumpFormat { text, csv, npy };

/// Throws std::invalid_argument listing the valid names.
DumpFormat parse_dump_format(std::string_view text);

/// Numbers have the digits that bring back the same float. The caller checks the stream afterwards.
void dump(const RowSource& source, HeadSlot slot, RowRange range, DumpFormat format,
          std::ostream& out, const RunControl& control = {});

}  // namespace kvreplay
