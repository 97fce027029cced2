#pragma once

#include <memory>
#include <utility>

#include "tutti/error.h"
#include "tutti/request.h"
#include "tutti/work.h"

namespace tutti::detail {

/// Operations of the library on objects that programs hold.
class Internals {
 public:
  /// Uses a constructor that is private to the library.
  template <class T, class... Arguments>
  static T make(Arguments&&... arguments) {
    return T(std::forward<Arguments>(arguments)...);
  }
  static void set_details(Error& error, FailureDetails details) {
    error.details_ = std::make_shared<const FailureDetails>(std::move(details));
  }
  template <class Comm>
  static const auto& state(const Comm& comm) {
    return comm.state_;
  }
  static Pending* pending(const Handle& handle) { return handle.pending_; }
  static bool& unwaited(Handle& handle) { return handle.unwaited_; }

  // Calls of a Communicator without types, for the C interface. (Templates, so that this header need not know it.)
  // `on`: none, or an OnStream for buffers in device memory.
  template <class Comm, class... On>
  static void perform(Comm& comm, const Request& request, On... on) {
    comm.perform(request, on...);
  }
  template <class Comm, class... On>
  static Work start(Comm& comm, const Request& request, On... on) {
    return comm.start_collective(request, on...);
  }
  template <class Comm, class... On>
  static auto prepare(Comm& comm, const Request& request, On... on) {
    return comm.prepare_collective(request, on...);
  }
  template <class Comm, class Options>
  static void send(Comm& comm, const ConstBuffer& data, int to, const Options& options, Memory memory) {
    comm.run_send(data, to, options, memory);
  }
  template <class Comm, class Options>
  static Work start_send(Comm& comm, const ConstBuffer& data, int to, const Options& options, Memory memory) {
    return comm.start_send(data, to, options, memory);
  }
  template <class Comm, class Options>
  static MessageStatus receive(Comm& comm, const Buffer& data, int from, const Options& options, Memory memory) {
    return comm.run_recv(data, from, options, memory);
  }
  template <class Comm, class Options>
  static Work start_receive(Comm& comm, const Buffer& data, int from, const Options& options, Memory memory) {
    return comm.start_recv(data, from, options, memory);
  }
  template <class Comm, class Options>
  static MessageStatus send_and_receive(Comm& comm, const ConstBuffer& out, int to, const Buffer& in, int from,
                                        const Options& options, Memory memory) {
    return comm.run_sendrecv(out, to, in, from, options, memory);
  }
};

}  // namespace tutti::detail
