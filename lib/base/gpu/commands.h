#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "lib/base/gpu/context.h"

namespace tutti::cuda {

/// A stream of our own, without order with the program's default stream. Destroying it waits for nothing: what is
/// enqueued still runs.
class OwnStream {
 public:
  OwnStream() = default;
  explicit OwnStream(Context context, int priority = 0);
  OwnStream(OwnStream&& other) noexcept { *this = std::move(other); }
  OwnStream& operator=(OwnStream&& other) noexcept;
  ~OwnStream();
  Stream get() const { return stream_; }

 private:
  KnownContext context_;
  Stream stream_ = nullptr;
};

/// An event: a place in a stream for which another stream, or the host, can wait.
class OwnEvent {
 public:
  OwnEvent() = default;
  /// A timed one also says when it happened, by milliseconds_after().
  enum class Kind : std::uint8_t { plain, timed };
  explicit OwnEvent(Context context, Kind kind = Kind::plain);
  OwnEvent(OwnEvent&& other) noexcept { *this = std::move(other); }
  OwnEvent& operator=(OwnEvent&& other) noexcept;
  ~OwnEvent();
  Event get() const { return event_; }
  /// True if all before its last record has run, or it was never recorded. Throws what went wrong on the device.
  bool done() const;

 private:
  KnownContext context_;
  Event event_ = nullptr;
};

/// From one timed event to a later one of the same context, if both have happened. Their difference is a float, and
/// exact to 0.5 us, or to a part in 16 million.
std::optional<double> milliseconds_between(Event earlier, Event later);

/// Blocks of threads of a kernel.
struct Grid {
  unsigned blocks = 1;
  unsigned threads = 1;  ///< per block
};

/// Enqueues commands on one stream, in the order of the calls. The stream's context is the calling thread's current
/// one as long as this object lives. Nothing waits for the device, unless more than a thousand commands or so pend.
///
/// Waits and writes that follow each other go to the driver together; flush() gives it the last ones. If a call throws,
/// those that were not flushed are dropped.
class Commands {
 public:
  Commands(Context context, Stream stream) : current_(context), stream_(stream) {}
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  Stream stream() const { return stream_; }

  /// The memory is of the device, pinned, or the program's own, which costs the host a copy or a wait.
  void copy(Address to, Address from, std::size_t bytes);
  /// The same of pinned memory of the host, or of the device to such memory, always by the engines that copy. For less
  /// than 32 KiB to the device copy() takes the one that runs kernels, which has to be given to this process first:
  /// with 4 processes on one GPU that takes 530 us instead of 10 (docs/gpu-measurements.md).
  void copy_by_engine(Address to, Address from, std::size_t bytes);
  void fill(Address to, unsigned char value, std::size_t bytes);
  /// `argument` is the kernel's only parameter; the driver copies it.
  template <class Argument>
  void launch(Kernel kernel, const Grid& grid, const Argument& argument) {
    static_assert(std::is_trivially_copyable_v<Argument>);
    launch_with(kernel, grid, &argument);
  }
  /// Nothing behind it runs before the word at `word` has reached `value`: as signed numbers, word - value >= 0, so
  /// that INT64_MAX ends all waits for values from 0 on. `word` is device memory, or registered or pinned host memory,
  /// where a store of the host ends the wait.
  void wait(Address word, std::uint64_t value);
  /// A reader of the value, also the host, sees the effects of all before it.
  void write(Address word, std::uint64_t value);
  /// `task` runs on a thread of the driver's, when all before it has run, and what follows waits for its end. It must
  /// not call the driver, nor wait. After a failure of the device it never runs.
  void call(std::function<void()> task);
  /// The same, each time that a graph gets there into which the stream is captured. `data` exists as long as that.
  void call(void (*task)(void*), void* data);
  void record(Event event);
  void wait(Event event);
  /// Afterwards all commands so far are in the stream.
  void flush();

  /// How many commands were enqueued.
  std::size_t count() const { return count_; }

 private:
  void copy_rows(Address to, Address from, std::size_t width, std::size_t height);
  void add(MemoryOperation::Kind kind, Address word, std::uint64_t value);
  void launch_with(Kernel kernel, const Grid& grid, const void* argument);

  Current current_;
  Stream stream_;
  std::array<MemoryOperation, 32> batch_;
  unsigned batched_ = 0;
  std::size_t count_ = 0;
};

/// What a stream's commands are captured into, in place of being run. Null: they are run.
struct Capture {
  std::uint64_t id = 0;  ///< of this capture, in this process
  Graph graph = nullptr;
  bool is_spoiled = false;  ///< a forbidden call has made it worthless: there is no graph, and each command is refused
  /// The stream is the legacy default one, and another one, which is in order with it, is being captured. A command
  /// would be refused, and spoil that capture.
  bool is_implicit = false;

  explicit operator bool() const { return graph != nullptr; }
};
Capture capture_of(Stream stream);

/// Calls `gone` once, when the graph that is being captured, all copies of it, and all that was instantiated from them
/// have been destroyed, and no launch of them runs: on a thread of the driver's, which must not call the driver.
void keep_with(const Capture& capture, std::unique_ptr<std::function<void()>> gone);

}  // namespace tutti::cuda
