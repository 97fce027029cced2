#include "lib/base/environment.h"

#include <array>
#include <cstdlib>
#include <vector>

#include "lib/base/nearest.h"
#include "tutti/error.h"

namespace tutti {
namespace {

constexpr std::array table{
    Variable{"TUTTI_RANK", "0 to size - 1", "the launcher's", "This process's place among all."},
    Variable{"TUTTI_SIZE", "a number from 1", "the launcher's", "How many processes there are."},
    Variable{"TUTTI_LOCAL_RANK", "0 to local size - 1", "the launcher's",
             "This process's place among those of its host."},
    Variable{"TUTTI_LOCAL_SIZE", "a number from 1", "the launcher's", "How many processes this host has."},
    Variable{"TUTTI_RDZV",
             "tcp://host:port (rank 0 serves) | store://host:port (served already) | file:///path | env://",
             "the launcher's, or MASTER_ADDR and MASTER_PORT", "Where the ranks meet."},
    Variable{"TUTTI_JOB", "any word", "none", "Separates jobs that share a store."},
    Variable{"TUTTI_SECRET", "16 to 4096 characters, the same for all ranks",
             "made by `tutti run` on one node; else none",
             "The job's secret: who does not know it cannot join, read its store or reach its ranks.", true},
    Variable{"TUTTI_SECRET_FILE", "path of a file that only its user may read", "none", "The same, from a file."},
    Variable{"TUTTI_INSECURE", "0 | 1", "0",
             "1: without a secret, a store may be reachable from other hosts all the same."},
    Variable{"TUTTI_TLS", "0 | 1", "0",
             "1, for all ranks: what goes over TCP, to the store and between ranks, is encrypted. Needs a secret."},
    Variable{"TUTTI_TIMEOUT", "seconds, e.g. 30 or 0.5", "300", "Deadline of set-up and of each operation."},
    Variable{"TUTTI_LOST_AFTER", "seconds, from 1", "10",
             "Silence after which a rank counts as lost; one whose process ends is noticed at once."},
    Variable{"TUTTI_TRANSPORT", "list of shm, tcp; ^ before it excludes: ^shm", "shm,tcp", "What ranks may talk over."},
    Variable{"TUTTI_ALGO", "an algorithm, or collective:algorithm;...  e.g. ring, or all_reduce:ring;broadcast:tree",
             "the tuning table's choice", "Algorithm of every call that names none itself."},
    Variable{"TUTTI_TUNING_FILE", "path", "the built-in table", "Tuning table that chooses the algorithms."},
    Variable{"TUTTI_PLAN_FILE", "path of what `tutti plan --save` wrote", "none",
             "A plan of your own for one collective, used by calls that name no algorithm."},
    Variable{"TUTTI_SOCKET_IFNAME", "list of prefixes; = before it: exact names; ^ before it: excluded",
             "NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME, or the route to the rendezvous",
             "Network interfaces over which peers reach this process."},
    Variable{"TUTTI_SOCKET_FAMILY", "AF_INET | AF_INET6", "either", "Kind of address to offer to peers."},
    Variable{"TUTTI_ISA", "generic | avx2 | avx512 | avx512fp16", "the best this processor has",
             "Instructions used to reduce."},
    Variable{"TUTTI_DETERMINISTIC", "0 | 1", "0",
             "1: results are the left fold in rank order, whatever the algorithm."},
    Variable{"TUTTI_CHECKSUM", "0 | 1", "0",
             "1: every message carries a CRC-32C of its payload, which its receiver verifies."},
    Variable{"TUTTI_CONGESTION", "a name from /proc/sys/net/ipv4/tcp_available_congestion_control", "the system's",
             "TCP congestion control of connections between ranks."},
    Variable{"TUTTI_SPIN", "a number of tries | auto", "auto",
             "How often a wait looks again before it yields the core."},
    Variable{
        "TUTTI_FLAT_BYTES", "bytes | 0 (off)", "no limit",
        "What a rank may contribute to a collective that goes through memory of all ranks, without messages; 0: also "
        "sends and receives are all done by the engine."},
    Variable{"TUTTI_STORES", "auto | plain | streaming", "auto",
             "How payloads are written to shared memory; auto: past the caches where plain stores are slow."},
    Variable{
        "TUTTI_SINGLE_COPY", "auto | off | on", "auto",
        "Whether messages from 64 KiB on are read where they lie in the sender's memory; auto: where that is quicker."},
    Variable{"TUTTI_INJECT", "FAULT:key=value,...;...  e.g. kill:rank=2,op=5,step=3, or refuse:call=memfd,errno=EMFILE",
             "none", "Faults to play, to see how the program and the other ranks take them."},
    Variable{"TUTTI_BLACK_BOX", "a path with %r, the rank | off", "memory that `tutti blackbox PID` finds",
             "Where the last operations of each rank are noted down; a file stays when the rank has gone."},
    Variable{"TUTTI_BLACK_BOX_FD", "a descriptor", "none", "`tutti run` passes on the memory for them with it."},
    Variable{"TUTTI_TRACE_FILE", "a path", "none",
             "Every step, wait and message of all ranks goes there, for Perfetto and `tutti trace`."},
    Variable{"TUTTI_TRACE_RECORDS", "a number from 16", "65536",
             "How many records of 64 bytes a rank keeps for its trace; later ones take the place of the oldest."},
    Variable{"TUTTI_TRACE_FD", "a descriptor", "none", "`tutti run` passes on the memory for them with it."},
    Variable{"TUTTI_DEBUG", "VERSION | WARN | INFO | TRACE", "warnings, without a head",
             "What ranks tell about what they do."},
    Variable{"TUTTI_DEBUG_SUBSYS",
             "list of INIT, NET, SHM, STORE, COLL, P2P, ALGO, TUNE, ENV, ALL; ^ before it excludes",
             "INIT,NET,SHM,STORE,ENV", "About which parts; COLL and P2P tell of every operation at TRACE."},
    Variable{"TUTTI_DEBUG_FILE", "a path with %h host, %p pid, %r rank", "stderr", "Where they tell it."},
    Variable{"TUTTI_TESTS_MIN_BW", "GB/s", "none", "`tutti bench` fails when the average bus bandwidth is lower."},
};

}  // namespace

std::span<const Variable> variables() { return table; }

void check_environment(const char* const* environ) {
  constexpr std::string_view ours = "TUTTI_";
  std::vector<std::string_view> known;
  for (const Variable& variable : table) known.push_back(variable.name);
  for (; *environ != nullptr; ++environ) {
    const std::string_view entry = *environ;
    const std::string_view name = entry.substr(0, entry.find('='));
    if (!name.starts_with(ours)) continue;
    bool found = false;
    for (const std::string_view candidate : known) found = found || candidate == name;
    if (!found)
      throw Error{ErrorCode::invalid_argument,
                  "unknown environment variable " + std::string{name} + "." + did_you_mean(name, known) +
                      " `tutti doctor --env` lists all; unset what is not meant for tutti."};
  }
}

std::optional<std::string> variable(std::string_view name) {
  const char* value = std::getenv(std::string{name}.c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

}  // namespace tutti
