// A program where no GPU can be used, for driver_absent_test.py. It makes calls on memory of the host and of a GPU, and
// prints what became of each in a line ("host after: right").
//
//   driver_absent           before and after it asks for the driver
//   driver_absent fork      in a child by fork() of a process that had asked, and then in that process
//   driver_absent foreign   in a child by fork() of a process in which another library had started the driver
//   driver_absent meanwhile only whether it sees a driver that is loaded just behind its search for one

#include <dlfcn.h>
#include <link.h>
#include <sys/wait.h>
#include <tutti/gpu.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/gpu/driver.h"

namespace {

constexpr std::size_t count = 1000;
bool loads_driver_next = false;

void say(const char* what, std::string_view how) {
  std::printf("%s: %.*s\n", what, static_cast<int>(how.size()), how.data());
  std::fflush(stdout);
}

bool has_opened_driver() {
  std::ifstream maps{"/proc/self/maps"};
  for (std::string line; std::getline(maps, line);)
    if (line.find("libcuda") != line.npos) return true;
  return false;
}

/// Each with buffers that no call had before, since those are not looked at again.
void call_on_host(tutti::Communicator& comm, const char* when) {
  std::vector<float> waited(count, 1), started(count, 2), prepared(count, 3), received(count);
  comm.all_reduce(waited, tutti::sum);
  comm.async().all_reduce(started, tutti::sum).wait();
  tutti::Persistent call = comm.prepare().all_reduce(prepared, tutti::sum);
  call.start();
  call.wait();
  comm.sendrecv(waited, 0, received, 0);
  bool right = true;
  for (std::size_t i = 0; i < count; ++i)
    right = right && waited[i] == 1 && started[i] == 2 && prepared[i] == 3 && received[i] == 1;
  say(when, right ? "right" : "wrong");
}

template <class Call>
void expect_refusal(const char* name, const Call& call) {
  try {
    call();
    say(name, "no error");
  } catch (const tutti::Error& error) {
    say(name, std::string{error.code() == tutti::ErrorCode::unsupported ? "unsupported: " : "another error: "} +
                  error.what());
  }
}

void call_on_device(tutti::Communicator& comm) {
  std::vector<float> memory(count);  // a GPU that cannot be used has none
  const auto data = tutti::gpu::span(memory.data(), count);
  expect_refusal("wait", [&] { comm.all_reduce(data, tutti::sum); });
  expect_refusal("start", [&] { comm.async().all_reduce(data, tutti::sum).wait(); });
  expect_refusal("prepare", [&] { (void)comm.prepare().all_reduce(data, tutti::sum); });
  expect_refusal("send", [&] { comm.isend(data, 0).wait(); });
}

void make_all_calls() {
  tutti::Communicator comm = tutti::connect();
  call_on_host(comm, "host before");
  say("opened before", has_opened_driver() ? "yes" : "no");
  say("available", tutti::gpu::available() ? "yes" : "no");
  say("why not", tutti::gpu::why_not());
  say("opened", has_opened_driver() ? "yes" : "no");
  if (!tutti::gpu::available()) call_on_device(comm);
  call_on_host(comm, "host after");
}

/// As another library of this process would.
bool start_driver() {
  using Result = int;
  using GetAddress = Result (*)(const char*, void**, int, unsigned long long, int*);
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  const auto get_address = reinterpret_cast<GetAddress>(::dlsym(library, "cuGetProcAddress_v2"));
  void* init = nullptr;
  return get_address != nullptr && get_address("cuInit", &init, 2000, 1, nullptr) == 0 &&
         reinterpret_cast<Result (*)(unsigned)>(init)(0) == 0;
}

/// The first search finds no driver; the second one, which comes later, does.
void search_twice() {
  loads_driver_next = true;
  say("found before", tutti::cuda::driver_is_loaded() ? "yes" : "no");
  say("loaded", has_opened_driver() ? "yes" : "no");
  say("found", tutti::cuda::driver_is_loaded() ? "yes" : "no");
}

/// 0 if the child ended well.
template <class Work>
int in_child(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);  // its parent's alarm is not its own
    work();
    std::_Exit(0);
  }
  int status = -1;
  return ::waitpid(child, &status, 0) == child ? status : -1;
}

}  // namespace

/// In place of libc's, as another thread could come between.
extern "C" int dl_iterate_phdr(int (*visit)(dl_phdr_info*, std::size_t, void*), void* data) {
  static const auto libcs = reinterpret_cast<decltype(&dl_iterate_phdr)>(::dlsym(RTLD_NEXT, "dl_iterate_phdr"));
  const int result = libcs(visit, data);
  if (std::exchange(loads_driver_next, false)) ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return result;
}

int main(int argc, char** argv) {
  ::alarm(30);
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode.empty()) {
    make_all_calls();
    return 0;
  }
  if (mode == "meanwhile") {
    search_twice();
    return 0;
  }
  say("parent", std::to_string(::getpid()));
  if (mode == "foreign") {
    say("another library starts the driver", start_driver() ? "yes" : "no");
    return in_child(make_all_calls);
  }
  say("available in the parent", tutti::gpu::available() ? "yes" : "no");
  const int status = in_child(make_all_calls);
  say("available in the parent after it", tutti::gpu::available() ? "yes" : "no");
  return status;
}
