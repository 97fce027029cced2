#include "cli/bench/compare_libraries/rivals/rank.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string_view>

#include "cli/bench/compare_libraries/rivals/arguments.h"
#include "cli/bench/compare_libraries/rivals/backend.h"

namespace tutti::cli::measure {
namespace {

/// Allocates whole pages and touches them.
std::unique_ptr<float[], decltype(&std::free)> make_buffer(std::size_t elements) {
  constexpr std::size_t page = 4096;
  const std::size_t bytes = (elements * sizeof(float) + page) / page * page;
  void* const memory = std::aligned_alloc(page, bytes);
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory, 0, bytes);
  return {static_cast<float*>(memory), &std::free};
}

/// Calls once on fresh data and returns the wrong elements over all ranks.
std::uint64_t verify(RankSync& sync, const Task& task, const Prepared& prepared, float* input, float* output) {
  fill(task, input, output);
  prepared.after_fill();
  sync.gather();
  prepared.call();
  prepared.before_check();
  return sync.sum(count_wrong(task, output));
}

void measure_point(RankSync& sync, Backend& library, const Arguments& arguments, std::size_t size) {
  const Task task = task_of(arguments.call, sync.rank(), sync.ranks(), size);
  const auto input = make_buffer(task.input);
  const auto output = make_buffer(task.output);
  const Prepared prepared = library.prepare(task, input.get(), output.get());
  std::uint64_t wrong = verify(sync, task, prepared, input.get(), output.get());

  // Zeros, since sums in place are repeated thousands of times and must not change.
  std::fill_n(input.get(), task.input, 0.0F);
  std::fill_n(output.get(), task.output, 0.0F);
  prepared.after_fill();
  const double before = sync.probe(arguments.probe_cores);
  const Times times = measure(sync, arguments.budget, prepared.call);
  const double after = sync.probe(arguments.probe_cores);

  wrong += verify(sync, task, prepared, input.get(), output.get());
  if (sync.rank() == 0) print_row(size, task.bytes, times, wrong, before, after);
  sync.gather();  // no rank may free memory that another one still reads
}

void run(int argc, char** argv) {
  if (argc > 1 && argv[1] == std::string_view{"--version"}) {
    std::printf("%s\n", version().c_str());
    return;
  }
  const Arguments arguments = parse_arguments(argc, argv);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // ranks end with the launcher that started them
  ::alarm(static_cast<unsigned>(arguments.seconds));
  const std::unique_ptr<Backend> library = join({arguments.setting, arguments.folder, arguments.transport == "gpu"});
  if (library->ranks() > most_ranks) throw std::invalid_argument("at most 64 ranks can be compared");
  const std::string shared_file = arguments.folder + "/sync";
  Shared* const shared = map_shared(shared_file);
  if (shared == nullptr) throw std::runtime_error("cannot share " + arguments.folder + ": " + std::strerror(errno));
  RankSync sync{shared, library->rank(), library->ranks(), library->threads(), arguments.cores, library->progress()};
  sync.gather();
  if (sync.rank() == 0) ::unlink(shared_file.c_str());  // all have it, and none may be left later
  for (const std::size_t size : arguments.sizes) measure_point(sync, *library, arguments, size);
  if (sync.rank() == 0) print_end();
  sync.gather();
  library->leave();
}

}  // namespace

int run_rank(int argc, char** argv) {
  try {
    run(argc, argv);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    std::_Exit(1);  // without the library's clean-up, which may hang after an error
  }
}

}  // namespace tutti::cli::measure
