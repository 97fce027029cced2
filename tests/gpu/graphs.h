#pragma once

#include <utility>

#include "lib/base/gpu/driver.h"
#include "tests/gpu/program_calls.h"

namespace tutti::testing {

/// What was captured from a stream, ready to be launched.
class CapturedGraph {
 public:
  /// `body()` gives commands to `stream`, of the current context.
  template <class Body>
  CapturedGraph(Stream stream, CaptureMode mode, const Body& body) {
    Graph graph = nullptr;
    require("cuStreamBeginCapture", program_calls().cuStreamBeginCapture(stream, mode));
    try {
      body();
    } catch (...) {
      (void)program_calls().cuStreamEndCapture(stream, &graph);
      if (graph != nullptr) (void)program_calls().cuGraphDestroy(graph);
      throw;
    }
    require("cuStreamEndCapture", program_calls().cuStreamEndCapture(stream, &graph));
    const Result result = program_calls().cuGraphInstantiateWithFlags(&exec_, graph, 0);
    (void)program_calls().cuGraphDestroy(graph);
    require("cuGraphInstantiateWithFlags", result);
  }
  CapturedGraph(CapturedGraph&& other) noexcept : exec_(std::exchange(other.exec_, nullptr)) {}
  CapturedGraph& operator=(CapturedGraph&& other) noexcept {
    std::swap(exec_, other.exec_);
    return *this;
  }
  ~CapturedGraph() {
    if (exec_ != nullptr) (void)program_calls().cuGraphExecDestroy(exec_);
  }

  void launch(Stream stream) const { require("cuGraphLaunch", program_calls().cuGraphLaunch(exec_, stream)); }

 private:
  static void require(const char* function, Result result) {
    if (result != Result::success) cuda::fail(function, result);
  }
  GraphExec exec_ = nullptr;
};

}  // namespace tutti::testing
