#include "interrupts.h"

#include <tutti/c.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "communicator.h"
#include "errors.h"

namespace tutti_torch {
namespace {

namespace py = pybind11;

// A plain pointer: a thread that ends with one must not need Python for that.
thread_local py::error_already_set* interrupt = nullptr;

/// Handlers run in the main thread only, so that no other one asks for Python's lock.
std::int32_t ask(void* /*context*/) {
  if (::gettid() != ::getpid() || process_ends() || !Py_IsInitialized()) return 0;
  const py::gil_scoped_acquire python;
  if (PyErr_Occurred() || PyErr_CheckSignals() == 0) return 0;
  delete std::exchange(interrupt, new py::error_already_set);
  return 1;
}

}  // namespace

void ask_python() { check(tutti_set_wait_hook(ask, nullptr)); }

void handle_signals() {
  if (ask(nullptr) != 0) rethrow_interrupt();
}

void rethrow_interrupt() {
  if (!interrupt) [[likely]]
    return;
  const std::unique_ptr<py::error_already_set> last{std::exchange(interrupt, nullptr)};
  throw py::error_already_set{*last};
}

void in_destructor(const std::function<void()>& wait) noexcept {
  const WithoutPython waiting;
  try {
    wait();
  } catch (py::error_already_set& raised) {
    const py::gil_scoped_acquire python;
    raised.discard_as_unraisable("a process group that is dropped");
  }
}

py::object take_interrupt() {
  const std::unique_ptr<py::error_already_set> last{std::exchange(interrupt, nullptr)};
  if (!last) return py::none();
  if (last->trace()) PyException_SetTraceback(last->value().ptr(), last->trace().ptr());
  return last->value();
}

}  // namespace tutti_torch
