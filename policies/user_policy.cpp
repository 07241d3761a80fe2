#include "policies/user_policy.hpp"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <fstream>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "policies/kvreplay_policy.h"
#include "policies/parts.hpp"
#include "policies/registry.hpp"

namespace kvreplay {
namespace {

/// The library that this thread is in; null: none. Ends before a call's exceptions are looked at.
thread_local const std::string* in_call = nullptr;

class InCall {
 public:
  explicit InCall(const std::string& library) : before_(std::exchange(in_call, &library)) {}
  ~InCall() { in_call = before_; }
  InCall(const InCall&) = delete;
  InCall& operator=(const InCall&) = delete;

 private:
  const std::string* before_;
};

/// Makes a call into a library; an exception that comes out of it is the library's fault.
template <class Call>
auto call_library(const std::string& library, const char* function, Call call) {
  std::string thrown = "something that is no std::exception";
  try {
    const InCall here(library);
    return call();
  } catch (const std::exception& error) {
    thrown = "an exception: " + std::string(error.what());
  } catch (...) {  // NOLINT(bugprone-empty-catch): there is no text to it
  }
  throw std::invalid_argument("policy library " + library + ": " + function + "() threw " + thrown +
                              "; catch it in the library");
}

/// What the destroy() of libraries threw: objects go where nothing may be thrown.
class DestroyFaults {
 public:
  void add(const std::string& fault) {
    const std::scoped_lock lock(mutex_);
    if (first_.empty()) first_ = fault;
  }
  void throw_first() {
    const std::scoped_lock lock(mutex_);
    if (!first_.empty()) throw std::invalid_argument(std::exchange(first_, {}));
  }

 private:
  std::mutex mutex_;
  std::string first_;
};

DestroyFaults& destroy_faults() {
  static DestroyFaults faults;
  return faults;
}

/// A policy's answers are another author's: they are checked here, where the library can be named.
class UserPolicy final : public CachePolicy {
 public:
  UserPolicy(const kvreplay_policy& policy, std::string library, void* state, Traits traits)
      : CachePolicy(std::move(traits)),
        policy_(policy),
        library_(std::move(library)),
        state_(state) {}
  ~UserPolicy() override {
    try {
      call_library(library_, "destroy", [&] { policy_.destroy(state_); });
    } catch (const std::exception& fault) {
      destroy_faults().add(fault.what());
    }
  }
  UserPolicy(const UserPolicy&) = delete;
  UserPolicy& operator=(const UserPolicy&) = delete;

  void observe(const Held& held, std::span<const double> weights) override {
    call_library(library_, "observe", [&] {
      policy_.observe(state_, held.step, held.tokens.data(), weights.data(),
                      static_cast<std::uint32_t>(weights.size()));
    });
  }
  std::optional<Slot> victim(const Held& held) override {
    const auto count = static_cast<std::uint32_t>(held.tokens.size());
    if (count <= traits().capacity) return std::nullopt;
    const std::uint32_t slot = call_library(library_, "victim", [&] {
      return policy_.victim(state_, held.step, held.tokens.data(), count);
    });
    if (slot >= count) {
      throw std::invalid_argument(
          "policy library " + library_ + ": policy " + policy_.name + " evicts position " +
          std::to_string(slot) + " of the " + std::to_string(count) + " tokens held at step " +
          std::to_string(held.step) + "; victim() must answer 0 to " + std::to_string(count - 1));
    }
    return Slot{slot};
  }
  void dropped(Slot) override {}

 private:
  const kvreplay_policy& policy_;
  std::string library_;
  void* state_;
};

RowForm row_form(std::uint32_t rows) {
  switch (rows) {
    case KVREPLAY_ROWS_RAW:
      return RowForm::raw;
    case KVREPLAY_ROWS_RENORMALISED:
      return RowForm::renormalised;
    default:
      return RowForm::none;
  }
}

std::unique_ptr<CachePolicy> make(const kvreplay_policy& policy, const std::string& library,
                                  const Arguments& arguments, const Setting& setting) {
  check_policy_libraries();
  std::vector<double> values;
  Traits traits{.capacity = setting.budget.tokens, .rows = row_form(policy.rows)};
  for (std::uint32_t i = 0; i < policy.parameter_count; ++i) {
    const kvreplay_parameter& parameter = policy.parameters[i];
    values.push_back(arguments.real(parameter.name, parameter.otherwise));
    traits.parameters +=
        (i == 0 ? "" : ":") + std::string(parameter.name) + "=" + number_text(values.back());
  }
  const kvreplay_setting given{.budget = setting.budget.tokens,
                               .tokens = setting.tokens,
                               .prompt_tokens = setting.prompt_tokens,
                               .layer = setting.layer,
                               .unit = setting.unit,
                               .heads = setting.heads};
  std::array<char, 512> error{};
  void* const state = call_library(library, "create", [&] {
    return policy.create(&given, values.data(), error.data(), error.size());
  });
  if (state == nullptr) {
    error.back() = '\0';
    const std::string why(error.data());
    throw std::invalid_argument("policy " + std::string(policy.name) + " (" + library +
                                "): " + (why.empty() ? "it could not be created" : why));
  }
  return std::make_unique<UserPolicy>(policy, library, state, std::move(traits));
}

/// What is wrong with the policy's parameter at `place`; empty: nothing.
std::string fault(const kvreplay_policy& policy, std::uint32_t place) {
  const kvreplay_parameter& parameter = policy.parameters[place];
  if (parameter.name == nullptr) return "a parameter of its policy has no name";
  const std::string_view name = parameter.name;
  if (name.empty() || name.find_first_of(":=,+ \t\n") != std::string_view::npos) {
    return "its parameter \"" + std::string(name) +
           "\" needs a name without spaces and without : = , +";
  }
  for (std::uint32_t other = 0; other < place; ++other) {
    if (name == policy.parameters[other].name) {
      return "its policy has two parameters " + std::string(name);
    }
  }
  // Not so for any that is not a number either.
  if (!(parameter.least <= parameter.otherwise && parameter.otherwise <= parameter.most)) {
    return "its parameter " + std::string(name) + " is not least <= otherwise <= most";
  }
  return "";
}

/// What is wrong with a policy's description; empty: nothing.
std::string fault(const kvreplay_policy* policy) {
  if (policy == nullptr) return "kvreplay_policy_entry() gives no policy";
  if (policy->abi != KVREPLAY_POLICY_ABI) {
    return "it was built for version " + std::to_string(policy->abi) +
           " of the policy ABI, and this program has version " +
           std::to_string(KVREPLAY_POLICY_ABI) + "; rebuild it with this kvreplay_policy.h";
  }
  const std::string_view name = policy->name == nullptr ? "" : policy->name;
  const bool named =
      !name.empty() &&
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_") == std::string_view::npos;
  if (!named) return "its policy needs a name of lower-case letters, digits, - and _";
  if (policy->rows > KVREPLAY_ROWS_RENORMALISED) return "its rows are none of KVREPLAY_ROWS_...";
  if (policy->create == nullptr || policy->victim == nullptr || policy->destroy == nullptr) {
    return "its policy lacks create, victim or destroy";
  }
  if (policy->rows != KVREPLAY_ROWS_NONE && policy->observe == nullptr) {
    return "its policy wants rows but lacks observe";
  }
  if (policy->parameter_count > 0 && policy->parameters == nullptr) {
    return "its policy counts parameters but lists none";
  }
  for (std::uint32_t i = 0; i < policy->parameter_count; ++i) {
    if (auto wrong = fault(*policy, i); !wrong.empty()) return wrong;
  }
  return "";
}

std::string or_empty(const char* text) {
  return text == nullptr ? "" : text;
}

/// Whether less is there of a library than its headers say: loading that would end the program.
/// What is no library of this machine is left to the system to refuse.
bool cut_short(const std::filesystem::path& library) {
  std::ifstream file(library, std::ios::binary);
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(library, error);
  ElfW(Ehdr) header;
  if (error || !file.read(reinterpret_cast<char*>(&header), sizeof header)) return false;
  const std::string_view magic(reinterpret_cast<const char*>(header.e_ident), SELFMAG);
  constexpr unsigned char kClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  if (magic != ELFMAG || header.e_ident[EI_CLASS] != kClass) return false;
  const auto beyond = [size](std::uint64_t offset, std::uint64_t bytes) {
    return offset > size || bytes > size - offset;
  };
  if (beyond(header.e_shoff, std::uint64_t{header.e_shnum} * header.e_shentsize)) return true;
  file.seekg(static_cast<std::streamoff>(header.e_phoff));
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    ElfW(Phdr) part;
    if (!file.read(reinterpret_cast<char*>(&part), sizeof part)) return true;
    if (part.p_type == PT_LOAD && beyond(part.p_offset, part.p_filesz)) return true;
  }
  return false;
}

}  // namespace

std::string load_policy_library(const std::filesystem::path& library) {
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument("policy library " + library.string() + ": " + why);
  };
  if (library.empty()) refuse("a file name is needed");
  // Without a slash the system would look for it in its own folders.
  const std::string path = std::filesystem::absolute(library).string();
  if (cut_short(path)) refuse("the file is cut short or damaged; build it again");
  const std::string name = library.string();
  void* const loaded = [&] {
    const InCall here(name);  // its constructors run
    return ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  }();
  if (loaded == nullptr) refuse(or_empty(::dlerror()));
  using Entry = const kvreplay_policy* (*)();
  const auto entry = reinterpret_cast<Entry>(::dlsym(loaded, "kvreplay_policy_entry"));
  if (entry == nullptr) refuse("it does not define kvreplay_policy_entry()");
  const kvreplay_policy* const policy =
      call_library(library.string(), "kvreplay_policy_entry", entry);
  if (const auto wrong = fault(policy); !wrong.empty()) refuse(wrong);
  if (registered_policies().contains(std::string_view(policy->name))) {
    refuse("a policy is called " + std::string(policy->name) + " already");
  }
  if (registered_parts().contains(std::string_view(policy->name))) {
    refuse("a part of compositions is called " + std::string(policy->name) + " already");
  }
  PolicyEntry described{
      .name = policy->name,
      .summary = or_empty(policy->summary),
      .note = "from " + library.string(),
      .from_library = true,
      .make = CacheFactory(
          [policy, name = library.string()](const Arguments& arguments, const Setting& setting) {
            return make(*policy, name, arguments, setting);
          })};
  if (policy->rows != KVREPLAY_ROWS_NONE) described.needs = {Need::rows};
  for (std::uint32_t i = 0; i < policy->parameter_count; ++i) {
    const kvreplay_parameter& parameter = policy->parameters[i];
    described.parameters.push_back({.name = parameter.name,
                                    .meaning = or_empty(parameter.meaning),
                                    .kind = Parameter::Kind::real,
                                    .default_words = number_text(parameter.otherwise),
                                    .least = parameter.least,
                                    .most = parameter.most});
  }
  const Registration registration(std::move(described));
  return policy->name;
}

std::string policy_library_in_call() {
  return in_call == nullptr ? "" : *in_call;
}

void check_policy_libraries() {
  destroy_faults().throw_first();
}

}  // namespace kvreplay
