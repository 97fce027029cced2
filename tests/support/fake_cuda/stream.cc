#include <chrono>
#include <thread>

#include "tests/support/fake_cuda/fake.h"

namespace fake_cuda {

std::mutex& big = *new std::mutex;
std::condition_variable& changed = *new std::condition_variable;
std::atomic<std::uint64_t> kicks{0};

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

bool all_done(const Command& command) {
  for (const auto& point : command.after)
    if (!point->done) return false;
  return true;
}

/// A command that waits blocks all that was put into the same hardware queue after it, whatever stream it is for.
bool queue_is_blocked(const StreamState& stream, const Command& command) {
  for (const StreamState* other : stream.context->streams) {
    if (other == &stream || other->queue != stream.queue) continue;
    for (const auto& earlier : other->pending) {
      if (earlier->order > command.order) break;
      if (!all_done(*earlier) || !word_reached(*earlier)) return true;
    }
  }
  return false;
}

bool can_run(const StreamState& stream, Command& command) {
  return all_done(command) && word_reached(command) && !queue_is_blocked(stream, command);
}

/// Waits until the command can run. Nobody tells when another process, or the host, changes a word: so it looks.
void wait_until_runnable(Lock& lock, const StreamState& stream, Command& command) {
  for (int tries = 0; stream.context->sticky == Result::success && !can_run(stream, command); ++tries) {
    if (tries < 100) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    } else {
      changed.wait_for(lock, std::chrono::microseconds(50));
    }
  }
}

Result run(Command& command) {
  count_command();
  command.enqueued.acquire();
  for (const auto& point : command.after) point->edge.acquire();
  const Visible visible;
  if (command.word != nullptr) (void)command.word->load(std::memory_order_acquire);
  log(command, "begins");
  const Result result = command.run ? command.run() : Result::success;
  if (command.value_at == nowhere) log(command, "ends");
  return result;
}

void work(StreamState* stream) {
  const Hidden hidden;
  Lock lock{big};
  for (;;) {
    bool draining = false;
    changed.wait(lock, [&] { return !stream->pending.empty() || stream->destroyed; });
    if (stream->pending.empty()) break;
    while (!stream->pending.empty()) {
      delay(lock, *stream, draining);
      const auto command = stream->pending.front();
      wait_until_runnable(lock, *stream, *command);
      const bool failed_before = stream->context->sticky != Result::success;
      lock.unlock();
      const Result result = failed_before ? Result::success : run(*command);
      command->point->edge.release();
      lock.lock();
      if (result != Result::success) stream->context->sticky = result;
      command->point->done = true;
      command->point->when = now();
      stream->pending.pop_front();
      if (stream->pending.empty()) stream->wanted = false;
      changed.notify_all();
    }
  }
  stream->context->streams.erase(stream);
  changed.notify_all();
  delete stream;
}

std::size_t pending_in_queue(const StreamState& stream) {
  std::size_t sum = 0;
  for (const StreamState* other : stream.context->streams)
    if (other->queue == stream.queue) sum += other->pending.size();
  return sum;
}

/// As long as it lives, other calls of the context wait to be let in.
struct Hold {
  explicit Hold(ContextState& context) : context_(context) { ++context_.held; }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  ~Hold() {
    --context_.held;
    changed.notify_all();
  }
  ContextState& context_;
};

}  // namespace

bool word_reached(Command& command) {
  if (command.word == nullptr || command.word_reached) return true;
  if (!settings().cpu_wakes) {
    const std::uint64_t current = kicks.load() + 1;  // looks once even if there was none
    if (command.kicks_seen == current) return false;
    command.kicks_seen = current;
  }
  const std::uint64_t found = command.word->load(std::memory_order_relaxed);
  command.word_reached = static_cast<std::int64_t>(found - command.value) >= 0;
  return command.word_reached;
}

void start_worker(StreamState* stream) {
  stream->context->streams.insert(stream);
  stream->id = next_id();
  std::thread{work, stream}.detach();
}

void enqueue(Lock& lock, StreamState& stream, std::shared_ptr<Command> command) {
  if (stream.capture) return record_node(stream, *command);
  const std::size_t queue_length = settings().queue_length;
  if (pending_in_queue(stream) >= queue_length) {
    const Hold hold{*stream.context};
    changed.wait(lock, [&] { return pending_in_queue(stream) < queue_length; });
  }
  enqueue_at_once(stream, std::move(command));
}

void enqueue_at_once(StreamState& stream, std::shared_ptr<Command> command) {
  static std::uint64_t orders = 0;
  command->order = ++orders;
  // The legacy default stream comes after all blocking streams, and they after it.
  StreamState* const legacy = stream.context->legacy.get();
  if (&stream == legacy) {
    for (const StreamState* other : stream.context->streams)
      if (other->blocking && other != legacy && other->last) command->after.push_back(other->last);
  } else if (stream.blocking && legacy->last) {
    command->after.push_back(legacy->last);
  }
  command->enqueued.release();
  stream.last = command->point;
  stream.pending.push_back(std::move(command));
  changed.notify_all();
}

void wait_for(Lock& lock, StreamState* stream, const std::shared_ptr<Point>& point) {
  if (point == nullptr) return;
  if (stream != nullptr && !point->done) {
    stream->wanted = true;
    changed.notify_all();
  }
  changed.wait(lock, [&] { return point->done; });
  point->edge.acquire();
}

void wait_for_device(Lock& lock, ContextState& context, const char* function) {
  const auto idle = [&] {
    for (const StreamState* stream : context.streams)
      if (!stream->pending.empty()) return false;
    return true;
  };
  if (settings().abort_if_pending)
    for (const StreamState* stream : context.streams)
      for (const auto& command : stream->pending)
        if (!word_reached(*command))
          misuse(std::string{function} + " waits for the device, where a stream waits for a word");
  const Hold hold{context};
  std::vector<std::shared_ptr<Point>> points;
  for (StreamState* stream : context.streams) {
    if (!stream->pending.empty()) stream->wanted = true;
    if (stream->last) points.push_back(stream->last);
  }
  changed.notify_all();
  changed.wait(lock, idle);
  for (const auto& point : points) point->edge.acquire();
}

}  // namespace fake_cuda
