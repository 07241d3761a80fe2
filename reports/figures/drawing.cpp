#include "reports/figures/drawing.hpp"

#include <cstdio>
#include <utility>
#include <vector>

#include "traces/quoted.hpp"

namespace kvreplay::svg {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  std::string out = text;
  while (out.back() == '0') out.pop_back();
  if (out.back() == '.') out.pop_back();
  return out == "-0" ? "0" : out;
}

std::string at(double x, double y) {
  return number(x) + "," + number(y);
}

std::string symbol(const std::string& shape, double x, double y, double r) {
  const auto closed = [&](const std::vector<std::pair<double, double>>& corners) {
    std::string d;
    for (const auto& [dx, dy] : corners) d += (d.empty() ? "M" : "L") + at(x + dx * r, y + dy * r);
    return d + "Z";
  };
  if (shape == "square") return closed({{-.9, -.9}, {.9, -.9}, {.9, .9}, {-.9, .9}});
  if (shape == "triangle-up") return closed({{0, -1.1}, {1.1, .9}, {-1.1, .9}});
  if (shape == "triangle-down") return closed({{0, 1.1}, {1.1, -.9}, {-1.1, -.9}});
  if (shape == "triangle-right") return closed({{1.1, 0}, {-.9, 1.1}, {-.9, -1.1}});
  if (shape == "diamond") return closed({{0, -1.3}, {1, 0}, {0, 1.3}, {-1, 0}});
  if (shape == "cross") {
    return closed({{-.4, -1.2},
                   {.4, -1.2},
                   {.4, -.4},
                   {1.2, -.4},
                   {1.2, .4},
                   {.4, .4},
                   {.4, 1.2},
                   {-.4, 1.2},
                   {-.4, .4},
                   {-1.2, .4},
                   {-1.2, -.4},
                   {-.4, -.4}});
  }
  const std::string arc = "a" + number(r) + "," + number(r) + " 0 1,1 ";
  return "M" + at(x - r, y) + arc + number(2 * r) + ",0" + arc + number(-2 * r) + ",0Z";
}

std::string xml_text(const std::string& text) {
  const std::string shown = printable(text);
  std::string out;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const char c = shown[i];
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (shown.compare(i, 2, "\xEF\xBF") == 0 &&
               static_cast<unsigned char>(shown[i + 2]) >= 0xBE) {  // U+FFFE, U+FFFF
      out += "\xEF\xBF\xBD";                                        // no XML can hold them
      i += 2;
    } else {
      out += c;
    }
  }
  return out;
}

void Drawing::text(double x, double y, const std::string& words, const std::string& attributes) {
  out_ += "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\"" + attributes + ">" +
          xml_text(words) + "</text>\n";
}

void Drawing::line(double x1, double y1, double x2, double y2, const std::string& attributes) {
  out_ += "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) +
          "\" y2=\"" + number(y2) + "\"" + attributes + "/>\n";
}

void Drawing::rect(double x, double y, double width, double height, const std::string& attributes,
                   const std::string& title) {
  out_ += "<rect x=\"" + number(x) + "\" y=\"" + number(y) + "\" width=\"" + number(width) +
          "\" height=\"" + number(height) + "\"" + attributes;
  out_ += title.empty() ? "/>\n" : "><title>" + xml_text(title) + "</title></rect>\n";
}

void Drawing::path(const std::string& d, const std::string& attributes) {
  out_ += "<path d=\"" + d + "\"" + attributes + "/>\n";
}

}  // namespace kvreplay::svg
