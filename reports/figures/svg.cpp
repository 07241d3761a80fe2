#include "reports/figures/svg.hpp"

#include <algorithm>
#include <vector>

#include "reports/figures/drawing.hpp"

namespace kvreplay {
namespace {

using namespace svg;

/// Words in lines that fit the width.
std::vector<std::string> lines_of(const std::string& words, std::size_t columns) {
  std::vector<std::string> lines = {""};
  std::size_t from = 0;
  while (from < words.size()) {
    const auto to = std::min(words.find(' ', from), words.size());
    const std::string word = words.substr(from, to - from);
    if (!lines.back().empty() && lines.back().size() + word.size() >= columns) {
      lines.emplace_back();
    }
    lines.back() += (lines.back().empty() ? "" : " ") + word;
    from = to + 1;
  }
  return lines;
}

}  // namespace

std::string svg_of(const Figure& figure) {
  Drawing drawing;
  double height = 0;
  if (figure.cells) {
    height = draw_cells(*figure.cells, drawing);
  } else {
    height = draw_lines(figure, drawing);
  }
  Drawing words;
  words.text(kLeft - 60, 24, figure.title, " font-size=\"15\" font-weight=\"bold\"");
  for (const auto& line : lines_of(figure.caption, 118)) {
    words.text(kLeft - 60, height, line, " font-size=\"11\" fill=\"#444444\"");
    height += 15;
  }
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
         "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" viewBox=\"0 0 " +
         number(kWidth) + " " + number(height) + "\" width=\"" + number(kWidth) + "\" height=\"" +
         number(height) +
         "\" role=\"img\" font-family=\"Helvetica, Arial, 'Liberation Sans', sans-serif\" "
         "font-size=\"12\">\n<title>" +
         xml_text(figure.title) + "</title>\n<desc>" + xml_text(figure.caption) +
         "</desc>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n" + words.take() +
         drawing.take() + "</svg>\n";
}

}  // namespace kvreplay
