#include "lib/base/gpu/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "lib/base/fork_mark.h"
#include "tutti/error.h"

namespace tutti::cuda {
namespace {

constexpr const char* library_name = "libcuda.so.1";  // without the 1 it would be the stub of a toolkit
constexpr int least_version = 12000;                  // cuLibraryLoadData, cuGetProcAddress_v2
constexpr const char* instead_of_fork = "start ranks by exec, in Python by spawn";

using GetAddress = Result (*)(const char* name, void** function, int version, std::uint64_t flags, int* found);
constexpr std::uint64_t null_is_legacy_stream = 1;  // as in programs that nvcc compiled by default

std::string dotted(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

std::string text_by(const Driver& table, Result result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (table.cuGetErrorName.result(result, &name) != Result::success ||
      table.cuGetErrorString.result(result, &text) != Result::success)
    return fmt::format("error {}", static_cast<int>(result));
  return fmt::format("{} ({})", name, text);
}

/// What became of the attempt to use a driver.
struct State {
  Driver table;
  std::string why_not;  // empty: it works
  ForkMark here;        // children by fork() cannot use a driver that was started before
};

}  // namespace

class Loading {
 public:
  static State run() {
    State state;
    state.why_not = Loading{state}.load();
    return state;
  }

 private:
  explicit Loading(State& state) : state_(state) {}

  /// Why there is no driver to use, or nothing.
  std::string load() {
    library_ = ::dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) return cannot_open(::dlerror());
    driver_was_found.store(true, std::memory_order_relaxed);
    const auto get_version = symbol<Result (*)(int*)>("cuDriverGetVersion");
    const auto get_address = symbol<GetAddress>("cuGetProcAddress_v2");
    int version = 0;
    if (get_version == nullptr) return broken("lacks cuDriverGetVersion");
    if (const Result result = get_version(&version); result != Result::success) return refused(result);
    if (version < least_version)
      return fmt::format("the NVIDIA driver is too old: it belongs to CUDA {}, and tutti needs {} or later; update it",
                         dotted(version), dotted(least_version));
    if (get_address == nullptr) return broken("lacks cuGetProcAddress_v2");
    if (const char* const missing = find_all(get_address)) return broken(fmt::format("lacks {}", missing));
    state_.table.version = version;
    return start();
  }

  /// The loader names a file that it found by its path, and one that it did not find as it was asked for.
  static std::string cannot_open(std::string_view said) {
    if (said.find(library_name) == said.npos || said.find('/') != said.npos)
      return fmt::format("the NVIDIA driver is broken ({}); install it anew", said);
    return fmt::format("there is no NVIDIA driver ({}); install one, or start the container with its GPUs", said);
  }

  template <class Pointer>
  Pointer symbol(const char* name) const {
    return reinterpret_cast<Pointer>(::dlsym(library_, name));
  }

  /// The name of the first function that the driver lacks; null if it has them all.
  const char* find_all(GetAddress get_address) {
    const auto found = [&](auto& function, const char* name, int version) {
      void* pointer = nullptr;
      int status = 0;
      if (get_address(name, &pointer, version, null_is_legacy_stream, &status) != Result::success) pointer = nullptr;
      function.name_ = name;
      function.pointer_ = reinterpret_cast<decltype(function.pointer_)>(pointer);
      return pointer != nullptr;
    };
#define TUTTI_DRIVER_FUNCTION(name, version, ...) \
  if (!found(state_.table.name, #name, version)) return #name;
#include "lib/base/gpu/functions.inc"
#undef TUTTI_DRIVER_FUNCTION
    return nullptr;
  }

  std::string start() {
    if (const Result result = state_.table.cuInit.result(0); result != Result::success) return refused(result);
    if (const Result result = state_.table.cuDeviceGetCount.result(&state_.table.devices); result != Result::success)
      return refused(result);
    return state_.table.devices > 0 ? std::string{} : no_device();
  }

  std::string refused(Result result) const {
    const auto said = [&] {
      return state_.table.cuGetErrorString.name_ == nullptr ? fmt::format("error {}", static_cast<int>(result))
                                                            : text_by(state_.table, result);
    };
    switch (result) {
      case Result::no_device:
        return no_device();
      case Result::stub_library:
        return fmt::format("{} is the stub of a CUDA toolkit, not a driver; take its folder out of LD_LIBRARY_PATH",
                           path());
      case Result::system_driver_mismatch:
        return "the NVIDIA driver's kernel module has another version than its library; restart the machine";
      case Result::system_not_ready:
        return "the GPUs are not ready; start NVIDIA's fabric manager (nvidia-fabricmanager.service)";
      case Result::compat_not_supported_on_device:
        return fmt::format(
            "{} is a compatibility library that does not work with this GPU; take its folder out of "
            "LD_LIBRARY_PATH",
            path());
      case Result::not_initialized:
        return fmt::format("the NVIDIA driver was in use when this process was made by fork(); {}", instead_of_fork);
      default:
        return fmt::format("the NVIDIA driver does not start: {}; nvidia-smi may say more", said());
    }
  }

  static std::string no_device() {
    const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    if (visible == nullptr)
      return "the NVIDIA driver finds no GPU; see in nvidia-smi whether the machine has one, and start a container "
             "with its GPUs";
    if (*visible == '\0' || *visible == '-')
      return fmt::format("CUDA_VISIBLE_DEVICES=\"{}\" hides all GPUs; unset it, or name GPUs in it", visible);
    return fmt::format(
        "the NVIDIA driver finds none of the GPUs in CUDA_VISIBLE_DEVICES=\"{}\"; unset it, or name GPUs that "
        "nvidia-smi lists",
        visible);
  }

  std::string broken(const std::string& how) const {
    return fmt::format("the NVIDIA driver is broken: {} {}; install it anew", path(), how);
  }

  std::string path() const {
    const link_map* map = nullptr;
    return ::dlinfo(library_, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : library_name;
  }

  State& state_;
  void* library_ = nullptr;  // stays open: its threads and contexts live as long as the process
};

namespace {

const State& state() {
  static const State& made = *new State(Loading::run());  // never destroyed: destructors of others may call the driver
  return made;
}

}  // namespace

std::string why_not() {
  const State& found = state();
  if (found.why_not.empty() && !found.here.is_here())
    return fmt::format("process {} had started the NVIDIA driver when it made this process by fork(); {}",
                       found.here.process(), instead_of_fork);
  return found.why_not;
}

bool available() {
  const State& found = state();
  return found.why_not.empty() && found.here.is_here();
}

const Driver& driver() {
  if (!available()) throw Error(ErrorCode::unsupported, "No GPU can be used: " + why_not());
  return state().table;
}

std::string text_of(Result result) { return text_by(driver(), result); }

void fail(const char* function, Result result) {
  std::string_view remedy;
  if (result == Result::out_of_memory)
    remedy = std::string_view{function}.starts_with("cuMemHost")
                 ? "; the host has no more memory to pin: free some, or use smaller buffers"
                 : "; free memory of the GPU, or use smaller buffers";
  if (result == Result::illegal_address || result == Result::launch_failed)
    remedy =
        "; an earlier kernel failed, and this process can no longer use its GPU (compute-sanitizer finds the kernel)";
  throw Error(ErrorCode::system, fmt::format("The GPU's driver refused {}: {}{}", function, text_of(result), remedy));
}

std::atomic<bool> driver_was_found{false};

bool driver_is_loaded() noexcept {
  static std::atomic<unsigned long long> searched{0};  // that many libraries had been loaded at the last search
  if (driver_was_found.load(std::memory_order_relaxed)) return true;
  // The loader loads nothing in between, but perhaps as soon as this returns.
  unsigned long long loaded = 0;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* count) {
        *static_cast<unsigned long long*>(count) = info->dlpi_adds;
        if (info->dlpi_adds == searched.load(std::memory_order_relaxed)) return 1;
        const std::string_view path{info->dlpi_name};
        if (path.substr(path.rfind('/') + 1).starts_with("libcuda.so")) {
          driver_was_found.store(true, std::memory_order_relaxed);
          return 1;
        }
        return 0;
      },
      &loaded);
  searched.store(loaded, std::memory_order_relaxed);
  return driver_was_found.load(std::memory_order_relaxed);
}

DeviceFacts facts_of(Device device) {
  const Driver& call = driver();
  const auto attribute = [&](DeviceAttribute which) {
    int value = 0;
    call.cuDeviceGetAttribute(&value, which, device);
    return value;
  };
  DeviceFacts facts;
  char text[256] = {};
  call.cuDeviceGetName(text, sizeof text, device);
  facts.name = text;
  call.cuDeviceGetPCIBusId(text, sizeof text, device);
  facts.bus = text;
  call.cuDeviceGetUuid(&facts.uuid, device);
  facts.capability =
      10 * attribute(DeviceAttribute::compute_capability_major) + attribute(DeviceAttribute::compute_capability_minor);
  facts.multiprocessors = attribute(DeviceAttribute::multiprocessor_count);
  facts.memory_operations = attribute(DeviceAttribute::stream_memory_operations_64) != 0;
  facts.virtual_memory = attribute(DeviceAttribute::virtual_memory_management) != 0 &&
                         attribute(DeviceAttribute::posix_file_descriptor) != 0;
  return facts;
}

}  // namespace tutti::cuda
