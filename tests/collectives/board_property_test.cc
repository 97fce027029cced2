// What runs on a board is what the steps of its plan give over links, to the last bit: random calls of all algorithms
// that may run on boards, whose sums depend on their order. And it does run there: black boxes say so.

#include <doctest/doctest.h>
#include <fcntl.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "algorithms/catalogue.h"
#include "lib/base/host.h"
#include "lib/observe/black_box_reader.h"
#include "tests/support/noise.h"
#include "tests/support/sample.h"
#include "tests/support/scratch.h"
#include "tests/support/world.h"

namespace tutti::testing {
namespace {

using Vector = std::vector<float>;
using enum Collective;

/// One call, as all ranks make it.
struct Trial {
  Collective collective{};
  std::string algorithm;
  std::size_t count = 0;            ///< elements of the vector, or of a part
  std::vector<std::size_t> counts;  ///< of the parts of a _v call; empty: it is none
  bool in_place = false;
  int root = 0;
  int op = 0;
  bool on_board = false;  ///< where there are boards
};

bool has_v(Collective collective) {
  return collective == all_gather || collective == gather || collective == scatter || collective == reduce_scatter;
}

/// Most are small; some take room on the board, some several rounds.
std::size_t draw_count(std::mt19937& random, std::size_t parts) {
  const auto draw = [&](std::size_t most) { return std::uniform_int_distribution<std::size_t>{0, most}(random); };
  switch (draw(9)) {
    case 0:
      return draw(90'000) / parts;
    case 1:
    case 2:
      return draw(5'000) / parts;
    default:
      return draw(40);
  }
}

/// What of an algorithm goes over a board, as the documentation says (docs/decisions/0013-boards.md).
bool goes_on_board(const algorithms::Entry& entry, std::size_t bytes, int ranks) {
  if (ranks == 1) return false;
  if (entry.in_row) return bytes >= 65'536;
  const bool two_rounds =
      entry.name == "direct_two_shot" || (entry.name == "all_pairs" && entry.collective == all_reduce);
  const bool shares_cores = ranks > available_cores();
  const auto parts = static_cast<std::size_t>(ranks);
  const std::size_t most_in_parts = shares_cores ? 131'072 * parts : std::min<std::size_t>(262'144, 65'536 * parts - 1);
  if ((entry.collective == scatter || entry.collective == gather) && bytes > most_in_parts) return false;
  return bytes <= 65'536 || (!two_rounds && entry.name == "direct") ||
         (shares_cores && entry.name == "direct_two_shot");
}

/// A few slices, or enough that ranks read the first of them while the last still pass.
std::size_t draw_count_in_row(std::mt19937& random) {
  const auto draw = [&](std::size_t most) { return std::uniform_int_distribution<std::size_t>{0, most}(random); };
  return draw(3) == 0 ? 100'000 + draw(700'000) : 16'000 + draw(60'000);
}

Trial draw_trial(std::mt19937& random, const algorithms::Entry& entry, int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  const auto draw = [&](int most) { return std::uniform_int_distribution<int>{0, most}(random); };
  const bool one_vector = entry.collective == all_reduce || entry.collective == reduce || entry.collective == broadcast;
  Trial trial;
  trial.collective = entry.collective;
  trial.algorithm = entry.name;
  trial.count = entry.in_row ? draw_count_in_row(random) : draw_count(random, one_vector ? 1 : n);
  std::size_t elements = one_vector ? trial.count : trial.count * n;
  if (entry.has_pipeline && draw(1) == 1) trial.algorithm += "*3";
  if (has_v(entry.collective) && draw(2) == 0) {
    for (std::size_t i = 0; i < n; ++i) trial.counts.push_back(draw(3) == 0 ? 0 : draw_count(random, n));
    elements = std::accumulate(trial.counts.begin(), trial.counts.end(), std::size_t{0});
  }
  trial.in_place = draw(1) == 1;
  trial.root = draw(ranks - 1);
  trial.op = draw(3);
  trial.on_board = goes_on_board(entry, elements * sizeof(float), ranks);
  return trial;
}

const Op& op_of(const Trial& trial) {
  static const Op ops[] = {sum, avg, premul_sum(0.3), user_op<float>([](float a, float b) { return 0.5F * a + b; })};
  return ops[trial.op];
}

/// All that one rank gets.
class Runner {
 public:
  Runner(Communicator& comm, const Trial& trial, int seed)
      : comm_(comm), trial_(trial), at_root_(comm.rank() == trial.root), n_(static_cast<std::size_t>(comm.size())) {
    counts_ = trial.counts.empty() ? std::vector<std::size_t>(n_, trial.count) : trial.counts;
    const auto own = counts_.begin() + comm.rank();
    mine_ = *own;
    first_ = std::accumulate(counts_.begin(), own, std::size_t{0});
    total_ = std::accumulate(counts_.begin(), counts_.end(), std::size_t{0});
    seed_ = seed * 64 + comm.rank();
  }

  Vector run() {
    switch (trial_.collective) {
      case all_reduce:
        return from_vector([&](auto in, auto out) { comm_.all_reduce(in, out, op_of(trial_), call()); });
      case reduce:
        return from_vector([&](auto in, auto out) { comm_.reduce(in, out, op_of(trial_), trial_.root, call()); });
      case broadcast: {
        Vector data = at_root_ ? noise(trial_.count, seed_) : Vector(trial_.count);
        comm_.broadcast(data, trial_.root, call());
        return data;
      }
      case all_gather:
      case gather:
        return gathered();
      case scatter:
      case reduce_scatter:
        return scattered();
      case all_to_all: {
        Vector in = noise(total_, seed_), out(total_);
        comm_.all_to_all(in, trial_.in_place ? in : out, call());
        return trial_.in_place ? in : out;
      }
      case scan:
        return from_vector([&](auto in, auto out) { comm_.scan(in, out, op_of(trial_), call()); });
      case exclusive_scan:
        return from_vector([&](auto in, auto out) { comm_.exclusive_scan(in, out, op_of(trial_), call()); });
      case barrier:
        comm_.barrier(call());
        return {};
    }
    return {};
  }

 private:
  CallOptions call() const { return {.algorithm = trial_.algorithm}; }
  bool is_v() const { return !trial_.counts.empty(); }

  template <class Call>
  Vector from_vector(Call&& call) {
    Vector in = noise(trial_.count, seed_), out(trial_.count);
    call(std::span{in}, std::span{trial_.in_place ? in : out});
    if (trial_.collective == reduce && !at_root_) return {};
    return trial_.in_place ? in : out;
  }

  Vector gathered() {
    const bool rooted_call = trial_.collective == gather;
    Vector own = noise(mine_, seed_), all(total_);
    const bool in_place = trial_.in_place && (at_root_ || !rooted_call);
    if (in_place) std::ranges::copy(own, all.begin() + static_cast<std::ptrdiff_t>(first_));
    const std::span<float> in = in_place ? std::span{all}.subspan(first_, mine_) : std::span{own};
    if (rooted_call) {
      is_v() ? comm_.gather_v(in, all, counts_, trial_.root, call()) : comm_.gather(in, all, trial_.root, call());
      return at_root_ ? all : Vector{};
    }
    is_v() ? comm_.all_gather_v(in, all, counts_, call()) : comm_.all_gather(in, all, call());
    return all;
  }

  Vector scattered() {
    const bool rooted_call = trial_.collective == scatter;
    Vector all = noise(total_, seed_), own(mine_);
    const bool in_place = trial_.in_place && (at_root_ || !rooted_call);
    const std::span<float> out = in_place ? std::span{all}.subspan(first_, mine_) : std::span{own};
    if (rooted_call)
      is_v() ? comm_.scatter_v(all, counts_, out, trial_.root, call()) : comm_.scatter(all, out, trial_.root, call());
    else
      is_v() ? comm_.reduce_scatter_v(all, out, counts_, op_of(trial_), call())
             : comm_.reduce_scatter(all, out, op_of(trial_), call());
    return {out.begin(), out.end()};
  }

  Communicator& comm_;
  const Trial& trial_;
  bool at_root_;
  std::size_t n_;
  std::vector<std::size_t> counts_;
  std::size_t mine_, first_, total_;
  int seed_;
};

bool last_was_on_board(const std::string& box) {
  const Descriptor file(::open(box.c_str(), O_RDONLY | O_CLOEXEC));
  return (black_box::read(file, box).entries.back().call.flags & black_box::Flags::on_board) != 0;
}

using Results = std::vector<std::vector<Vector>>;  // by trial and rank

Results results_of(const WorldOptions& options, const std::vector<Trial>& trials) {
  const Folder folder;
  const Setting setting{"TUTTI_BLACK_BOX", folder.name + "/%r"};
  Results results(trials.size(), std::vector<Vector>(static_cast<std::size_t>(options.ranks)));
  run_ranks(options, [&](Communicator& comm) {
    for (std::size_t i = 0; i < trials.size(); ++i) {
      const auto rank = static_cast<std::size_t>(comm.rank());
      results[i][rank] = Runner{comm, trials[i], static_cast<int>(i)}.run();
      const bool on_board = last_was_on_board(folder.name + "/" + std::to_string(rank));
      if (on_board != (options.boards && trials[i].on_board))
        throw std::runtime_error(std::string{name_of(trials[i].collective)} + " with " + trials[i].algorithm + ", " +
                                 std::to_string(trials[i].count) + (on_board ? " ran on a board" : " ran over links"));
    }
  });
  return results;
}

TEST_CASE("random calls give the same bits on boards as over links, and run where they should") {
  const int tries = only_a_sanitized_sample() ? 2 : 8;
  std::size_t compared = 0;
  Lot lot{1, 6};
  for (int ranks = 1; ranks <= 16; ++ranks) {
    if (ranks > 3 && !lot.draws()) continue;
    std::mt19937 random(sample_seed(static_cast<unsigned>(ranks)));
    std::vector<Trial> trials;
    for (int i = 0; i < tries; ++i)
      for (const algorithms::Entry& entry : algorithms::catalogue())
        if (entry.mesh || entry.in_row) trials.push_back(draw_trial(random, entry, ranks));
    const Results on_boards = results_of({.ranks = ranks}, trials);
    const Results over_links = results_of({.ranks = ranks, .boards = false}, trials);
    for (std::size_t i = 0; i < trials.size(); ++i)
      for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank, ++compared) {
        const Vector &one = on_boards[i][rank], &other = over_links[i][rank];
        const bool same = one.size() == other.size() &&
                          (one.empty() || std::memcmp(one.data(), other.data(), sizeof(float) * one.size()) == 0);
        CHECK_MESSAGE(same, name_of(trials[i].collective), " with ", trials[i].algorithm, ", ", trials[i].count,
                      trials[i].counts.empty() ? " elements" : " (_v)", trials[i].in_place ? ", in place" : "", ", op ",
                      trials[i].op, ", root ", trials[i].root, ", rank ", rank, " of ", ranks);
      }
  }
  std::printf("%zu results compared, 1 to 16 ranks\n", compared);
}

TEST_CASE("an algorithm that is no mesh and has no row runs over links") {
  const Folder folder;
  const Setting setting{"TUTTI_BLACK_BOX", folder.name + "/%r"};
  run_ranks({.ranks = 2}, [&](Communicator& comm) {
    int data = comm.rank();
    for (const char* const name : {"ring", "doubling", "tree", "direct"}) {
      comm.all_reduce(std::span{&data, 1}, sum, {.algorithm = name});
      const bool on_board = last_was_on_board(folder.name + "/" + std::to_string(comm.rank()));
      CHECK(on_board == (std::string{name} == "direct"));
    }
  });
}

TEST_CASE("a call by domains runs on a board if it fits into a round and does not average") {
  const Folder folder;
  const Setting setting{"TUTTI_BLACK_BOX", folder.name + "/%r"};
  run_ranks({.ranks = 3}, [&](Communicator& comm) {
    const auto is_on_board = [&](std::size_t count, const Op& op, const char* name) {
      Vector data(count);
      comm.all_reduce(data, op, {.algorithm = name});
      return last_was_on_board(folder.name + "/" + std::to_string(comm.rank()));
    };
    CHECK(is_on_board(1, sum, "hierarchical:2+1"));
    CHECK(is_on_board(16'384, sum, "hierarchical:0.2+1"));
    CHECK_FALSE(is_on_board(16'385, sum, "hierarchical:0.2+1"));
    CHECK_FALSE(is_on_board(1, avg, "hierarchical:2+1"));
    CHECK_FALSE(is_on_board(1, sum, "hierarchical:2"));
  });
}

}  // namespace
}  // namespace tutti::testing
