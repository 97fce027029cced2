#include "lib/base/gpu/commands.h"

#include <memory>

namespace tutti::cuda {

OwnStream::OwnStream(Context context, int priority) : context_(context) {
  const Current current{context};
  driver().cuStreamCreateWithPriority(&stream_, stream_non_blocking, priority);
}

OwnStream& OwnStream::operator=(OwnStream&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(stream_, other.stream_);
  return *this;
}

OwnStream::~OwnStream() {
  if (stream_ != nullptr && context_.exists()) (void)driver().cuStreamDestroy.result(stream_);
}

OwnEvent::OwnEvent(Context context, Kind kind) : context_(context) {
  const Current current{context};
  driver().cuEventCreate(&event_, kind == Kind::timed ? 0 : event_disable_timing);
}

OwnEvent& OwnEvent::operator=(OwnEvent&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(event_, other.event_);
  return *this;
}

OwnEvent::~OwnEvent() {
  if (event_ != nullptr && context_.exists()) (void)driver().cuEventDestroy.result(event_);
}

bool OwnEvent::done() const {
  const Result result = driver().cuEventQuery.result(event_);
  if (result == Result::not_ready) return false;
  if (result != Result::success) fail("cuEventQuery", result);
  return true;
}

std::optional<double> milliseconds_between(Event earlier, Event later) {
  float milliseconds = 0;
  if (driver().cuEventElapsedTime.result(&milliseconds, earlier, later) != Result::success) return std::nullopt;
  return milliseconds;
}

void Commands::copy(Address to, Address from, std::size_t bytes) {
  if (bytes == 0) return;
  flush();
  driver().cuMemcpyAsync(to, from, bytes, stream_);
  ++count_;
}

/// The driver looks at the number of rows: two or more are for the engines that copy.
void Commands::copy_by_engine(Address to, Address from, std::size_t bytes) {
  constexpr std::size_t most_by_kernels = 64 * 1024;
  if (bytes > most_by_kernels || bytes < 2) return copy(to, from, bytes);
  copy_rows(to, from, bytes / 2, 2);
  if (bytes % 2 == 1) copy_rows(to + bytes - 2, from + bytes - 2, 1, 2);
}

void Commands::copy_rows(Address to, Address from, std::size_t width, std::size_t height) {
  flush();
  constexpr int any_memory = 4;  // addresses say where it is
  const RowsCopy rows{{.memory_type = any_memory, .device = from, .pitch = width},
                      {.memory_type = any_memory, .device = to, .pitch = width},
                      width,
                      height};
  driver().cuMemcpy2DAsync(&rows, stream_);
  ++count_;
}

void Commands::fill(Address to, unsigned char value, std::size_t bytes) {
  if (bytes == 0) return;
  flush();
  driver().cuMemsetD8Async(to, value, bytes, stream_);
  ++count_;
}

void Commands::launch_with(Kernel kernel, const Grid& grid, const void* argument) {
  flush();
  void* parameters[] = {const_cast<void*>(argument)};
  driver().cuLaunchKernel(kernel, grid.blocks, 1, 1, grid.threads, 1, 1, 0, stream_, parameters, nullptr);
  ++count_;
}

void Commands::wait(Address word, std::uint64_t value) { add(MemoryOperation::Kind::wait_64, word, value); }

void Commands::write(Address word, std::uint64_t value) { add(MemoryOperation::Kind::write_64, word, value); }

void Commands::call(std::function<void()> task) {
  using Task = std::function<void()>;
  auto kept = std::make_unique<Task>(std::move(task));
  call([](void* data) { (*std::unique_ptr<Task>{static_cast<Task*>(data)})(); }, kept.get());
  (void)kept.release();
}

void Commands::call(void (*task)(void*), void* data) {
  flush();
  driver().cuLaunchHostFunc(stream_, task, data);
  ++count_;
}

void Commands::record(Event event) {
  flush();
  driver().cuEventRecord(event, stream_);
  ++count_;
}

void Commands::wait(Event event) {
  flush();
  driver().cuStreamWaitEvent(stream_, event, 0);
  ++count_;
}

void Commands::add(MemoryOperation::Kind kind, Address word, std::uint64_t value) {
  if (batched_ == batch_.size()) flush();
  batch_[batched_++] = MemoryOperation{kind, word, value, wait_value_at_least, 0, 0};
  ++count_;
}

void Commands::flush() {
  if (batched_ == 0) return;
  driver().cuStreamBatchMemOp(stream_, std::exchange(batched_, 0u), batch_.data(), 0);
}

Capture capture_of(Stream stream) {
  int status = capture_none;
  Capture capture;  // the driver says no more of a spoiled one
  const Result result =
      driver().cuStreamGetCaptureInfo.result(stream, &status, &capture.id, &capture.graph, nullptr, nullptr);
  if (result == Result::capture_implicit) return {.is_implicit = true};
  if (result != Result::success) fail("cuStreamGetCaptureInfo", result);
  if (status == capture_active) return capture;
  return {.is_spoiled = status != capture_none};
}

void keep_with(const Capture& capture, std::unique_ptr<std::function<void()>> gone) {
  using Task = std::function<void()>;
  UserObject object = nullptr;
  const auto tell = [](void* data) { (*std::unique_ptr<Task>{static_cast<Task*>(data)})(); };
  driver().cuUserObjectCreate(&object, gone.get(), tell, 1, user_object_no_destructor_sync);
  (void)gone.release();
  const Result result = driver().cuGraphRetainUserObject.result(capture.graph, object, 1, graph_user_object_move);
  if (result == Result::success) return;
  (void)driver().cuUserObjectRelease.result(object, 1);
  fail("cuGraphRetainUserObject", result);
}

}  // namespace tutti::cuda
