#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/gpu/driver_types.h"
#include "tests/support/fake_cuda/tsan.h"

// A driver without a GPU: this folder builds a libcuda.so.1 that tests find by LD_LIBRARY_PATH. It has the order, the
// bytes and the sharing of CUDA's; it has no weak memory and no warps, and its times are those of the host.
// tests/gpu/contract_*_test.cc state each rule, and run on a real driver where there is one.
//
//   FAKE_CUDA_DEVICES=2           so many GPUs (1); 0 is a driver that finds none
//   FAKE_CUDA_VERSION=12020       the CUDA that it belongs to (13000)
//   FAKE_CUDA_CAPABILITY=75       of all devices (90)
//   FAKE_CUDA_WITHOUT=memop,vmm,ipc,peer   what devices cannot do
//   FAKE_CUDA_MISSING=cuMemMap    a function that the driver lacks
//   FAKE_CUDA_FAIL=cuMemCreate@2=2;cuLaunchKernel@*=700    which calls fail, counted from 1, with which result
//                                 (*@*=34: all calls of all functions). A kernel that fails with 700 or more fails on
//                                 the device: all later calls do as well. -1 is std::bad_alloc (control.h)
//   FAKE_CUDA_FAULTS=FILE         where those that came are written, and when the program ends those that did not
//   FAKE_CUDA_LOG=FILE            where commands are written that streams run (log.cc)
//   FAKE_CUDA_SIGNAL=9@40         the process gets signal 9 when its streams run their 40th command
//   FAKE_CUDA_SCHEDULE=eager | lazy | random:7 | reverse   when streams run
//   FAKE_CUDA_PENDING=abort       ends the program if a call has to wait while a stream waits for a word (wait)
//   FAKE_CUDA_CPU_WAKES=0         stores of the host do not wake a stream that waits (1)
//   FAKE_CUDA_REUSE_HANDLES=1     a new allocation at an old address has the old one's handle for other processes
//   FAKE_CUDA_QUEUE=16            commands that a hardware queue holds (1024); then enqueueing waits
//   FAKE_CUDA_LEAKS=1             ends the process with status 66 if something is left when it exits
//   CUDA_DEVICE_MAX_CONNECTIONS=8, CUDA_VISIBLE_DEVICES        as for the real one

namespace fake_cuda {

using namespace tutti::cuda;  // the types of the driver's interface

// ---- Settings (settings.cc)

struct Settings {
  int devices = 1;
  int version = 13000;
  int capability = 90;
  bool memory_operations = true, virtual_memory = true, legacy_ipc = true, peer_access = true;
  bool abort_if_pending = false;
  bool cpu_wakes = true;
  bool reuse_handles = false;
  int queues = 8;
  std::size_t queue_length = 1024;
  std::string missing;
};
const Settings& settings();

/// The result that FAKE_CUDA_FAIL has for this call of `function`, and counts it; success if none.
Result injected(const char* function);

/// Counts a command that a stream is about to run, and raises the signal that FAKE_CUDA_SIGNAL has for it.
void count_command();

/// Something that a program must not do, and that a real driver leaves undefined: says so and aborts.
[[noreturn]] void misuse(const std::string& what);

// ---- Streams (stream.cc, schedule.cc)

/// The end of a command: others wait for it.
struct Point {
  bool done = false;
  double when = 0;  // seconds of the steady clock
  Edge edge;
};

inline constexpr std::uint64_t nowhere = ~std::uint64_t{0};

struct Command {
  std::function<Result()> run;                 // on the stream's thread; empty: nothing to do
  std::atomic<std::uint64_t>* word = nullptr;  // nothing runs before this reached `value`
  std::uint64_t value = 0;
  const char* kind = nullptr;        // for the log; null: it has none of it
  std::uint64_t value_at = nowhere;  // for the log: where the word of the value lies in its range
  std::vector<std::shared_ptr<Point>> after;
  std::shared_ptr<Point> point = std::make_shared<Point>();
  std::uint64_t order = 0;  // among all commands of the process
  std::uint64_t kicks_seen = 0;
  bool word_reached = false;
  Edge enqueued;
};

// What is recorded of streams instead of being run (graph.cc)

struct UserState;

struct GraphNode {
  std::function<Result()> run;
  std::atomic<std::uint64_t>* word = nullptr;
  std::uint64_t value = 0;
  std::vector<std::size_t> after;  // other nodes
};

struct GraphState {
  std::vector<GraphNode> nodes;  // each behind those that it comes after
  std::vector<std::shared_ptr<UserState>> users;
};

struct StreamState;

struct Capture {
  std::uint64_t id = 0;
  StreamState* origin = nullptr;
  CaptureMode mode{};
  std::thread::id thread;
  bool is_invalid = false;
  std::set<StreamState*> streams;  // the origin, and those that joined it by events
  std::shared_ptr<GraphState> graph = std::make_shared<GraphState>();
};

struct ContextState;

struct StreamState {
  ContextState* context = nullptr;
  int number = 0;
  std::uint64_t id = 0;   // no other one's
  bool blocking = false;  // in order with the legacy default stream
  int queue = 0;          // of the hardware
  bool destroyed = false;
  bool wanted = false;  // somebody waits for it
  std::deque<std::shared_ptr<Command>> pending;
  std::shared_ptr<Point> last;  // of the last command; null before the first
  std::shared_ptr<Capture> capture;
  std::vector<std::size_t> captured;  // the nodes after which its next one comes
};

struct EventState {
  ContextState* context = nullptr;
  bool timing = false;
  std::shared_ptr<Point> record;     // the last one; null: never recorded
  std::shared_ptr<Capture> capture;  // in which it was recorded last
  std::vector<std::size_t> captured;
};

struct ContextState {
  Device device = 0;
  std::uint64_t id = 0;  // another one when a later context has this pointer
  bool destroyed = false;
  Result sticky = Result::success;
  int next_stream = 0;
  int held = 0;  // calls that wait for the device and let no other call of this context in
  std::unique_ptr<StreamState> legacy;
  std::set<StreamState*> streams;  // those created, and the legacy one
  std::set<void*> loaded;          // kernels
  std::set<std::uint64_t> peers;   // ids of contexts whose memory it may use
};

/// All of the fake's state is behind this mutex. It is hidden from ThreadSanitizer; see tsan.h.
extern std::mutex& big;
extern std::condition_variable& changed;
using Lock = std::unique_lock<std::mutex>;

/// Records a command of a stream that is being captured.
void record_node(StreamState& stream, const Command& command);
/// Lets a stream come after an event, if one of them is being captured. Nothing: neither is.
std::optional<Result> wait_in_capture(StreamState& stream, const EventState& event);
/// Whether this thread must not make calls that capture forbids. If so the captures are worthless from here on.
bool spoils_captures();
/// The same for calls that nobody may make on a stream that is being captured.
bool spoils_capture_of(StreamState& stream);
/// Whether a capture is in the way of the legacy default stream, with which its streams are in order. `spoils`: the
/// capture is worthless from here on.
bool is_captured_implicitly(const StreamState& stream, bool spoils);

void start_worker(StreamState* stream);
/// Puts a command behind what the stream has, or into the graph of its capture. Waits if its hardware queue is full.
void enqueue(Lock& lock, StreamState& stream, std::shared_ptr<Command> command);
/// The same of a graph that is launched, which is in no queue as a whole.
void enqueue_at_once(StreamState& stream, std::shared_ptr<Command> command);
/// Waits until the point is done, as a host that waits for it.
void wait_for(Lock& lock, StreamState* stream, const std::shared_ptr<Point>& point);
/// Waits until all of the context's streams are idle, letting nobody else in; for calls that do so in a real driver.
void wait_for_device(Lock& lock, ContextState& context, const char* function);
bool word_reached(Command& command);
/// Before a stream runs its next command: the schedule may let others go first.
void delay(Lock& lock, StreamState& stream, bool& draining);
/// The order in which a kernel's blocks run.
std::vector<unsigned> order_of_blocks(unsigned blocks);
/// Wakes waits for words if stores of the host do not.
extern std::atomic<std::uint64_t> kicks;

// ---- The log (log.cc)

/// A line of FAKE_CUDA_LOG, if there is one: "4711 wait 128 3" with the process, the place of a word in the memory that
/// was registered, and its value; or "4711 kernel begins".
/// A command that sets others free is written before it runs, and one that waits afterwards. So each line comes after
/// those that let it happen, also if they are other processes'.
void log(const Command& command, const char* when);

// ---- Contexts (context.cc)

/// The calling thread's context, if it is usable; `error` says why not.
ContextState* current(Lock& lock, Result& error);
/// The stream of a handle, which may be one of the default ones; null if it is none.
StreamState* stream_of(Stream handle, ContextState* of_default);

/// The events of a context that ends (commands.cc).
void end_events(const ContextState& context);

// ---- Memory (memory.cc, virtual_memory.cc, ipc.cc)

inline constexpr std::size_t granularity = std::size_t{2} << 20;

/// The first page of the memory behind device memory, which all processes that use it have mapped.
struct Header {
  std::uint64_t magic;
  std::uint64_t id;
  std::uint64_t size;  // of the bytes behind it
  Device device;
  std::atomic<bool> freed;
  std::atomic<bool> exportable;            // by a descriptor
  std::array<std::atomic<int>, 32> users;  // pids that opened it
};
inline constexpr std::size_t header_size = 4096;
inline constexpr std::uint64_t header_magic = 0x66616b6563756461;

/// Memory of a device, with its descriptor.
struct Physical {
  int descriptor = -1;
  Header* header = nullptr;
  std::size_t size = 0;  // a multiple of the page's
  Device device = 0;
  bool imported = false;

  ~Physical();
};
/// Null if there is not enough memory.
std::shared_ptr<Physical> make_physical(std::size_t size, Device device);
/// Null if the descriptor, of which this makes a duplicate, is none of the fake's.
std::shared_ptr<Physical> open_physical(int descriptor);
/// A process has imported or opened memory of another one.
void note_import(Physical& physical);

struct Range {
  enum class Kind { allocated, opened, reserved, host_allocated, host_registered };
  Kind kind = Kind::allocated;
  Address base = 0;
  std::size_t size = 0;    // as asked for
  std::size_t spread = 0;  // of addresses
  std::uint64_t buffer = 0;
  ContextState* context = nullptr;
  Device device = 0;
  std::shared_ptr<Physical> physical;  // none while reserved only, and of host memory
  std::uint32_t users = ~0U;           // bits of the devices that may use memory that was created; it is 0 until then
  int opens = 0;
  IpcMemoryHandle handle{};
};
extern std::map<Address, Range>& ranges;

/// The range in which all `bytes` lie; null if there is none.
Range* range_of(Address address, std::size_t bytes = 1);
/// Unused device addresses.
Address find_addresses(std::size_t size);
/// Where the host finds the bytes of device addresses.
std::byte* alias_of(Address address);
bool map_at(Address address, const Range& range, std::size_t offset);
void unmap_at(Address address, std::size_t size);
/// What a context had of its own, when it ends.
void end_memory(const ContextState& context);
/// Where commands of a context find the bytes; null if they may not use them: memory that was created is for the
/// devices that were given access, and other memory of a device for its own and for contexts that have enabled its
/// context.
std::byte* reach(Address address, std::size_t bytes, const ContextState& by);
/// Counts bytes that a command uses, if they are a device's.
void note_use(Address address, std::size_t bytes, bool is_write);
std::uint64_t next_id();

}  // namespace fake_cuda
