// NCCL, with one process per rank. Several ranks on one GPU are an experiment of its own, from 2.30.3 on, and asked for
// by NCCL_MULTI_RANK_GPU_ENABLE=1.

#include <fcntl.h>
#include <nccl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>

#include "cli/bench/compare_libraries/rivals/backend.h"
#include "cli/bench/compare_libraries/rivals/device.h"

namespace tutti::cli::measure {
namespace {

void require(ncclResult_t result) {
  if (result == ncclSuccess) return;
  const std::string said = ncclGetLastError(nullptr);
  throw std::runtime_error{std::string{"NCCL: "} + ncclGetErrorString(result) + (said.empty() ? "" : "; " + said)};
}

int number(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr) throw std::runtime_error{std::string{name} + " is not set; tutti run sets it"};
  return std::atoi(text);
}

/// Rank 0's, by way of a file that appears when it is complete.
ncclUniqueId exchange_id(int rank, const std::string& folder) {
  const std::string path = folder + "/nccl-id", draft = path + ".new";
  ncclUniqueId id;
  if (rank == 0) {
    require(ncclGetUniqueId(&id));
    std::ofstream{draft, std::ios::binary}.write(id.internal, sizeof id.internal);
    if (std::rename(draft.c_str(), path.c_str()) != 0)
      throw std::runtime_error{"cannot write " + path + ": " + std::strerror(errno)};
    return id;
  }
  constexpr useconds_t pause_us = 1000;  // the alarm of the program ends it
  for (;; ::usleep(pause_us)) {
    std::ifstream file{path, std::ios::binary};
    if (file.read(id.internal, sizeof id.internal)) return id;
  }
}

class Nccl : public Backend {
 public:
  explicit Nccl(const Joining& how) : rank_(number("RANK")), ranks_(number("WORLD_SIZE")), device_(rank_) {
    require(ncclCommInitRank(&comm_, ranks_, exchange_id(rank_, how.folder), rank_));
  }

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  Prepared prepare(const Task& task, float* input, float* output) override {
    const auto in = std::make_shared<DeviceElements>(task.input), out = std::make_shared<DeviceElements>(task.output);
    const auto enqueue = call(task, in->data(), out->data());
    return {[this, enqueue] {
              require(enqueue());
              device_.wait();
            },
            [=, this] {
              device_.copy(in->data(), input, task.input);
              device_.copy(out->data(), output, task.output);
            },
            [=, this] { device_.copy(output, out->data(), task.output); }};
  }

  /// The process ends; destroying the communicator would wait for ranks that may have gone.
  void leave() override {}

 private:
  std::function<ncclResult_t()> call(const Task& task, float* in, float* out) const {
    const auto stream = static_cast<cudaStream_t>(device_.stream());
    const std::size_t count = task.output, part = task.part;
    const ncclComm_t comm = comm_;
    if (task.call == all_reduce_in_place)
      return [=] { return ncclAllReduce(out, out, count, ncclFloat, ncclSum, comm, stream); };
    if (task.call == send_recv)
      return [=, next = (rank_ + 1) % ranks_, before = (rank_ + ranks_ - 1) % ranks_] {
        require(ncclGroupStart());
        require(ncclSend(in, count, ncclFloat, next, comm, stream));
        require(ncclRecv(out, count, ncclFloat, before, comm, stream));
        return ncclGroupEnd();
      };
    switch (task.call.collective) {
      case Collective::all_reduce:
        return [=] { return ncclAllReduce(in, out, count, ncclFloat, ncclSum, comm, stream); };
      case Collective::broadcast:
        return [=] { return ncclBroadcast(out, out, count, ncclFloat, 0, comm, stream); };
      case Collective::reduce:
        return [=, n = task.input] { return ncclReduce(in, out, n, ncclFloat, ncclSum, 0, comm, stream); };
      case Collective::all_gather:
        return [=] { return ncclAllGather(in, out, part, ncclFloat, comm, stream); };
      case Collective::reduce_scatter:
        return [=] { return ncclReduceScatter(in, out, part, ncclFloat, ncclSum, comm, stream); };
      case Collective::all_to_all:
        return [=] { return ncclAlltoAll(in, out, part, ncclFloat, comm, stream); };
      case Collective::gather:
        return [=] { return ncclGather(in, out, part, ncclFloat, 0, comm, stream); };
      case Collective::scatter:
        return [=] { return ncclScatter(in, out, part, ncclFloat, 0, comm, stream); };
      case Collective::scan:
      case Collective::exclusive_scan:
      case Collective::barrier:
        break;
    }
    throw std::invalid_argument{"NCCL has no such call"};
  }

  int rank_;
  int ranks_;
  Device device_;
  ncclComm_t comm_ = nullptr;
};

}  // namespace

std::unique_ptr<Backend> join(const Joining& how) { return std::make_unique<Nccl>(how); }

std::string version() {
  int number = 0;
  require(ncclGetVersion(&number));
  return "NCCL " + std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." +
         std::to_string(number % 100);
}

}  // namespace tutti::cli::measure
