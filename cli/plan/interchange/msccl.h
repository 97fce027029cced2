#pragma once

// MSCCL's algorithms as in its XML, and the conversion from and to plans. See docs/interchange.md.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/plan.h"
#include "tutti/types.h"

namespace tutti::cli::interchange {

/// `<step>`: one instruction. Offsets and counts are in chunks; -1 if an instruction has no such operand.
struct MscclStep {
  std::string type{};
  char srcbuf = 'i';
  int srcoff = -1;
  char dstbuf = 'o';
  int dstoff = -1;
  int cnt = 0;
  int depid = -1;  ///< thread block of the same gpu, and
  int deps = -1;   ///< its step, for which this one waits
  bool hasdep = false;
};

/// `<tb>`: instructions one after the other, with one peer for sending and one for receiving.
struct MscclBlock {
  int id = 0;
  int send = -1;
  int recv = -1;
  int chan = 0;
  std::vector<MscclStep> steps{};
};

/// `<gpu>`: a rank.
struct MscclGpu {
  int id = 0;
  int i_chunks = 0;
  int o_chunks = 0;
  int s_chunks = 0;
  std::vector<MscclBlock> blocks{};
};

/// `<algo>`
struct MscclProgram {
  std::string name{};
  std::string proto = "Simple";
  std::string coll{};
  int nchannels = 1;
  int nchunksperloop = 0;   ///< chunks of the whole vector; 0: as many as the largest buffer has
  bool inplace = false;     ///< right if input and output are the same memory,
  bool outofplace = false;  ///< and if they are not; only newer files have it
  int root = 0;             ///< our extension: MSCCL's files do not have it
  std::vector<MscclGpu> gpus{};
};

/// Limits of the runtime (msccl-executor-nccl). A file that is only read here may exceed them.
struct MscclLimits {
  static constexpr int thread_blocks = 128;  ///< numbered by a signed byte
  static constexpr int steps = 256;          ///< per thread block
  static constexpr int chunks_at_once = 71;  ///< cnt
};

/// MSCCL's name of a collective ("allreduce"); empty where it has none.
std::string_view msccl_name(Collective collective);
/// The inverse; also accepts '_'.
std::optional<Collective> collective_of_msccl(std::string_view name);

/// Throws Error{unsupported} for a barrier or a scan, which MSCCL does not have.
MscclProgram msccl_program(const std::string& name, Collective collective, const std::vector<algorithms::Plan>& plans);
/// What the runtime would refuse, in a sentence; empty if nothing.
std::string beyond_limits(const MscclProgram& program);

std::string to_xml(const MscclProgram& program);

}  // namespace tutti::cli::interchange
