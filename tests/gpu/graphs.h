#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <utility>

#include "lib/base/gpu/commands.h"
#include "lib/base/gpu/driver.h"

namespace tutti::testing {

using cuda::CaptureMode;
using cuda::Device;
using cuda::Graph;
using cuda::Result;
using cuda::Stream;
using GraphExec = void*;

/// The functions by which programs make graphs, which the library does not call.
struct GraphCalls {
#define TUTTI_DRIVER_FUNCTION(name, version, ...) \
  Result (*name)(__VA_ARGS__) = find<Result (*)(__VA_ARGS__)>(#name, version);
#include "tests/support/fake_cuda/graph_functions.inc"
#undef TUTTI_DRIVER_FUNCTION

 private:
  template <class Pointer>
  static Pointer find(const char* name, int version) {
    using Get = Result (*)(const char*, void**, int, std::uint64_t, int*);
    void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    const auto get = reinterpret_cast<Get>(::dlsym(library, "cuGetProcAddress_v2"));
    void* found = nullptr;
    if (const Result result = get(name, &found, version, 1, nullptr); result != Result::success)
      cuda::fail(name, result);
    return reinterpret_cast<Pointer>(found);
  }
};
inline const GraphCalls& graph_calls() {
  static const GraphCalls calls;
  return calls;
}

/// What was captured from a stream, ready to be launched.
class CapturedGraph {
 public:
  /// `body()` gives commands to `stream`, of the current context.
  template <class Body>
  CapturedGraph(Stream stream, CaptureMode mode, const Body& body) {
    Graph graph = nullptr;
    require("cuStreamBeginCapture", graph_calls().cuStreamBeginCapture(stream, mode));
    try {
      body();
    } catch (...) {
      (void)graph_calls().cuStreamEndCapture(stream, &graph);
      if (graph != nullptr) (void)graph_calls().cuGraphDestroy(graph);
      throw;
    }
    require("cuStreamEndCapture", graph_calls().cuStreamEndCapture(stream, &graph));
    const Result result = graph_calls().cuGraphInstantiateWithFlags(&exec_, graph, 0);
    (void)graph_calls().cuGraphDestroy(graph);
    require("cuGraphInstantiateWithFlags", result);
  }
  CapturedGraph(CapturedGraph&& other) noexcept : exec_(std::exchange(other.exec_, nullptr)) {}
  CapturedGraph& operator=(CapturedGraph&& other) noexcept {
    std::swap(exec_, other.exec_);
    return *this;
  }
  ~CapturedGraph() {
    if (exec_ != nullptr) (void)graph_calls().cuGraphExecDestroy(exec_);
  }

  void launch(Stream stream) const { require("cuGraphLaunch", graph_calls().cuGraphLaunch(exec_, stream)); }

 private:
  static void require(const char* function, Result result) {
    if (result != Result::success) cuda::fail(function, result);
  }
  GraphExec exec_ = nullptr;
};

}  // namespace tutti::testing
