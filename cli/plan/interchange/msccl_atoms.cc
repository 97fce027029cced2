// Takes MSCCL's instructions apart into the verbs of plans, and pairs the two ends of each message.
//
// Only one thread block sends to its peer on its channel, and only one receives there. So the k-th message of the
// sender is the k-th of the receiver.

#include <fmt/format.h>

#include <array>
#include <map>
#include <tuple>

#include "algorithms/describe.h"
#include "cli/plan/interchange/msccl_order.h"
#include "cli/plan/interchange/msccl_run.h"
#include "tutti/error.h"

namespace tutti::cli::interchange {
namespace {

using algorithms::Verb;

/// The actions of an instruction, in this order.
struct Kind {
  std::string_view type;
  bool receives;
  bool reduces;
  bool stores;  ///< stores the received data
  bool sends;
};
constexpr std::array kinds{
    Kind{"s", false, false, false, true}, Kind{"r", true, false, true, false},  Kind{"rcs", true, false, true, true},
    Kind{"rrs", true, true, false, true}, Kind{"rrc", true, true, true, false}, Kind{"rrcs", true, true, true, true},
};

class Dissection {
 public:
  explicit Dissection(const MscclProgram& program) : program_(program) {}

  std::vector<Atom> take_apart() && {
    for (const MscclGpu& gpu : program_.gpus) {
      last_.emplace_back();
      for (std::size_t block = 0; block < gpu.blocks.size(); ++block) {
        at_.rank = gpu.id;
        at_.block = block;
        last_.back().emplace_back();
        previous_ = none;
        for (const MscclStep& step : gpu.blocks[block].steps) add(gpu.blocks[block], step);
      }
    }
    for (const MscclGpu& gpu : program_.gpus)
      for (std::size_t block = 0; block < gpu.blocks.size(); ++block) depend(gpu, block);
    return std::move(atoms_);
  }

 private:
  static constexpr std::size_t none = ~std::size_t{0};

  void add(const MscclBlock& block, const MscclStep& step) {
    at_.step = static_cast<int>(last_.back().back().size());
    first_.push_back(atoms_.size());
    const ChunkRange src{step.srcbuf, step.srcoff};
    const ChunkRange dst{step.dstbuf, step.dstoff};
    if (step.type == "nop")
      add_atom({.waits_only = true});
    else if (step.type == "cpy")
      add_atom({.verb = Verb::copy, .count = step.cnt, .dst = dst, .left = src});
    else if (step.type == "re")
      add_atom({.verb = Verb::reduce, .count = step.cnt, .dst = dst, .left = dst, .right = src});
    else
      add_message(block, step, src, dst);
    last_.back().back().push_back(atoms_.size() - 1);
  }

  void add_message(const MscclBlock& block, const MscclStep& step, ChunkRange src, ChunkRange dst) {
    const Kind* kind = nullptr;
    for (const Kind& known : kinds)
      if (known.type == step.type) kind = &known;
    if (!kind) refuse(fmt::format("type \"{}\" is not one of s, r, rcs, rrs, rrc, rrcs, cpy, re and nop", step.type));
    if (kind->sends && block.send < 0) refuse("sends, but its thread block has no peer to send to");
    if (kind->receives && block.recv < 0) refuse("receives, but its thread block has no peer to receive from");
    if (!kind->stores) dst = {'t', static_cast<int>(atoms_.size())};
    if (kind->receives && kind->reduces)
      add_atom({.verb = Verb::recv_reduce, .peer = block.recv, .count = step.cnt, .dst = dst, .left = src});
    else if (kind->receives)
      add_atom({.verb = Verb::recv, .peer = block.recv, .count = step.cnt, .dst = dst});
    if (kind->sends)
      add_atom({.verb = Verb::send, .peer = block.send, .count = step.cnt, .left = kind->receives ? dst : src});
  }

  void add_atom(Atom atom) {
    atom.rank = at_.rank;
    atom.block = at_.block;
    atom.step = at_.step;
    if (!atom.waits_only && atom.count < 1) refuse(fmt::format("moves {} chunks (cnt)", atom.count));
    if (previous_ != none) atom.after.push_back(previous_);
    previous_ = atoms_.size();
    atoms_.push_back(std::move(atom));
  }

  /// Adds the dependencies that the steps of one thread block declare.
  void depend(const MscclGpu& gpu, std::size_t block) {
    const std::size_t rank = static_cast<std::size_t>(gpu.id);
    for (const MscclStep& step : gpu.blocks[block].steps) {
      Atom& atom = atoms_[first_[next_first_++]];
      if (step.depid < 0) continue;
      at_ = atom;
      std::size_t other = 0;
      while (other < gpu.blocks.size() && gpu.blocks[other].id != step.depid) ++other;
      if (other == gpu.blocks.size() || step.deps < 0 ||
          static_cast<std::size_t>(step.deps) >= gpu.blocks[other].steps.size())
        refuse(fmt::format("waits for thread block {} step {}, which does not exist", step.depid, step.deps));
      const std::size_t target = static_cast<std::size_t>(step.deps);
      if (other == block && step.deps >= atom.step) refuse("waits for a later step of its own thread block");
      if (!gpu.blocks[other].steps[target].hasdep)
        refuse(fmt::format("waits for thread block {} step {}, which does not signal its end (hasdep is 0)", step.depid,
                           step.deps));
      atom.after.push_back(last_[rank][other][target]);
    }
  }

  [[noreturn]] void refuse(const std::string& why) const { refuse_step(program_, at_, why); }

  const MscclProgram& program_;
  std::vector<Atom> atoms_;
  std::vector<std::size_t> first_;                           // per step in the order of the file: its first atom
  std::vector<std::vector<std::vector<std::size_t>>> last_;  // per rank, thread block and step: its last atom
  std::size_t next_first_ = 0;
  std::size_t previous_ = none;  // of the thread block
  Atom at_;                      // the current place
};

/// Sender, receiver and channel.
using Channel = std::tuple<int, int, int>;

struct Ends {
  std::vector<std::size_t> sends;
  std::vector<std::size_t> receives;
};

std::map<Channel, Ends> find_ends(const MscclProgram& program, const std::vector<Atom>& atoms) {
  std::map<Channel, Ends> channels;
  for (std::size_t id = 0; id < atoms.size(); ++id) {
    const Atom& atom = atoms[id];
    if (atom.waits_only || algorithms::is_local(atom.verb)) continue;
    const int chan = program.gpus[static_cast<std::size_t>(atom.rank)].blocks[atom.block].chan;
    const bool out = algorithms::sends(atom.verb);
    Ends& ends = channels[out ? Channel{atom.rank, atom.peer, chan} : Channel{atom.peer, atom.rank, chan}];
    std::vector<std::size_t>& side = out ? ends.sends : ends.receives;
    if (!side.empty() && atoms[side.front()].block != atom.block)
      refuse_step(program, atom,
                  fmt::format("{} on channel {} as {} does, and their messages would mix",
                              out ? fmt::format("sends to rank {}", atom.peer)
                                  : fmt::format("receives from rank {}", atom.peer),
                              chan, name_of(program, atoms[side.front()])));
    side.push_back(id);
  }
  return channels;
}

}  // namespace

void refuse_step(const MscclProgram& program, const Atom& atom, const std::string& why) {
  const std::string& type = program.gpus[static_cast<std::size_t>(atom.rank)]
                                .blocks[atom.block]
                                .steps[static_cast<std::size_t>(atom.step)]
                                .type;
  throw Error{ErrorCode::invalid_argument, fmt::format("{} ({}): {}", name_of(program, atom), type, why)};
}

std::string name_of(const MscclProgram& program, const Atom& atom) {
  return fmt::format("rank {} thread block {} step {}", atom.rank,
                     program.gpus[static_cast<std::size_t>(atom.rank)].blocks[atom.block].id, atom.step);
}

std::vector<Atom> take_apart(const MscclProgram& program) {
  std::vector<Atom> atoms = Dissection{program}.take_apart();
  for (const auto& [channel, ends] : find_ends(program, atoms)) {
    const auto& [sender, receiver, chan] = channel;
    for (std::size_t i = 0; i < std::min(ends.sends.size(), ends.receives.size()); ++i) {
      Atom& send = atoms[ends.sends[i]];
      Atom& receive = atoms[ends.receives[i]];
      if (send.count != receive.count)
        refuse_step(program, send,
                    fmt::format("sends {} chunks to {}, which expects {}", send.count, name_of(program, receive),
                                receive.count));
      send.partner = ends.receives[i];
      receive.partner = ends.sends[i];
    }
    if (ends.sends.size() > ends.receives.size())
      refuse_step(program, atoms[ends.sends[ends.receives.size()]],
                  fmt::format("sends a message on channel {} that rank {} never receives", chan, receiver));
    if (ends.sends.size() < ends.receives.size())
      refuse_step(program, atoms[ends.receives[ends.sends.size()]],
                  fmt::format("waits on channel {} for a message that rank {} never sends", chan, sender));
  }
  return atoms;
}

}  // namespace tutti::cli::interchange
