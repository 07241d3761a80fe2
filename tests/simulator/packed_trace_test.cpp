// Traces whose rows HDF5 has to unpack against the same rows mapped from the file.
#include <hdf5.h>

#include <catch2/catch.hpp>
#include <cstddef>

#include "paths.hpp"
#include "simulator/replay.hpp"
#include "simulator/sets_log.hpp"
#include "stepper.hpp"
#include "traces/hdf5.hpp"
#include "traces/synth.hpp"
#include "traces/trace_reader.hpp"

namespace kvreplay::testing {
namespace {

using hdf5::Handle;

/// Stores a dataset of two dimensions anew, in chunks of `chunk` values of one of its rows,
/// deflated where `level` is above 0.
void pack(const std::filesystem::path& path, const char* name, hsize_t chunk, unsigned level) {
  const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
  std::vector<std::byte> values;
  Handle type;
  Handle space;
  {
    const Handle dataset(H5Dopen(file.id(), name, H5P_DEFAULT), H5Dclose);
    type = Handle(H5Dget_type(dataset.id()), H5Tclose);
    space = Handle(H5Dget_space(dataset.id()), H5Sclose);
    values.resize(H5Dget_storage_size(dataset.id()));
    REQUIRE(!values.empty());
    REQUIRE(H5Dread(dataset.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
  }
  const Handle storage(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  const std::array<hsize_t, 2> chunks{1, chunk};
  REQUIRE(H5Pset_chunk(storage.id(), 2, chunks.data()) >= 0);
  if (level > 0) REQUIRE(H5Pset_deflate(storage.id(), level) >= 0);
  REQUIRE(H5Ldelete(file.id(), name, H5P_DEFAULT) >= 0);
  const Handle dataset(
      H5Dcreate(file.id(), name, type.id(), space.id(), H5P_DEFAULT, storage.id(), H5P_DEFAULT),
      H5Dclose);
  REQUIRE(H5Dwrite(dataset.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
}

struct Replayed {
  std::vector<double> means;
  std::string sets;
};

Replayed replayed(const std::filesystem::path& path, unsigned threads) {
  const TraceReader rows(path);
  auto request = request_for("h2o,tova,local,h2o-mean", "5,40,100");
  const auto plan = plan_replay(rows.info(), "t", request);
  SetsLog sets(plan);
  const auto outcome = replay(rows, plan, threads, {}, &sets);
  Replayed result{{}, sets.text()};
  for (const auto& summary : outcome.units) {
    for (const auto& metric : summary) result.means.push_back(metric.mean);
  }
  return result;
}

TEST_CASE("rows in chunks, compressed or not, replay as rows that are mapped") {
  const TemporaryFolder folder;
  SynthOptions options;
  options.tokens = 130;
  options.heads = 3;
  options.encoding = GENERATE(Encoding::fp32, Encoding::fp16);
  synthesize(options, folder / "mapped.h5", true);
  std::filesystem::copy_file(folder / "mapped.h5", folder / "packed.h5");
  const auto level = GENERATE(0U, 4U);
  pack(folder / "packed.h5", "/layers/0/rows", 100, level);
  const auto mapped = replayed(folder / "mapped.h5", 1);
  REQUIRE(!mapped.means.empty());
  for (const unsigned threads : {1U, 2U}) {
    const auto packed = replayed(folder / "packed.h5", threads);
    CHECK(packed.means == mapped.means);
    CHECK(packed.sets == mapped.sets);
  }
}

}  // namespace
}  // namespace kvreplay::testing
