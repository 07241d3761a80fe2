// Tiny random models of every architecture, as folders and as GGUF, on both runtimes, against what
// transformers computed of them: tests/data/architectures/README.md.
#include "capture/architectures.hpp"

#include <catch2/catch.hpp>
#include <cstring>
#include <set>

#include "capture/hugging_face_folder.hpp"
#include "cpu_device.hpp"
#include "device_model_suite.hpp"

namespace kvreplay::testing {
namespace {

std::filesystem::path fixtures() {
  return test_data() / "architectures";
}

std::vector<std::string> fixture_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(fixtures()))
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// What transformers gave: ids, rows [layer][head][query][key], logits [token][vocabulary].
struct Reference {
  explicit Reference(const std::filesystem::path& folder) : file(folder / "reference.safetensors") {
    for (const std::int32_t id : numbers<std::int32_t>("ids"))
      ids.push_back(static_cast<std::uint32_t>(id));
    rows = numbers<float>("rows");
    logits = numbers<float>("logits");
  }

  template <class Number>
  std::vector<Number> numbers(const std::string& name) const {
    for (const SafetensorsEntry& entry : file.entries())
      if (entry.name == name) {
        std::vector<Number> values(entry.data.size() / sizeof(Number));
        std::memcpy(values.data(), entry.data.data(), entry.data.size());
        return values;
      }
    throw std::logic_error("the reference has no " + name);
  }

  SafetensorsFile file;
  std::vector<std::uint32_t> ids;
  std::vector<float> rows;
  std::vector<float> logits;
};

void check(Model& model, const Reference& reference, std::uint32_t prefilled) {
  const RunOfModel run = run_of(model, reference.ids, prefilled);
  CHECK(run.rows.padding_is_zero());
  CHECK(largest_difference(run.rows.values(), reference.rows) < 1e-5);
  CHECK(largest_difference(run.logits, reference.logits) < 1e-4);
}

/// In one chunk, in several and token by token; on a device likewise.
void check_both_runtimes(const TensorSource& source, const ModelConfig& config,
                         const Reference& reference) {
  for (const std::uint32_t chunk : {64U, 7U, 1U}) {
    CAPTURE(chunk);
    CpuModel cpu(source, config, {.threads = 2, .chunk = chunk});
    check(cpu, reference, 20);
  }
  for (const std::uint32_t prefilled : {20U, 3U}) {
    CAPTURE(prefilled);
    cuda::DeviceModel<CpuDevice> device(source, config, std::make_shared<CpuDevice>(), kNoLimit);
    check(device, reference, prefilled);
  }
}

}  // namespace

TEST_CASE("every architecture has a fixture") {
  std::set<std::string> found;
  for (const std::string& name : fixture_names())
    found.insert(HuggingFaceFolder(fixtures() / name).config().architecture);
  for (const Architecture& architecture : architectures())
    CHECK(found.contains(std::string(architecture.name)));
}

TEST_CASE("folders of all architectures: rows and logits as from transformers") {
  const std::string name = GENERATE(from_range(fixture_names()));
  CAPTURE(name);
  const HuggingFaceFolder folder(fixtures() / name);
  check_both_runtimes(folder, folder.config(), Reference(fixtures() / name));
}

TEST_CASE("learned positions end where the model's table does") {
  const std::string name = GENERATE("gpt2", "opt");
  CAPTURE(name);
  const HuggingFaceFolder folder(fixtures() / name);
  CpuModel cpu(folder, folder.config(), {});
  cuda::DeviceModel<CpuDevice> device(folder, folder.config(), std::make_shared<CpuDevice>(),
                                      kNoLimit);
  for (Model* model : {static_cast<Model*>(&cpu), static_cast<Model*>(&device)}) {
    model->start(64, nullptr);
    CHECK_THROWS_AS(model->start(65, nullptr), std::invalid_argument);
    CHECK_THROWS_WITH(
        model->start(65, nullptr),
        Catch::Matchers::Contains("65 tokens is longer than the model's table of 64"));
  }
}

TEST_CASE("the same models as GGUF: rows and logits as from transformers") {
  std::uint32_t checked = 0;
  for (const std::string& name : fixture_names()) {
    const auto path = fixtures() / name / "model.gguf";
    if (!std::filesystem::exists(path)) continue;
    CAPTURE(name);
    const GgufFile file(path);
    const Reference reference(fixtures() / name);
    check_both_runtimes(file, read_gguf_config(file), reference);
    const HuggingFaceFolder folder(fixtures() / name);
    CpuModel of_file(file, read_gguf_config(file), {});
    CpuModel of_folder(folder, folder.config(), {});
    CHECK(largest_difference(run_of(of_file, reference.ids, 20).rows.values(),
                             run_of(of_folder, reference.ids, 20).rows.values()) < 5e-6);
    ++checked;
  }
  CHECK(checked == 8);
}

}  // namespace kvreplay::testing
