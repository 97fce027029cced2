// Finds an order in which a program's instructions can be executed.
//
// MSCCL has channels, and messages of two channels between two ranks may overtake each other. Our links keep order, so
// we need an order that suits both ends. A message passes when both its ends are ready, which leaves no message in
// flight that another could overtake. Only if no step can proceed in that way, a send runs ahead of its receive, and
// from then on the receiver must take the messages of that link in order. A program with one channel per pair of ranks
// leaves no choice and is always completed in this way if that is possible.

#include "cli/plan/interchange/msccl_order.h"

#include <fmt/format.h>

#include <deque>
#include <map>
#include <set>
#include <utility>

#include "algorithms/describe.h"
#include "cli/plan/interchange/msccl_run.h"

namespace tutti::cli::interchange {
namespace {

class Run {
 public:
  Run(const MscclProgram& program, const std::vector<Atom>& atoms)
      : program_(program), atoms_(atoms), waits_(atoms.size(), 0), next_(atoms.size()), done_(atoms.size(), false) {
    for (std::size_t id = 0; id < atoms.size(); ++id) {
      waits_[id] = atoms[id].after.size();
      for (const std::size_t before : atoms[id].after) next_[before].push_back(id);
    }
  }

  std::vector<std::size_t> order() && {
    for (std::size_t id = 0; id < atoms_.size(); ++id)
      if (waits_[id] == 0) ready_.push_back(id);
    do {
      go_on();
    } while (send_ahead());
    if (order_.size() < atoms_.size()) explain();
    return std::move(order_);
  }

 private:
  using Link = std::pair<int, int>;  // sender and receiver

  Link link_of(std::size_t id) const {
    const Atom& atom = atoms_[id];
    return algorithms::sends(atom.verb) ? Link{atom.rank, atom.peer} : Link{atom.peer, atom.rank};
  }

  void go_on() {
    while (!ready_.empty()) {
      const std::size_t id = ready_.front();
      ready_.pop_front();
      if (done_[id]) continue;  // a send that was to look again, and has passed meanwhile
      const Atom& atom = atoms_[id];
      if (atom.waits_only || algorithms::is_local(atom.verb)) {
        complete(id);
        continue;
      }
      waiting_.insert(id);
      try_message(algorithms::sends(atom.verb) ? id : atom.partner);
    }
  }

  /// Lets the message of that send pass if both its ends are ready and no message is before it on the link.
  void try_message(std::size_t send) {
    const std::size_t receive = atoms_[send].partner;
    std::deque<std::size_t>& under_way = under_way_[link_of(send)];
    if (!waiting_.contains(receive)) return;
    const bool was_ahead = !under_way.empty();
    if (was_ahead) {
      if (under_way.front() != send) return;
      under_way.pop_front();
    } else {
      if (waiting_.erase(send) == 0) return;
      complete(send);
    }
    waiting_.erase(receive);
    complete(receive);
    if (!under_way.empty())
      try_message(under_way.front());
    else if (was_ahead)
      look_again(link_of(send));
  }

  /// Retries the sends that had to let earlier messages go first.
  void look_again(const Link& link) {
    for (const std::size_t id : waiting_)
      if (algorithms::sends(atoms_[id].verb) && link_of(id) == link) ready_.push_back(id);
  }

  bool send_ahead() {
    for (const std::size_t id : waiting_)
      if (algorithms::sends(atoms_[id].verb)) {
        waiting_.erase(id);
        under_way_[link_of(id)].push_back(id);
        complete(id);
        return true;
      }
    return false;
  }

  void complete(std::size_t id) {
    order_.push_back(id);
    done_[id] = true;
    for (const std::size_t next : next_[id])
      if (--waits_[next] == 0) ready_.push_back(next);
  }

  /// No step can proceed: a receive that is ready waits for a message, or steps wait for each other in a circle.
  [[noreturn]] void explain() {
    for (const std::size_t id : waiting_) {
      const Atom& send = atoms_[atoms_[id].partner];
      if (done_[atoms_[id].partner])
        refuse_step(program_, atoms_[id],
                    fmt::format("deadlock: {} stands before what it waits for on the one link between these ranks, "
                                "though on another channel",
                                name_of(program_, atoms_[under_way_[link_of(id)].front()])));
      refuse_step(program_, atoms_[id],
                  fmt::format("deadlock: waits forever for {}, which {}", name_of(program_, send), reason(send)));
    }
    for (std::size_t id = 0; id < atoms_.size(); ++id)
      if (!done_[id]) refuse_step(program_, atoms_[id], "deadlock: never runs, it " + reason(atoms_[id]));
    std::abort();
  }

  std::string reason(const Atom& atom) const {
    for (const std::size_t before : atom.after)
      if (!done_[before]) return "waits for " + name_of(program_, atoms_[before]);
    return "is ready";
  }

  const MscclProgram& program_;
  const std::vector<Atom>& atoms_;
  std::vector<std::size_t> waits_;              // per atom: number of atoms that it waits for
  std::vector<std::vector<std::size_t>> next_;  // per atom: those that wait for it
  std::vector<bool> done_;
  std::deque<std::size_t> ready_;
  std::set<std::size_t> waiting_;  // ready except for the other end
  std::map<Link, std::deque<std::size_t>> under_way_;
  std::vector<std::size_t> order_;
};

}  // namespace

Atoms put_in_order(const MscclProgram& program) {
  Atoms atoms{take_apart(program), {}};
  atoms.order = Run{program, atoms.all}.order();
  return atoms;
}

}  // namespace tutti::cli::interchange
