// Streams that are captured into graphs, and graphs that run. Branches of a graph run in streams of its own, so that a
// missing edge between them shows.

#include <algorithm>
#include <memory>
#include <utility>

#include "tests/support/fake_cuda/control.h"
#include "tests/support/fake_cuda/entry_points.h"

namespace fake_cuda {

/// An object of the program's that lives as long as graphs need it.
struct UserState {
  void* data = nullptr;
  void (*destroy)(void*) = nullptr;
  Edge gone;

  UserState(void* object, void (*with)(void*)) : data(object), destroy(with) {}
  UserState(const UserState&) = delete;
  UserState& operator=(const UserState&) = delete;
  /// The program is told by a thread of the driver's, and later.
  ~UserState() {
    auto edge = std::make_unique<Edge>();
    edge->release();
    std::thread{[edge = std::move(edge), object = data, tell = destroy]() mutable {
      const Hidden hidden;
      edge->acquire();
      edge.reset();
      const Permission none{false};
      const Visible visible;
      tell(object);
    }}.detach();
  }
};

namespace {

struct User {
  std::shared_ptr<UserState> state;
  unsigned references = 0;
};

/// A graph that can be launched.
struct ExecState {
  std::shared_ptr<GraphState> graph;
  std::vector<std::size_t> lanes;        // by node: 0 is the stream of the launch, k the stream k - 1 of this graph
  std::vector<std::size_t> ends;         // the last node of each lane
  std::vector<StreamState*> streams;     // in the context of the first launch
  std::shared_ptr<Point> last_launch{};  // a graph does not overlap with itself
};

std::set<std::shared_ptr<Capture>>& captures = *new std::set<std::shared_ptr<Capture>>;
std::map<GraphState*, std::shared_ptr<GraphState>>& graphs = *new std::map<GraphState*, std::shared_ptr<GraphState>>;
std::map<ExecState*, std::shared_ptr<ExecState>>& execs = *new std::map<ExecState*, std::shared_ptr<ExecState>>;
std::map<UserObject, User>& user_objects = *new std::map<UserObject, User>;
thread_local CaptureMode mode_of_thread = CaptureMode::global;

/// The graph of a handle, which may be one that is still being captured.
GraphState* graph_of(Graph handle) {
  auto* const graph = static_cast<GraphState*>(handle);
  for (const auto& capture : captures)
    if (capture->graph.get() == graph) return graph;
  return graphs.contains(graph) ? graph : nullptr;
}

/// Nodes that come before some others, and these themselves.
std::set<std::size_t> all_before(const GraphState& graph, const std::vector<std::size_t>& nodes) {
  std::set<std::size_t> found{nodes.begin(), nodes.end()};
  for (std::size_t i = graph.nodes.size(); i-- > 0;)
    if (found.contains(i)) found.insert(graph.nodes[i].after.begin(), graph.nodes[i].after.end());
  return found;
}

/// The legacy default stream cannot be captured.
StreamState* stream_to_capture(Lock& lock, Stream handle) {
  Result error;
  return stream_of(handle, handle == per_thread_stream ? current(lock, error) : nullptr);
}

void end(const std::shared_ptr<Capture>& capture) {
  for (StreamState* stream : capture->streams) {
    stream->capture = nullptr;
    stream->captured.clear();
  }
  captures.erase(capture);
}

/// A node goes on where one of those before it ends a lane, else it begins one.
void lay_out(ExecState& exec) {
  for (std::size_t i = 0; i < exec.graph->nodes.size(); ++i) {
    const std::vector<std::size_t>& after = exec.graph->nodes[i].after;
    const auto goes_on =
        std::ranges::find_if(exec.ends, [&](std::size_t end) { return std::ranges::count(after, end); });
    exec.lanes.push_back(static_cast<std::size_t>(goes_on - exec.ends.begin()));
    if (goes_on == exec.ends.end())
      exec.ends.push_back(i);
    else
      *goes_on = i;
  }
}

void make_streams(ExecState& exec, ContextState& context) {
  while (exec.streams.size() + 1 < exec.ends.size()) {
    auto* const made = new StreamState;
    made->context = &context;
    made->number = context.next_stream++;
    made->queue = made->number % settings().queues;
    start_worker(made);
    exec.streams.push_back(made);
  }
}

}  // namespace

void record_node(StreamState& stream, const Command& command) {
  GraphState& graph = *stream.capture->graph;
  graph.nodes.push_back({command.run, command.word, command.value, stream.captured});
  stream.captured = {graph.nodes.size() - 1};
}

std::optional<Result> wait_in_capture(StreamState& stream, const EventState& event) {
  if (!event.capture) {
    if (!stream.capture) return std::nullopt;
    stream.capture->is_invalid = true;
    return Result::capture_isolation;
  }
  if (!captures.contains(event.capture)) return Result::captured_event;  // of a capture that has ended
  if (stream.capture && stream.capture != event.capture) {
    stream.capture->is_invalid = event.capture->is_invalid = true;
    return Result::capture_merge;
  }
  stream.capture = event.capture;
  stream.capture->streams.insert(&stream);
  for (const std::size_t node : event.captured)
    if (std::ranges::count(stream.captured, node) == 0) stream.captured.push_back(node);
  return Result::success;
}

bool spoils_captures() {
  if (mode_of_thread == CaptureMode::relaxed) return false;
  const Lock lock{big};
  bool spoils = false;
  for (const auto& capture : captures) {
    const bool own = capture->thread == std::this_thread::get_id() && capture->mode != CaptureMode::relaxed;
    if (!own && (mode_of_thread != CaptureMode::global || capture->mode != CaptureMode::global)) continue;
    spoils = capture->is_invalid = true;
  }
  return spoils;
}

bool spoils_capture_of(StreamState& stream) {
  if (!stream.capture) return false;
  return stream.capture->is_invalid = true;
}

bool is_captured_implicitly(const StreamState& stream, bool spoils) {
  if (&stream != stream.context->legacy.get()) return false;
  bool is_captured = false;
  for (const StreamState* other : stream.context->streams) {
    if (!other->blocking || !other->capture) continue;
    is_captured = true;
    if (spoils) other->capture->is_invalid = true;
  }
  return is_captured;
}

Result cuThreadExchangeStreamCaptureMode(CaptureMode* mode) {
  std::swap(*mode, mode_of_thread);
  return Result::success;
}

Result cuStreamBeginCapture(Stream handle, CaptureMode mode) {
  static std::uint64_t captures_made = 0;
  Lock lock{big};
  StreamState* const stream = stream_to_capture(lock, handle);
  if (stream == nullptr) return Result::capture_unsupported;
  if (stream->capture) return Result::illegal_state;
  auto capture = std::make_shared<Capture>();
  capture->id = ++captures_made;
  capture->origin = stream;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->streams.insert(stream);
  captures.insert(capture);
  stream->capture = std::move(capture);
  return Result::success;
}

Result cuStreamEndCapture(Stream handle, Graph* graph) {
  Lock lock{big};
  *graph = nullptr;
  StreamState* const stream = stream_to_capture(lock, handle);
  if (stream == nullptr || !stream->capture) return Result::illegal_state;
  const std::shared_ptr<Capture> capture = stream->capture;
  const std::set<std::size_t> joined = all_before(*capture->graph, stream->captured);
  bool all_joined = true;
  for (const StreamState* other : capture->streams)
    for (const std::size_t node : other->captured) all_joined = all_joined && joined.contains(node);
  const bool is_origin = capture->origin == stream;
  end(capture);
  const std::shared_ptr<GraphState> made = std::exchange(capture->graph, nullptr);  // events still have the capture
  if (capture->is_invalid) return Result::capture_invalidated;
  if (!is_origin) return Result::capture_unmatched;
  if (!all_joined) return Result::capture_unjoined;
  *graph = made.get();
  graphs[made.get()] = made;
  return Result::success;
}

Result cuGraphDestroy(Graph graph) {
  const Lock lock{big};
  return graphs.erase(static_cast<GraphState*>(graph)) == 1 ? Result::success : Result::invalid_value;
}

Result cuGraphInstantiateWithFlags(GraphExec* made, Graph handle, unsigned long long flags) {
  const Lock lock{big};
  const auto found = graphs.find(static_cast<GraphState*>(handle));
  if (found == graphs.end() || flags != 0) return Result::invalid_value;
  auto exec = std::make_shared<ExecState>(ExecState{found->second, {}, {}, {}});
  lay_out(*exec);
  *made = exec.get();
  execs[exec.get()] = std::move(exec);
  return Result::success;
}

Result cuGraphExecDestroy(GraphExec handle) {
  const Lock lock{big};
  const auto found = execs.find(static_cast<ExecState*>(handle));
  if (found == execs.end()) return Result::invalid_value;
  for (StreamState* stream : found->second->streams) stream->destroyed = true;
  execs.erase(found);  // a launch that runs keeps it
  changed.notify_all();
  return Result::success;
}

Result cuGraphLaunch(GraphExec handle, Stream to) {
  Lock lock{big};
  Result error;
  ContextState* const context = current(lock, error);
  if (context == nullptr) return error;
  const auto found = execs.find(static_cast<ExecState*>(handle));
  StreamState* const stream = stream_of(to, context);
  if (found == execs.end() || stream == nullptr) return Result::invalid_handle;
  if (stream->capture) misuse("a graph is launched in a capture, which the fake does not know");
  const std::shared_ptr<ExecState> exec = found->second;
  make_streams(*exec, *stream->context);
  const auto stream_of_lane = [&](std::size_t lane) -> StreamState& {
    return lane == 0 ? *stream : *exec->streams[lane - 1];
  };
  std::vector<std::shared_ptr<Point>> points;
  const auto begin = std::make_shared<Command>();
  if (exec->last_launch) begin->after.push_back(exec->last_launch);
  enqueue_at_once(*stream, begin);
  for (std::size_t i = 0; i < exec->graph->nodes.size(); ++i) {
    const GraphNode& node = exec->graph->nodes[i];
    const auto command = std::make_shared<Command>();
    command->run = node.run;
    command->word = node.word;
    command->value = node.value;
    for (const std::size_t other : node.after) command->after.push_back(points[other]);
    if (node.after.empty()) command->after.push_back(begin->point);
    points.push_back(command->point);
    StreamState& lane = stream_of_lane(exec->lanes[i]);
    lane.wanted = true;
    enqueue_at_once(lane, command);
  }
  const auto last = std::make_shared<Command>();
  for (const std::size_t node : exec->ends) last->after.push_back(points[node]);
  last->run = [exec] { return Result::success; };
  exec->last_launch = last->point;
  enqueue_at_once(*stream, last);
  return Result::success;
}

Result cuUserObjectCreate(UserObject* made, void* data, void (*destroy)(void*), unsigned references, unsigned flags) {
  if (references == 0 || flags != user_object_no_destructor_sync) return Result::invalid_value;
  const Lock lock{big};
  auto state = std::make_shared<UserState>(data, destroy);
  *made = state.get();
  user_objects[*made] = {std::move(state), references};
  return Result::success;
}

Result cuUserObjectRelease(UserObject handle, unsigned count) {
  const Lock lock{big};
  const auto found = user_objects.find(handle);
  if (found == user_objects.end() || found->second.references < count) return Result::invalid_value;
  if ((found->second.references -= count) == 0) user_objects.erase(found);
  return Result::success;
}

Result cuGraphRetainUserObject(Graph handle, UserObject object, unsigned count, unsigned flags) {
  const Lock lock{big};
  GraphState* const graph = graph_of(handle);
  const auto found = user_objects.find(object);
  if (graph == nullptr || found == user_objects.end() || count != 1 || flags != graph_user_object_move)
    return Result::invalid_value;
  graph->users.push_back(found->second.state);
  if (--found->second.references == 0) user_objects.erase(found);
  return Result::success;
}

}  // namespace fake_cuda
