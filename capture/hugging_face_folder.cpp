#include "capture/hugging_face_folder.hpp"

#include <algorithm>
#include <set>

#include "capture/hugging_face_config.hpp"
#include "traces/errors.hpp"
#include "traces/input_file.hpp"
#include "traces/quoted.hpp"

namespace kvreplay {
namespace {

constexpr GgmlType kNoFloats{0xffffffff};

GgmlType type_of(const std::string& dtype) {
  if (dtype == "F32") return GgmlType::f32;
  if (dtype == "F16") return GgmlType::f16;
  if (dtype == "BF16") return GgmlType::bf16;
  return kNoFloats;
}

/// Without the family's prefix, of which the start may be missing: "model.decoder.", "decoder.",
/// "".
std::string_view without_prefix(std::string_view name, std::string_view prefix) {
  for (; !prefix.empty(); prefix.remove_prefix(prefix.find('.') + 1))
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  return name;
}

/// The part before .weight or .bias, and that ending.
std::pair<std::string_view, std::string_view> split_ending(std::string_view name) {
  const auto dot = name.rfind('.');
  if (dot == std::string_view::npos) return {name, {}};
  return {name.substr(0, dot), name.substr(dot)};
}

struct OurName {
  std::string name;
  Layout layout = Layout::as_is;
};

/// nullopt for a tensor that the family does not have.
std::optional<OurName> our_name(const TensorNames& names, std::string_view stored) {
  std::string_view rest = without_prefix(stored, names.prefix);
  std::string block;
  const std::vector<TensorName>* table = &names.of_model;
  if (rest.starts_with(names.layers)) {
    rest.remove_prefix(names.layers.size());
    const auto dot = rest.find('.');
    const std::string_view number = rest.substr(0, dot);
    if (dot == std::string_view::npos || number.empty() ||
        number.find_first_not_of("0123456789") != std::string_view::npos)
      return std::nullopt;
    block = "blk." + std::string(number) + ".";
    rest.remove_prefix(dot + 1);
    table = &names.of_layer;
  }
  const auto [stem, ending] = split_ending(rest);
  for (const TensorName& known : *table)
    if (known.safetensors == stem)
      return OurName{block + std::string(known.gguf) + std::string(ending), known.layout};
  return std::nullopt;
}

/// {576, 1536} of a list of dimensions as safetensors orders them.
std::string shape_text(std::vector<std::uint64_t> dims, Layout layout) {
  if (layout != Layout::transposed) std::reverse(dims.begin(), dims.end());
  if (layout == Layout::behind_two_rows) dims.front() += 2;
  return dims_text(dims);
}

}  // namespace

void HuggingFaceFolder::fail(const std::string& what) const {
  throw InputError(folder_.string() + ": " + what);
}

HuggingFaceFolder::HuggingFaceFolder(const std::filesystem::path& folder) : folder_(folder) {
  if (!may_be_there(folder / "config.json"))
    fail("has no config.json; give a model's folder as Hugging Face lays it out, or a GGUF file");
  const JsonFacts facts = JsonFacts::read(folder / "config.json");
  architecture_ =
      &architecture_of_model_type(facts.file() + ": model_type", facts.text({"model_type"}));
  config_ = read_hugging_face_config(facts, *architecture_);
  const auto absolute = std::filesystem::absolute(folder / "config.json").parent_path();
  config_.name = absolute.lexically_normal().filename().string();
  open_shards();
  for (const SafetensorsFile& shard : shards_)
    for (const SafetensorsEntry& entry : shard.entries()) take(shard, entry);
}

void HuggingFaceFolder::refuse_other_weights() const {
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json"})
    if (may_be_there(folder_ / name))
      fail("has its weights as " + std::string(name) +
           ", which is not read; save them as safetensors, by transformers: "
           "AutoModelForCausalLM.from_pretrained(FOLDER)"
           ".save_pretrained(FOLDER, safe_serialization=True)");
  fail(
      "has neither model.safetensors nor model.safetensors.index.json; weights in other forms "
      "are not read: save the model as safetensors");
}

void HuggingFaceFolder::open_shards() {
  const auto index = folder_ / "model.safetensors.index.json";
  const auto single = folder_ / "model.safetensors";
  if (!may_be_there(index)) {
    if (!may_be_there(single)) refuse_other_weights();
    shards_.emplace_back(single);
    return;
  }
  const JsonFacts facts = JsonFacts::read(index);
  const auto weights = facts.find({"weight_map"});
  if (weights == nullptr || !weights->is_object())
    facts.refuse("has no weight_map, which says where tensors are");
  std::map<std::string, std::set<std::string>> of_file;
  for (const auto& [name, file] : weights->items()) {
    const std::string plain = file.is_string() ? file.get<std::string>() : "";
    if (plain.empty() || std::filesystem::path(plain).filename() != plain)
      facts.refuse("weight_map gives no plain file name for tensor " + in_quotes(name));
    of_file[plain].insert(name);
  }
  for (auto& [file, names] : of_file) {
    if (!may_be_there(folder_ / file))
      facts.refuse("names the shard " + in_quotes(file) +
                   ", which is not in the folder; fetch it too");
    for (const SafetensorsEntry& entry : shards_.emplace_back(folder_ / file).entries())
      names.erase(entry.name);
    if (!names.empty())
      facts.refuse("says that tensor " + in_quotes(*names.begin()) + " is in " + in_quotes(file) +
                   ", which does not hold it");
  }
}

void HuggingFaceFolder::take(const SafetensorsFile& shard, const SafetensorsEntry& entry) {
  const TensorNames& names = *architecture_->names;
  for (const std::string_view ending : names.no_weights)
    if (entry.name.ends_with(ending)) return;
  const auto ours = our_name(names, entry.name);
  // A tied head is the embedding, whether or not it is stored a second time.
  if (ours && ours->name == "output.weight" && config_.tied) return;
  StoredTensor tensor;
  tensor.name = ours ? ours->name : entry.name;
  tensor.layout = ours ? ours->layout : Layout::as_is;
  tensor.dims.assign(entry.shape.rbegin(), entry.shape.rend());
  tensor.type = type_of(entry.dtype);
  tensor.data = entry.data;
  if (tensor.layout == Layout::transposed) tensor.dims = entry.shape;
  if (tensor.layout == Layout::behind_two_rows && entry.shape.size() == 2 && entry.shape[0] > 2) {
    tensor.data = tensor.data.subspan(2 * (entry.data.size() / entry.shape[0]));
    tensor.dims[1] -= 2;
  }
  if (!index_.emplace(tensor.name, tensors_.size()).second)
    throw InputError(shard.path().string() + ": tensor " + in_quotes(entry.name) +
                     " is there twice; the files are not of one model");
  tensors_.push_back(std::move(tensor));
  origins_.push_back({shard.path(), entry.name, entry.dtype});
}

std::vector<std::filesystem::path> HuggingFaceFolder::files() const {
  std::vector<std::filesystem::path> files = {folder_ / "config.json"};
  for (const SafetensorsFile& shard : shards_) files.push_back(shard.path());
  return files;
}

const StoredTensor* HuggingFaceFolder::find_tensor(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

std::string HuggingFaceFolder::stored_name(std::string_view name) const {
  const TensorNames& names = *architecture_->names;
  std::string start(names.prefix);
  const std::vector<TensorName>* table = &names.of_model;
  if (name.starts_with("blk.")) {
    name.remove_prefix(4);
    const auto dot = name.find('.');
    start += std::string(names.layers) + std::string(name.substr(0, dot)) + ".";
    name.remove_prefix(dot + 1);
    table = &names.of_layer;
  }
  const auto [stem, ending] = split_ending(name);
  for (const TensorName& known : *table)
    if (known.gguf == stem)
      return (stem == "output" ? "" : start) + std::string(known.safetensors) + std::string(ending);
  return std::string(name);
}

const StoredTensor& HuggingFaceFolder::tensor(std::string_view name,
                                              std::span<const std::uint64_t> dims) const {
  const StoredTensor* found = find_tensor(name);
  if (found == nullptr)
    fail("has no tensor " + in_quotes(stored_name(name)) +
         ", which config.json calls for; give a complete model");
  const Origin& origin = origins_[static_cast<std::size_t>(found - tensors_.data())];
  const auto refuse = [&](const std::string& what) {
    throw InputError(origin.file.string() + ": tensor " + in_quotes(origin.name) + " " + what);
  };
  if (!std::equal(dims.begin(), dims.end(), found->dims.begin(), found->dims.end()))
    refuse("has the shape " + shape_text(found->dims, found->layout) +
           " where config.json calls for " + shape_text({dims.begin(), dims.end()}, found->layout) +
           "; give files of one model");
  if (found->type == kNoFloats)
    refuse("is stored as " + origin.dtype + "; F32, F16 and BF16 are read");
  return *found;
}

}  // namespace kvreplay
