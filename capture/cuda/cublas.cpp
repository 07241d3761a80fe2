#include "capture/cuda/cublas.hpp"

#include <cublas_v2.h>
#include <dlfcn.h>

namespace kvreplay::cuda {
namespace {

#define KVREPLAY_TEXT_OF(value) #value
#define KVREPLAY_TEXT(value) KVREPLAY_TEXT_OF(value)
/// The library whose header this was compiled with, by the name that all of its major version have.
constexpr const char* kLibrary = "libcublas.so." KVREPLAY_TEXT(CUBLAS_VER_MAJOR);

/// Null where there is none; stays open, as its threads may outlive what used it.
void* library() {
  static void* const opened = [] {
    void* found = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    // Where it was when this was compiled, if that is not among the system's own folders.
    return found != nullptr ? found : dlopen(KVREPLAY_CUBLAS, RTLD_NOW | RTLD_LOCAL);
  }();
  return opened;
}

template <class Function>
void find(Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(dlsym(library(), name));
  if (function == nullptr) throw Error(std::string(kLibrary) + " has no " + name);
}

}  // namespace

std::string why_no_cublas() {
  if (library() != nullptr) return {};
  return std::string(kLibrary) + " is not installed";
}

struct Cublas::State {
  decltype(cublasCreate_v2)* create = nullptr;
  decltype(cublasDestroy_v2)* destroy = nullptr;
  decltype(cublasSetStream_v2)* set_stream = nullptr;
  decltype(cublasSetMathMode)* set_math_mode = nullptr;
  decltype(cublasSgemm_v2)* sgemm = nullptr;
  decltype(cublasGetStatusString)* status_string = nullptr;
  cublasHandle_t handle = nullptr;

  void check(cublasStatus_t status, const char* doing) const {
    if (status != CUBLAS_STATUS_SUCCESS)
      throw Error(std::string("cuBLAS, ") + doing + ": " + status_string(status));
  }
};

Cublas::Cublas(Stream stream) : state_(std::make_unique<State>()) {
  if (const std::string none = why_no_cublas(); !none.empty()) throw Error(none);
  State& s = *state_;
  find(s.create, "cublasCreate_v2");
  find(s.destroy, "cublasDestroy_v2");
  find(s.set_stream, "cublasSetStream_v2");
  find(s.set_math_mode, "cublasSetMathMode");
  find(s.sgemm, "cublasSgemm_v2");
  find(s.status_string, "cublasGetStatusString");
  s.check(s.create(&s.handle), "starting");
  try {
    s.check(s.set_stream(s.handle, stream), "choosing a stream");
    s.check(s.set_math_mode(s.handle, CUBLAS_PEDANTIC_MATH), "asking for plain fp32");
  } catch (...) {
    s.destroy(s.handle);
    throw;
  }
}

Cublas::~Cublas() {
  state_->destroy(state_->handle);
}

void Cublas::multiply(const Matrix& weight, Activations x, std::uint32_t tokens, Activations y,
                      Store store) const {
  // Column-major, as cuBLAS has it: a row-major weight [out, in] is its own transpose, and tokens
  // are columns.
  const float one = 1;
  const float keep = store == Store::add ? 1 : 0;
  const State& s = *state_;
  s.check(s.sgemm(s.handle, CUBLAS_OP_T, CUBLAS_OP_N, static_cast<int>(weight.out),
                  static_cast<int>(tokens), static_cast<int>(weight.in), &one, weight.data,
                  static_cast<int>(weight.in), x.data, static_cast<int>(x.stride), &keep, y.data,
                  static_cast<int>(y.stride)),
          "multiplying with a weight");
}

}  // namespace kvreplay::cuda
