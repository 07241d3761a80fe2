// Pages in headless Chromium.
#pragma once

#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "paths.hpp"

namespace kvreplay::testing {

struct Output {
  int status = 0;
  std::string text;
};

inline Output run(const std::string& command) {
  Output output;
  std::FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  char buffer[65536];
  while (const auto got = std::fread(buffer, 1, sizeof buffer, pipe))
    output.text.append(buffer, got);
  output.status = WEXITSTATUS(pclose(pipe));
  return output;
}

inline std::string beside_this_file(const std::string& name) {
  std::ifstream file(test_data().parent_path() / "reports" / name);
  REQUIRE(file.is_open());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline bool chromium_or_skip() {
  if (run("command -v chromium").status == 0) return true;
  skip("chromium is missing (Debian package chromium)");
  return false;
}

inline std::string chromium(const TemporaryFolder& folder, const std::string& html,
                            const std::string& options) {
  std::ofstream(folder / "page.html", std::ios::binary) << html;
  const auto output =
      run("timeout 120 chromium --headless --no-sandbox --disable-gpu --hide-scrollbars "
          "--virtual-time-budget=20000 --user-data-dir='" +
          (folder / "profile").string() + "' " + options + " 'file://" +
          (folder / "page.html").string() + "' 2>'" + (folder / "log").string() + "'");
  CHECK(output.status == 0);
  return output.text;
}

inline std::string dom_of(const TemporaryFolder& folder, const std::string& html) {
  return chromium(folder, html, "--window-size=1280,1000 --dump-dom");
}

inline std::string body_tag(const std::string& dom) {
  const auto from = dom.find("<body");
  REQUIRE(from != std::string::npos);
  return dom.substr(from, dom.find('>', from) - from);
}

inline void check_drawn_without_failure(const std::string& dom) {
  CHECK_THAT(body_tag(dom), Catch::Contains("data-ready=\"yes\""));
  const auto failures = dom.find("id=\"failures\"");
  CAPTURE(dom.substr(failures, 300));
  CHECK_THAT(body_tag(dom), !Catch::Contains("data-failed"));
}

inline std::string with_script(std::string html, const std::string& script) {
  html.insert(html.rfind("</body>"), "<script>" + script + "</script>\n");
  return html;
}

}  // namespace kvreplay::testing
