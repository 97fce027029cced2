// Tutti's own side of the comparison: measured by the very code that measures the others.

#include <span>

#include "tools/peers/backend.h"
#include "tutti/communicator.h"

namespace tutti::tools::peers {
namespace {

class Own : public Backend {
 public:
  int rank() const override { return comm_.rank(); }
  int ranks() const override { return comm_.size(); }

  Prepared prepare(const Task& task, float* input, float* output) override {
    return {call(task.call, std::span{input, task.input}, std::span{output, task.output})};
  }

  void leave() override { comm_.barrier(); }

 private:
  std::function<void()> call(Call what, std::span<float> in, std::span<float> out) {
    Communicator& comm = comm_;
    switch (what) {
      case Call::all_reduce:
        return [=, &comm] { comm.all_reduce(in, out, sum); };
      case Call::all_reduce_in_place:
        return [=, &comm] { comm.all_reduce(out, sum); };
      case Call::broadcast:
        return [=, &comm] { comm.broadcast(out); };
      case Call::all_gather:
        return [=, &comm] { comm.all_gather(in, out); };
      case Call::reduce_scatter:
        return [=, &comm] { comm.reduce_scatter(in, out, sum); };
      case Call::all_to_all:
        return [=, &comm] { comm.all_to_all(in, out); };
      case Call::reduce:
        return [=, &comm] { comm.reduce(in, out, sum); };
      case Call::gather:
        return [=, &comm] { comm.gather(in, out); };
      case Call::scatter:
        return [=, &comm] { comm.scatter(in, out); };
      case Call::barrier:
        return [&comm] { comm.barrier(); };
      case Call::send_recv:
        return [=, &comm, next = (rank() + 1) % ranks(), before = (rank() + ranks() - 1) % ranks()] {
          Work sending = comm.isend(in, next);
          comm.recv(out, before);
          sending.wait();
        };
    }
    throw Error{ErrorCode::invalid_argument, "no such call"};
  }

  Communicator comm_ = connect();
};

}  // namespace

std::unique_ptr<Backend> join(const Joining&) { return std::make_unique<Own>(); }

}  // namespace tutti::tools::peers
