// A library of Python, measured by the same code as the others: a shared library that tutti-rival-torch-gloo loads. The
// script gives functions for what a Backend does; calling one of them from here takes about a microsecond, which the
// times contain.

#include <stdexcept>

#include "cli/bench/compare_libraries/rivals/backend.h"
#include "cli/bench/compare_libraries/rivals/rank.h"

extern "C" {

/// The script has the same structure. A function that fails ends the process itself.
struct TuttiRival {
  int rank;
  int ranks;
  int threads;  ///< of the library, including the caller's
  void (*prepare)(const char* call, float* input, std::uint64_t inputs, float* output, std::uint64_t outputs);
  void (*call)();
  void (*after_fill)();
  void (*before_check)();
  void (*leave)();
};

[[gnu::visibility("default")]] int tutti_rival_run(int argc, char** argv, const TuttiRival* library);
}

namespace tutti::cli::measure {
namespace {

const TuttiRival* given = nullptr;  // by the script, for join()

class Python : public Backend {
 public:
  explicit Python(const TuttiRival& library) : library_(library) {}

  int rank() const override { return library_.rank; }
  int ranks() const override { return library_.ranks; }
  int threads() const override { return library_.threads; }

  Prepared prepare(const Task& task, float* input, float* output) override {
    library_.prepare(std::string{name_of(task.call)}.c_str(), input, task.input, output, task.output);
    return {library_.call, library_.after_fill, library_.before_check};
  }

  void leave() override { library_.leave(); }

 private:
  const TuttiRival& library_;
};

}  // namespace

std::unique_ptr<Backend> join(const Joining&) {
  if (given == nullptr) throw std::logic_error("no library was given");
  return std::make_unique<Python>(*given);
}

/// The script says it without this library.
std::string version() { return ""; }

}  // namespace tutti::cli::measure

int tutti_rival_run(int argc, char** argv, const TuttiRival* library) {
  tutti::cli::measure::given = library;
  return tutti::cli::measure::run_rank(argc, argv);
}
