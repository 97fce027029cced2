// Gloo over TCP (epoll), one process per rank as `tutti run` starts them; they find each other through files.
//
// Settings: "ring" and "bcube" name an algorithm of its options API. "ring_chunked" and "halving_doubling" name one of
// its class API, which works in place on memory registered before. "+sync" means blocking reads in the caller's thread,
// and "+poll" busy polling there. Anything else is the default of each collective.

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "cli/bench/compare_libraries/rivals/backend.h"

namespace tutti::cli::measure {
namespace {

using Sum = void (*)(void*, const void*, const void*, std::size_t);
constexpr Sum add = &gloo::sum<float>;

int from_environment(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr) throw std::runtime_error(std::string{"Gloo: start it with tutti run; there is no "} + name);
  return std::atoi(text);
}

class Gloo : public Backend {
 public:
  explicit Gloo(const Joining& how) : rank_(from_environment("RANK")), ranks_(from_environment("WORLD_SIZE")) {
    const std::size_t plus = how.setting.find('+');
    algorithm_ = how.setting.substr(0, plus);
    const std::string waiting = plus == std::string::npos ? "" : how.setting.substr(plus + 1);
    const std::string folder = how.folder + "/store";
    ::mkdir(folder.c_str(), 0700);
    gloo::rendezvous::FileStore store{folder};
    gloo::transport::tcp::attr attributes;
    const char* const interface = std::getenv("GLOO_SOCKET_IFNAME");
    attributes.iface = interface != nullptr ? interface : "lo";
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank_, ranks_);
    context->setTimeout(std::chrono::seconds{60});
    context->connectFullMesh(store, device);
    context_ = context;
    for (int peer = 0; peer < ranks_ && !waiting.empty(); ++peer)
      if (peer != rank_) context_->getPair(peer)->setSync(true, waiting == "poll");
  }

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  int threads() const override { return 2; }

  Prepared prepare(const Task& task, float* input, float* output) override {
    if (task.call == Collective::all_reduce || task.call == all_reduce_in_place) return all_reduce(task, input, output);
    if (task.call == Collective::reduce_scatter) return reduce_scatter(task, input, output);
    if (task.call == send_recv) return {exchange(task, input, output)};
    return {call(task, input, output)};
  }

  // Closing connections is not measured, and ranks that end first cause errors on others.
  [[noreturn]] void leave() override { ::_exit(0); }

 private:
  Prepared all_reduce(const Task& task, float* input, float* output) const {
    const std::size_t count = task.output;
    const bool in_place = task.call == all_reduce_in_place;
    if (algorithm_ == "ring" || algorithm_ == "bcube") {
      using Algorithm = gloo::AllreduceOptions::Algorithm;
      const Algorithm algorithm = algorithm_ == "ring" ? Algorithm::RING : Algorithm::BCUBE;
      return {[=, context = context_] {
        gloo::AllreduceOptions options{context};
        options.setAlgorithm(algorithm);
        if (!in_place) options.setInput(input, count);
        options.setOutput(output, count);
        options.setReduceFunction(add);
        gloo::allreduce(options);
      }};
    }
    // In place even if input and output differ: the copy is not timed, which favours Gloo.
    const std::vector<float*> memory{output};
    std::shared_ptr<gloo::Algorithm> algorithm;
    if (algorithm_ == "ring_chunked") {
      algorithm = std::make_shared<gloo::AllreduceRingChunked<float>>(context_, memory, static_cast<int>(count));
    } else if (algorithm_ == "halving_doubling") {
      algorithm = std::make_shared<gloo::AllreduceHalvingDoubling<float>>(context_, memory, static_cast<int>(count));
    } else {
      throw std::invalid_argument("Gloo: no setting \"" + algorithm_ + "\" of all_reduce");
    }
    return {[algorithm] { algorithm->run(); },
            [=] {
              if (!in_place) std::memcpy(output, input, count * sizeof(float));
            }};
  }

  /// The class API, in place in memory of its own: the result is at its beginning.
  Prepared reduce_scatter(const Task& task, float* input, float* output) const {
    auto memory = std::make_shared<std::vector<float>>(task.input);
    const std::vector<int> counts(static_cast<std::size_t>(ranks_), static_cast<int>(task.part));
    auto algorithm = std::make_shared<gloo::ReduceScatterHalvingDoubling<float>>(
        context_, std::vector<float*>{memory->data()}, static_cast<int>(task.input), counts);
    return {[algorithm] { algorithm->run(); },
            [=] { std::memcpy(memory->data(), input, memory->size() * sizeof(float)); },
            [=] { std::memcpy(output, memory->data(), task.output * sizeof(float)); }};
  }

  std::function<void()> exchange(const Task& task, float* input, float* output) const {
    using Memory = std::shared_ptr<gloo::transport::UnboundBuffer>;
    const std::size_t bytes = task.bytes;
    const Memory sent = context_->createUnboundBuffer(input, bytes);
    const Memory received = context_->createUnboundBuffer(output, bytes);
    return [=, next = (rank_ + 1) % ranks_, before = (rank_ + ranks_ - 1) % ranks_] {
      constexpr std::uint64_t slot = 77;
      sent->send(next, slot);
      received->recv(before, slot);
      sent->waitSend();
      received->waitRecv();
    };
  }

  std::function<void()> call(const Task& task, float* input, float* output) const {
    const std::size_t count = task.output;
    const std::size_t part = task.part;
    const auto context = context_;
    switch (task.call.collective) {
      case Collective::reduce:
        return [=] {
          gloo::ReduceOptions options{context};
          options.setInput(input, count);
          options.setOutput(output, count);
          options.setRoot(0);
          options.setReduceFunction(add);
          gloo::reduce(options);
        };
      case Collective::broadcast:
        return [=] {
          gloo::BroadcastOptions options{context};
          options.setOutput(output, count);
          options.setRoot(0);
          gloo::broadcast(options);
        };
      case Collective::all_gather:
        return [=] {
          gloo::AllgatherOptions options{context};
          options.setInput(input, part);
          options.setOutput(output, count);
          gloo::allgather(options);
        };
      case Collective::all_to_all:
        return [=] {
          gloo::AlltoallOptions options{context};
          options.setInput(input, count);
          options.setOutput(output, count);
          gloo::alltoall(options);
        };
      case Collective::gather:
      case Collective::scatter:
      case Collective::barrier:
        return rooted_or_barrier(task, input, output);
      case Collective::all_reduce:  // above
      case Collective::reduce_scatter:
      case Collective::scan:
      case Collective::exclusive_scan:
        break;
    }
    throw std::invalid_argument{"Gloo has no such call"};
  }

  std::function<void()> rooted_or_barrier(const Task& task, float* input, float* output) const {
    const std::size_t count = task.output;
    const std::size_t part = task.part;
    const auto context = context_;
    if (task.call == Collective::gather)
      return [=, root = rank_ == 0] {
        gloo::GatherOptions options{context};
        options.setInput(input, part);
        if (root) options.setOutput(output, count);
        options.setRoot(0);
        gloo::gather(options);
      };
    if (task.call == Collective::scatter) {
      std::vector<float*> parts;
      for (int rank = 0; rank < ranks_ && rank_ == 0; ++rank)
        parts.push_back(input + static_cast<std::size_t>(rank) * part);
      return [=] {
        gloo::ScatterOptions options{context};
        if (!parts.empty()) options.setInputs(parts, part);
        options.setOutput(output, part);
        options.setRoot(0);
        gloo::scatter(options);
      };
    }
    return [=] {
      gloo::BarrierOptions options{context};
      gloo::barrier(options);
    };
  }

  int rank_;
  int ranks_;
  std::string algorithm_;
  std::shared_ptr<gloo::Context> context_;
};

}  // namespace

std::unique_ptr<Backend> join(const Joining& how) { return std::make_unique<Gloo>(how); }

std::string version() {
  return "Gloo " + std::to_string(GLOO_VERSION_MAJOR) + "." + std::to_string(GLOO_VERSION_MINOR) + "." +
         std::to_string(GLOO_VERSION_PATCH);
}

}  // namespace tutti::cli::measure
