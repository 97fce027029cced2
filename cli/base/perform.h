#pragma once

#include "lib/base/collective_traits.h"
#include "lib/base/internals.h"
#include "tutti/communicator.h"

namespace tutti::cli {

/// A call with equal parts, as the methods of Communicator make it. `Span`: a std::span or gpu::Span. A collective that
/// has one buffer gets `out`.
template <class Span>
detail::Request request_of(Collective collective, const Span& in, Span out, const Op& op, int root,
                           const CallOptions& options) {
  const detail::CollectiveTraits& traits = detail::traits_of(collective);
  detail::Request request{.collective = collective, .input = {}, .output = {}};
  if (traits.input.extent != detail::Extent::nothing) {  // no barrier, which has neither buffers nor a type
    request.input = detail::const_buffer(traits.in_place == detail::InPlace::always ? out : in);
    request.output = detail::buffer(out);
  }
  if (traits.reduces()) request.op = &op;
  request.root = root;
  request.algorithm = options.algorithm;
  request.timeout = options.timeout;
  return request;
}

/// Makes such a call, so that a tool need not list them. Throws Error.
template <class Span>
void perform(Communicator& comm, Collective collective, const Span& in, Span out, const Op& op, int root,
             const CallOptions& options) {
  const detail::Request request = request_of(collective, in, out, op, root, options);
  if constexpr (detail::InDeviceMemory<Span>)
    detail::Internals::perform(comm, request, detail::OnStream{options.stream});
  else
    detail::Internals::perform(comm, request);
}

}  // namespace tutti::cli
