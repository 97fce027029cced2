#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tutti/store.h"

namespace tutti {
inline namespace TUTTI_ABI {

inline constexpr int any_source = -1;
inline constexpr int any_tag = -1;
/// The colour of a rank that takes part in split() and joins no group.
inline constexpr int no_group = -1;

/// Options of one call of a collective.
struct CallOptions {
  /// Name from the catalogue (`tutti plan --list`), e.g. "ring", "tree:4" (radix 4); empty: plan_file, TUTTI_ALGO or
  /// the tuning table chooses, in this order.
  std::string_view algorithm = {};
  /// After this the call fails with Error{timeout}; 0: the communicator's.
  std::chrono::milliseconds timeout{0};
  /// With device memory: the CUstream or cudaStream_t in whose order the call reads and writes. Null: the legacy
  /// default stream. See gpu.h.
  void* stream = nullptr;
};

struct MessageOptions {
  /// Matches a send with a receive; 0 to 2^30. A receive may give `any_tag`.
  int tag = 0;
  std::chrono::milliseconds timeout{0};
  /// As CallOptions::stream.
  void* stream = nullptr;
};

/// How this process joins the others. Leave a field at its default to take it from the launcher's environment.
struct ConnectOptions {
  /// The rank of this process, from 0, and the number of ranks.
  std::optional<int> rank = {};
  std::optional<int> size = {};
  /// "env://", "tcp://host:port" (rank 0 serves), "store://host:port" (served already), "file:///path"; empty: from the
  /// environment.
  std::string rendezvous = {};
  /// A store of your own, used instead of `rendezvous`; `rank` and `size` are then required here or in the environment.
  std::shared_ptr<Store> store = {};
  /// Separates jobs that share a store.
  std::string job = {};
  /// Path of a file that other users may not read (mode 0600, or mounted into a container as docs/security.md says)
  /// with the secret that all ranks share: a process that does not know it can neither read the store nor reach a rank.
  /// Empty: TUTTI_SECRET, TUTTI_SECRET_FILE, or the one that `tutti run` makes. Rank 0 serves a store without a secret
  /// on loopback only, unless TUTTI_INSECURE=1. See docs/security.md.
  std::string secret_file = {};
  /// Encrypts all that goes over TCP, to the store and between ranks: TLS 1.3 with keys derived from the secret, which
  /// is required. The same on all ranks; TUTTI_TLS=1 switches it on, too. A store of the launcher's own, such as
  /// torchrun's, is not encrypted, nor is shared memory; one of yours only if it is so by itself (tcp_store() with
  /// TUTTI_TLS=1). Throws Error{unsupported} if the library was built without TLS.
  bool tls = false;

  /// How long set-up may take; 0: TUTTI_TIMEOUT or 300 s.
  std::chrono::milliseconds setup_timeout{0};
  /// Deadline of an operation that gives none itself; 0: TUTTI_TIMEOUT or 300 s.
  std::chrono::milliseconds timeout{0};
  /// Silence after which a rank counts as lost: its process is stopped, or its host or network is down. At least 1 s;
  /// 0: TUTTI_LOST_AFTER or 10 s. A process that ends is noticed at once.
  std::chrono::milliseconds lost_after{0};
  /// Every result is the left fold in rank order, for every size, transport and tuning.
  bool deterministic = false;

  // Performance; most programs leave these at their defaults.

  /// "shm,tcp", "tcp", "^shm" ...: what ranks may talk over; empty: TUTTI_TRANSPORT or everything.
  std::string transport = {};
  /// Path of a tuning table; empty: TUTTI_TUNING_FILE or the built-in one.
  std::string tuning_file = {};
  /// Path of a plan of your own (`tutti plan --save`), the same on all ranks; empty: TUTTI_PLAN_FILE, or none. It is
  /// proved here, and connect() throws Error{invalid_argument} if it is wrong. A call that names no algorithm
  /// uses it if collective, number of ranks and root match; CallOptions::algorithm may name it, too.
  std::string plan_file = {};
};

}  // namespace TUTTI_ABI
}  // namespace tutti
