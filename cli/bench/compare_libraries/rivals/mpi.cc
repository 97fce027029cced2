// Every MPI: one source, compiled against each by its own headers.

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <sstream>
#include <stdexcept>

#include "cli/bench/compare_libraries/rivals/backend.h"

namespace tutti::cli::measure {
namespace {

MPI_Comm world() { return MPI_COMM_WORLD; }

class Mpi : public Backend {
 public:
  Mpi() {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(world(), &rank_);
    MPI_Comm_size(world(), &ranks_);
  }

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  std::function<void()> progress() override {
    return [] {
      int found = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, 12345, world(), &found, MPI_STATUS_IGNORE);
    };
  }

  Prepared prepare(const Task& task, float* input, float* output) override {
    return {call(task, static_cast<int>(task.output), static_cast<int>(task.part), input, output)};
  }

  void leave() override { MPI_Finalize(); }

 private:
  std::function<void()> call(const Task& task, int count, int part, float* in, float* out) const {
    if (task.call == all_reduce_in_place)
      return [=] { MPI_Allreduce(MPI_IN_PLACE, out, count, MPI_FLOAT, MPI_SUM, world()); };
    if (task.call == send_recv)
      return [=, next = (rank_ + 1) % ranks_, before = (rank_ + ranks_ - 1) % ranks_] {
        MPI_Sendrecv(in, count, MPI_FLOAT, next, 0, out, count, MPI_FLOAT, before, 0, world(), MPI_STATUS_IGNORE);
      };
    switch (task.call.collective) {
      case Collective::all_reduce:
        return [=] { MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, world()); };
      case Collective::broadcast:
        return [=] { MPI_Bcast(out, count, MPI_FLOAT, 0, world()); };
      case Collective::all_gather:
        return [=] { MPI_Allgather(in, part, MPI_FLOAT, out, part, MPI_FLOAT, world()); };
      case Collective::reduce_scatter:
        return [=] { MPI_Reduce_scatter_block(in, out, part, MPI_FLOAT, MPI_SUM, world()); };
      case Collective::all_to_all:
        return [=] { MPI_Alltoall(in, part, MPI_FLOAT, out, part, MPI_FLOAT, world()); };
      case Collective::reduce:
        return [=] { MPI_Reduce(in, out, count, MPI_FLOAT, MPI_SUM, 0, world()); };
      case Collective::gather:
        return [=] { MPI_Gather(in, part, MPI_FLOAT, out, part, MPI_FLOAT, 0, world()); };
      case Collective::scatter:
        return [=] { MPI_Scatter(in, part, MPI_FLOAT, out, part, MPI_FLOAT, 0, world()); };
      case Collective::scan:
        return [=] { MPI_Scan(in, out, count, MPI_FLOAT, MPI_SUM, world()); };
      case Collective::exclusive_scan:
        return [=] { MPI_Exscan(in, out, count, MPI_FLOAT, MPI_SUM, world()); };
      case Collective::barrier:
        return [] { MPI_Barrier(world()); };
    }
    throw std::logic_error("MPI: no such call");
  }

  int rank_ = 0;
  int ranks_ = 1;
};

}  // namespace

std::unique_ptr<Backend> join(const Joining&) { return std::make_unique<Mpi>(); }

/// The words before the first comma or the end of the line; what follows is how the library was built.
std::string version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::istringstream first{std::string{text}.substr(0, std::string{text}.find_first_of(",\n"))};
  std::string all;
  for (std::string word; first >> word;) all += (all.empty() ? "" : " ") + word;
  return all;
}

}  // namespace tutti::cli::measure
