#pragma once

#include <functional>

#include "tutti/communicator.h"
#include "tutti/export.h"

namespace tutti {
inline namespace TUTTI_ABI {

/// Runs `body` once for each of `ranks` ranks, each a thread of this process with its communicator, and returns when
/// all have returned. To learn, to debug in one debugger, and to test without a launcher:
///
///     tutti::run_threads(4, [](tutti::Communicator& comm) {
///       int sum = comm.rank();
///       comm.all_reduce(std::span{&sum, 1}, tutti::sum);
///       if (comm.rank() == 0) std::printf("%d\n", sum);  // 6
///     });
///
/// The same algorithms run as between processes, through the memory of this one; transport_to() says "inproc".
/// Environment variables apply as to connect(), and so do `options`, but rank, size, rendezvous and store are given,
/// and `transport` has no effect.
///
/// Threads:   they run `body` concurrently, so `body` must protect the data that they share.
/// Failure:   an exception on one rank ends the calls of the others with Error{aborted}. When all have returned, the
///            first cause is thrown here, as it was thrown there. shrink() is Error{unsupported}. If the system has no
///            thread for a rank, none runs `body`, and that is Error{system}.
TUTTI_API void run_threads(int ranks, const std::function<void(Communicator&)>& body,
                           const ConnectOptions& options = {});

}  // namespace TUTTI_ABI
}  // namespace tutti
