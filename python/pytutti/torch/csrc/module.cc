// The module that Python loads.

#include <pybind11/chrono.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <exception>
#include <set>
#include <vector>

#include "backend.h"
#include "completions.h"
#include "interrupts.h"
#include "living.h"
#include "store.h"
#include "torch_version.h"

namespace tutti_torch {
namespace {

namespace py = pybind11;
using std::chrono::milliseconds;

void register_options(py::module_& module) {
  py::class_<Settings>(module, "Settings")
      .def(py::init<>())
      .def_readwrite("transport", &Settings::transport)
      .def_readwrite("tuning_file", &Settings::tuning_file)
      .def_readwrite("plan_file", &Settings::plan_file)
      .def_readwrite("lost_after", &Settings::lost_after)
      .def_readwrite("deterministic", &Settings::deterministic)
      .def_readwrite("tls", &Settings::tls);

  py::class_<OwnOptions, c10d::Backend::Options, c10::intrusive_ptr<OwnOptions>>(module, "BackendOptions")
      .def("__deepcopy__",
           [](const OwnOptions& self, const py::object& /*memo*/) { return c10::make_intrusive<OwnOptions>(self); });
}

void register_store(py::module_& module) {
  py::class_<TuttiStore, c10d::Store, c10::intrusive_ptr<TuttiStore>> store(module, "Store");
  store.def(py::init([](int rank, int ranks, const std::string& rendezvous, const std::string& job,
                        const std::string& secret_file, bool tls, milliseconds timeout) {
              tutti_connect_options options{};
              options.rank = rank;
              options.ranks = ranks;
              options.rendezvous = rendezvous.empty() ? nullptr : rendezvous.c_str();
              options.job = job.c_str();
              options.secret_file = secret_file.c_str();
              options.tls = tls ? 1 : 0;
              return open_store(options, timeout);
            }),
            py::call_guard<py::gil_scoped_release>());
#if !TUTTI_TORCH_IS(2, 8)
  store.def("clone", &TuttiStore::clone, py::call_guard<py::gil_scoped_release>());
  store.def(
      "queue_push",
      [](TuttiStore& self, const std::string& name, const std::string& value) {
        self.queuePush(name, TuttiStore::Bytes(value.begin(), value.end()));
      },
      py::arg("key"), py::arg("value"), py::call_guard<py::gil_scoped_release>());
  store.def(
      "queue_pop",
      [](TuttiStore& self, const std::string& name, bool block) {
        const TuttiStore::Bytes value = [&] {
          const py::gil_scoped_release others_run;
          return self.queuePop(name, block);
        }();
        return py::bytes(reinterpret_cast<const char*>(value.data()), value.size());
      },
      py::arg("key"), py::arg("block") = true);
  store.def("queue_len", &TuttiStore::queueLen, py::arg("key"), py::call_guard<py::gil_scoped_release>());
#endif
#if !TUTTI_TORCH_IS(2, 10)
  store.def("list_keys", &TuttiStore::listKeys, py::call_guard<py::gil_scoped_release>());
#endif
}

}  // namespace
}  // namespace tutti_torch

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  using namespace tutti_torch;
  module.attr("tutti_version") = tutti_version();

  register_options(module);
  py::class_<TuttiBackend, c10d::Backend, c10::intrusive_ptr<TuttiBackend>>(module, "TuttiBackend")
      .def_property_readonly("options", &TuttiBackend::getBackendOptions)  // torch.distributed sets some of Gloo's
      // With init_process_group(device_id=...) ranks that are not in a new group call it, as NCCL needs.
      .def("perform_nocolor_split", [](TuttiBackend&, const py::object& /*device*/) {})
#if !TUTTI_TORCH_IS(2, 7)
      .def("abort", &TuttiBackend::abort, py::call_guard<py::gil_scoped_release>())
      .def("shutdown", &TuttiBackend::shutdown, py::call_guard<py::gil_scoped_release>())
#endif
      .def(
          "monitored_barrier",
          [](TuttiBackend& self, milliseconds timeout, bool wait_all_ranks) {
            c10d::BarrierOptions options;
            options.timeout = timeout;
            self.monitoredBarrier(options, wait_all_ranks);
          },
          py::arg("timeout"), py::arg("wait_all_ranks") = false, py::call_guard<py::gil_scoped_release>());

  register_store(module);
  module.def(
      "meet",
      [](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, milliseconds timeout,
         const std::string& name, const Settings& settings) {
        return Living::all().add(c10::make_intrusive<TuttiBackend>(store, rank, size, timeout, name, settings));
      },
      py::call_guard<py::gil_scoped_release>());
  module.def(
      "sub_group",
      [](TuttiBackend& parent, const std::vector<int>& ranks, milliseconds timeout, const std::string& name) {
        return Living::all().add(c10::make_intrusive<TuttiBackend>(parent, ranks, timeout, name));
      },
      py::call_guard<py::gil_scoped_release>());
  module.def("ask_python", &ask_python);
  module.def("ask_other_threads_by", &ask_other_threads_by);
  module.def("take_interrupt", &take_interrupt);
  module.def("has_interrupt", &has_interrupt);
  module.def(
      "end",
      [](bool has_failed) {
        const std::exception_ptr interrupt = has_failed ? nullptr : Living::all().await_streams();
        begin_end_of_process();
        Living::all().close();
        Completions::all().stop();
        if (interrupt) std::rethrow_exception(interrupt);
      },
      py::arg("has_failed"), py::call_guard<py::gil_scoped_release>());
}
