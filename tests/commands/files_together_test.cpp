// Files of which a run leaves all or none.
#include "reports/commands/files_together.hpp"

#include <catch2/catch.hpp>

#include "bench.hpp"
#include "small_disk.hpp"
#include "traces/errors.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Contains;
using commands::FilesTogether;

std::size_t files_in(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

}  // namespace

TEST_CASE("files appear together, and what is not published is gone with its folders") {
  const TemporaryFolder folder;
  const auto deep = folder / "a" / "b/";
  {
    FilesTogether files(false);
    files.make_folder(deep);
    files.add(deep / "one", "1");
    files.add(deep / "two", "2");
    CHECK_THROWS_AS(files.add(deep / "one", "3"), std::invalid_argument);
    CHECK(std::filesystem::exists(deep / "one.partial"));
    CHECK(!std::filesystem::exists(deep / "one"));
  }
  CHECK(!std::filesystem::exists(folder / "a"));
  std::filesystem::create_directory(folder / "a");
  {
    FilesTogether files(false);
    files.make_folder(deep);
    files.add(deep / "one", "1");
    files.add(deep / "two", "2");
    files.publish();
  }
  CHECK(files_in(deep) == 2);
  CHECK(read_text(deep / "two") == "2");
}

TEST_CASE("of files one of which cannot have its name none is left, and those before are kept") {
  const TemporaryFolder folder;
  std::ofstream(folder / "old") << "old";
  FilesTogether files(false);
  CHECK_THROWS_AS(files.add(folder / "old", "new"), OutputError);
  files.add(folder / "one", "1");
  files.add(folder / "two", "2");
  std::ofstream(folder / "two") << "came up meanwhile";
  CHECK_THROWS_AS(files.publish(), OutputError);
  CHECK(!std::filesystem::exists(folder / "one"));
  CHECK(read_text(folder / "two") == "came up meanwhile");
  CHECK(read_text(folder / "old") == "old");
}

TEST_CASE("files that were to be replaced are there again where a later one cannot have its name") {
  const TemporaryFolder folder;
  for (const char* name : {"one", "two", "three"}) std::ofstream(folder / name) << "old";
  std::filesystem::create_symlink(folder / "one", folder / "link");
  {
    FilesTogether files(true);
    for (const char* name : {"link", "new", "two", "three"}) files.add(folder / name, "new");
    std::string cause;
    SECTION("as something else has the name") {
      std::filesystem::remove(folder / "three");
      std::filesystem::create_directory(folder / "three");
      cause = "three: something of that name has come up meanwhile";
    }
    SECTION("as the finished file is gone") {
      std::filesystem::remove(folder / "three.partial");
      cause = "three: cannot rename " + (folder / "three.partial").string() +
              " to it: No such file or directory";
    }
    std::string said;
    try {
      files.publish();
    } catch (const OutputError& error) {
      said = error.what();
    }
    CHECK_THAT(said, Contains(cause) && Contains("no file of this run was kept"));
  }
  CHECK(read_text(folder / "one") == "old");
  CHECK(read_text(folder / "two") == "old");
  CHECK((std::filesystem::is_directory(folder / "three") || read_text(folder / "three") == "old"));
  CHECK(std::filesystem::is_symlink(folder / "link"));
  CHECK(files_in(folder / "") == 4);
  {
    FilesTogether files(true);
    files.add(folder / "link", "new");
    files.add(folder / "two", "new");
    files.publish();
  }
  CHECK(read_text(folder / "one") == "new");
  CHECK(read_text(folder / "two") == "new");
  CHECK(std::filesystem::is_symlink(folder / "link"));
  CHECK(files_in(folder / "") == 4);
}

TEST_CASE("a report whose figures do not all fit on the disk leaves nothing there") {
  const SmallDisk disk(1);
  if (!disk.ready()) return;
  const Bench bench;
  REQUIRE(bench.simulate("--policy local,h2o --budget 10%,50% --out '" + bench.path("r.h5") + "'")
              .exit_code == 0);
  const auto command = "report '" + bench.path("r.h5") + "' --svg '" + (disk / "figures").string();
  REQUIRE(run_kvreplay(command + "'").exit_code == 0);
  REQUIRE(files_in(disk / "figures") > 4);
  std::filesystem::remove_all(disk / "figures");
  disk.fill(40'000);  // enough for some
  const auto run = run_kvreplay(command + "/here'");
  CHECK(run.exit_code == 4);
  CHECK_THAT(run.err, Contains(".svg.partial: cannot write the file: the disk is full"));
  CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
  CHECK(!std::filesystem::exists(disk / "figures"));
}

TEST_CASE("places of a report that cannot all be are refused up front in a sentence") {
  const Bench bench;
  REQUIRE(
      bench.simulate("--policy local --budget 10% --out '" + bench.path("r.h5") + "'").exit_code ==
      0);
  const auto at = [&](const std::string& name) { return "'" + bench.path(name) + "' "; };
  const auto refused = [&](const std::string& options, const std::string& said) {
    CAPTURE(options);
    const auto run = run_kvreplay("report " + at("r.h5") + "--overwrite " + options);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.err, Contains(said));
    CHECK(!std::filesystem::exists(bench.path("x")));
  };
  refused("--out " + at("x") + "--svg " + at("x"), "is the same file as --svg");
  refused("--out " + at("x") + "--svg " + at("./x//"), "is the same file as --svg");
  refused("--out " + at("x") + "--svg " + at("x/y/z"), "which is the page, a file");
  refused("--svg ''", "--svg needs the name of a folder");
  refused("--out ''", "--out needs a file name");
  refused("--svg " + at("r.h5"), "--svg " + bench.path("r.h5") + " is the same file as");
  // A page among its figures is fine, also where the folder is yet to be made.
  const auto run =
      run_kvreplay("report " + at("r.h5") + "--out " + at("x/r.html") + "--svg " + at("x"));
  INFO(run.err);
  CHECK(run.exit_code == 0);
  CHECK(std::filesystem::exists(bench.path("x/r.html")));
  const auto twice = run_kvreplay("report " + at("r.h5") + "--out " +
                                  at("y/t.h5-head-mass_loss-over-budget.svg") + "--svg " + at("y"));
  CHECK(twice.exit_code == 2);
  CHECK_THAT(twice.err, Contains("would be written twice"));
  CHECK(!std::filesystem::exists(bench.path("y")));
}

}  // namespace kvreplay::testing
