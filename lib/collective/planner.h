#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "algorithms/board_program.h"
#include "algorithms/catalogue.h"
#include "algorithms/exchange.h"
#include "algorithms/plan_text.h"
#include "algorithms/row_program.h"
#include "algorithms/select.h"
#include "algorithms/window_program.h"
#include "lib/observe/black_box.h"
#include "lib/observe/log.h"

namespace tutti::detail {

/// A plan, with everything that its execution needs.
struct Prepared {
  algorithms::Plan plan;
  std::string name;          ///< with parameters: "tree:4"
  black_box::Label label{};  ///< of the name
  std::uint32_t hash = 0;
  bool reads_copied_blocks = false;      ///< a block of the input may be read after it was copied to the output
  bool copies_sends = false;             ///< successors of a send need not wait until it is sent: its message is copied
  int senders_to_root = 0;               ///< ranks that send to this one, if it is the root and sends nothing; else 0
  std::vector<std::uint32_t> waits_for;  ///< per step: those of the plan, plus one for its turn if it has a lane
  std::vector<algorithms::StepId> first;            ///< steps that wait for nothing
  std::optional<algorithms::Exchange> exchange{};   ///< given if the plan is so simple
  std::optional<algorithms::BoardProgram> board{};  ///< none: the plan runs over links,
  std::shared_ptr<std::byte[]> board_scratch{};     ///< for the board program; its calls run one at a time
  std::string why_no_board{};  ///< because it "takes more than two rounds"; empty: there is a board program
  std::optional<algorithms::RowProgram> row{};        ///< instead of a board program, if sums pass along a row of ranks
  std::optional<algorithms::WindowProgram> window{};  ///< given for the algorithm for shared buffers
};

/// Chooses algorithms and keeps their plans. Plans know no sizes, so a few serve all calls.
class Planner {
 public:
  struct Settings {
    int rank = 0;
    int ranks = 1;
    std::string transport;       ///< as in algorithms::Situation
    int ranks_on_each_host = 0;  ///< the same
    std::vector<int> domains{};  ///< the same
    bool oversubscribed = false;
    bool boards = true;
    bool deterministic = false;
    std::string default_algorithms;  ///< TUTTI_ALGO: "ring" or "all_reduce:ring;broadcast:tree"
    std::shared_ptr<const algorithms::TuningTable> table;
    std::shared_ptr<const algorithms::GivenPlans> given{};  ///< TUTTI_PLAN_FILE, proved; null: none
    const Log* log = nullptr;                               ///< is told of choices and plans; may be null
  };
  explicit Planner(Settings settings);

  struct Wish {
    Collective collective{};
    std::string_view algorithm{};  ///< empty: choose
    std::size_t bytes = 0;
    int root = 0;
    bool equal_parts = true;
  };
  /// Throws Error{invalid_argument} for an unknown name, {unsupported} for one that cannot serve this call.
  const Prepared& prepare(const Wish& wish);
  /// A barrier under the name `of`, for a call whose bytes another mechanism moves. The hash differs from that of any
  /// algorithm.
  const Prepared& prepare_stand_in(const std::string& of);
  algorithms::Choice choose(const Wish& wish) const;
  /// Name of the algorithm that prepare() would use.
  std::string name_of_choice(const Wish& wish) const;
  /// Whether the user has named an algorithm for calls that name none (default_algorithms), or given a plan that
  /// serves.
  bool has_default(const Wish& wish) const;
  /// Whether the table wants such a call on GPUs to go through the host, and nobody has named an algorithm for it.
  bool stages(const Wish& wish) const;
  const Settings& settings() const { return settings_; }

 private:
  struct Remembered {
    Wish wish;
    std::string algorithm;
    const Prepared* prepared;
  };
  algorithms::Situation situation_of(const Wish& wish) const;
  bool wants_given(const Wish& wish) const;
  std::string why_not_given(const Wish& wish) const;
  std::unique_ptr<const Prepared> build(const algorithms::Choice& choice, int root, bool is_long) const;
  const Prepared* find_built(const Wish& wish, bool& is_new);
  void tell(const Wish& wish, const Prepared& prepared, bool is_new) const;

  /// ..., root, pipeline, radix, domains, whether the call is too long for a board.
  using PlanKey = std::tuple<const algorithms::Entry*, int, int, int, std::vector<int>, bool>;

  Settings settings_;
  std::map<std::string, std::string, std::less<>> default_by_collective_;
  std::map<PlanKey, std::unique_ptr<const Prepared>> plans_;
  std::unique_ptr<const Prepared> given_;
  std::map<std::string, std::unique_ptr<const Prepared>> stand_ins_;
  std::unordered_map<std::uint64_t, Remembered> remembered_;
};

}  // namespace tutti::detail
