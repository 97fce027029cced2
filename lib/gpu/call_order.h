#pragma once

#include <cstdint>
#include <map>

#include "lib/base/gpu/commands.h"
#include "lib/gpu/device_stream.h"

namespace tutti::detail {

/// Lets the calls of a communicator come one after the other, in whatever streams they are, by an event behind each.
/// Streams and contexts may end in the meantime, and their handles come again. Threading: one thread at a time.
class CallOrder {
 public:
  bool has(const cuda::KnownContext& context) const { return passed_.contains(context); }
  /// Before the first call in a context.
  void enter(const cuda::KnownContext& context) { passed_.try_emplace(context, context.get()); }
  /// Behind the latest call in a context, which was entered. Exists as long as this object.
  const cuda::OwnEvent& passed(const cuda::KnownContext& context) const { return passed_.at(context); }

  /// What follows in `to`, of `stream`, comes after the latest call.
  void come_after_latest(cuda::Commands& to, const DeviceStream& stream) const;
  /// A call has been put into `to`, of `stream`, and is the latest one from here on.
  void note(cuda::Commands& to, const DeviceStream& stream);

 private:
  std::map<cuda::KnownContext, cuda::OwnEvent> passed_;  // by the context of its stream
  // Of the latest call:
  cuda::KnownContext context_;
  std::uint64_t stream_ = 0;     // by cuda::id_of()
  cuda::Event event_ = nullptr;  // null: there is none
};

}  // namespace tutti::detail
