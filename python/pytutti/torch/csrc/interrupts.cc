#include "interrupts.h"

#include <tutti/c.h>
#include <unistd.h>

#include <atomic>
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

std::atomic<tutti_wait_function> question_for_other_threads{nullptr};

/// Handlers run in the main thread only, so that no other one asks for Python's lock unless it has to.
std::int32_t ask(void* context) {
  if (process_ends() || !Py_IsInitialized()) return 0;
  if (::gettid() != ::getpid()) {
    const tutti_wait_function question = question_for_other_threads;
    return question ? question(context) : 0;
  }
  const py::gil_scoped_acquire python;
  if (PyErr_Occurred() || PyErr_CheckSignals() == 0) return 0;
  delete std::exchange(interrupt, new py::error_already_set);
  return 1;
}

}  // namespace

void ask_python() { check(tutti_set_wait_hook(ask, nullptr)); }

void ask_other_threads_by(std::uintptr_t function) {
  question_for_other_threads = reinterpret_cast<tutti_wait_function>(function);
}

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

bool has_interrupt() noexcept { return interrupt != nullptr; }

py::object take_interrupt() {
  const std::unique_ptr<py::error_already_set> last{std::exchange(interrupt, nullptr)};
  if (!last) return py::none();
  if (last->trace()) PyException_SetTraceback(last->value().ptr(), last->trace().ptr());
  return last->value();
}

}  // namespace tutti_torch
