// The life of one rank: joins the others, and executes the orders that all ranks receive.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <span>

#include "cli/base/perform.h"
#include "cli/tune/candidates.h"
#include "cli/tune/workers.h"
#include "tutti/communicator.h"
#include "tutti/error.h"

namespace tutti::cli::tune {
namespace {

/// Whole pages, of which only the requested part is touched.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : size_(bytes + page) {
    void* const memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw Error{ErrorCode::system, "no memory for the buffers"};
    memory_ = static_cast<char*>(memory);
  }
  ~Memory() { ::munmap(memory_, size_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::span<float> elements(std::size_t count) {
    const std::size_t bytes = count * sizeof(float);
    if (bytes > touched_) std::memset(memory_ + touched_, 0, bytes - touched_);
    touched_ = std::max(touched_, bytes);
    return {reinterpret_cast<float*>(memory_), count};
  }

 private:
  static constexpr std::size_t page = 4096;
  std::size_t size_;
  std::size_t touched_ = 0;
  char* memory_ = nullptr;
};

class Rank {
 public:
  Rank(WorkerMemory& memory, Communicator comm, std::size_t most_bytes)
      : memory_(memory),
        comm_(std::move(comm)),
        sync_(&memory.shared, comm_.rank(), comm_.size(), 1),
        input_(most_bytes + page_of_parts),
        output_(most_bytes + page_of_parts) {}

  /// Executes orders until told to leave.
  void obey(int orders, int answers) {
    for (;;) {
      char byte = 1;
      if (comm_.rank() == 0 && ::read(orders, &byte, 1) != 1)
        throw Error{ErrorCode::aborted, "the directing process has ended"};
      sync_.gather();
      const Order order = memory_.order;
      if (order.kind == Order::Kind::leave) comm_.barrier();
      if (order.kind == Order::Kind::measure) measure(order);
      if (order.kind == Order::Kind::ask_choice && comm_.rank() == 0)
        std::snprintf(memory_.answer, sizeof memory_.answer, "%s",
                      comm_.chosen_algorithm(order.call.collective, order.bytes).c_str());
      sync_.gather();
      if (comm_.rank() == 0) tell(answers);
      if (order.kind == Order::Kind::leave) return;
    }
  }

  static void tell(int answers) {
    const char byte = 1;
    if (::write(answers, &byte, 1) != 1) throw Error{ErrorCode::aborted, "the directing process has ended"};
  }

  void gather() { sync_.gather(); }

 private:
  static constexpr std::size_t page_of_parts = 4096;  // a size is rounded up to whole parts

  void measure(const Order& order) {
    const measure::Task task = measure::task_of(order.call, comm_.rank(), comm_.size(), order.bytes);
    const std::span<float> in = input_.elements(task.input);
    const std::span<float> out = output_.elements(task.output);
    int stamp = 0;
    for (int i = 0; i < order.count; ++i) {
      const Turn& turn = order.turns[i];
      for (int k = 0; k < turn.warm; ++k) call(order, turn, in, out);
      for (int k = 0; k < (order.loop ? 1 : turn.calls); ++k, ++stamp) {
        sync_.align();
        sync_.begin_of(comm_.rank())[stamp] = measure::microseconds_now();
        for (int repeat = 0; repeat < (order.loop ? turn.calls : 1); ++repeat) call(order, turn, in, out);
        sync_.end_of(comm_.rank())[stamp] = measure::microseconds_now();
      }
    }
  }

  void call(const Order& order, const Turn& turn, std::span<float> in, std::span<float> out) {
    if (!order.call.is_collective()) throw Error{ErrorCode::unsupported, "send_recv has no algorithms"};
    if (order.call == measure::all_reduce_in_place) in = out;
    perform(comm_, order.call.collective, in, out, sum, 0, {.algorithm = turn.algorithm});
  }

  WorkerMemory& memory_;
  Communicator comm_;
  measure::RankSync sync_;
  Memory input_;
  Memory output_;
};

}  // namespace

int live_as_rank(WorkerMemory& memory, int rank, const WorkerOptions& options, const std::string& rendezvous,
                 int orders, int answers) {
  try {
    // These would override the table, or change the measurement.
    for (const char* name :
         {"TUTTI_ALGO", "TUTTI_TUNING_FILE", "TUTTI_PLAN_FILE", "TUTTI_DETERMINISTIC", "TUTTI_TRANSPORT"})
      ::unsetenv(name);
    ConnectOptions how;
    how.rank = rank;
    how.size = options.ranks;
    how.rendezvous = rendezvous;
    how.transport = options.transport;
    how.tuning_file = options.tuning_file;
    Rank self{memory, connect(how), options.most_bytes};
    self.gather();
    if (rank == 0) Rank::tell(answers);
    self.obey(orders, answers);
    return 0;
  } catch (const std::exception& error) {
    if (!memory.in_trouble.exchange(true)) {
      std::snprintf(memory.trouble, sizeof memory.trouble, "rank %d: %s", rank, error.what());
      memory.told.store(true);
    }
    return 1;
  }
}

}  // namespace tutti::cli::tune
