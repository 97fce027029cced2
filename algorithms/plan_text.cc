// Plans as text, a line per step:
//
//   tutti-plans 1
//   all_reduce grid ranks 8 root 0 pipeline 1 equal-parts rank-order     (the last two where they are so)
//                                                derive-waits as well: the steps of a rank are right one after the
//                                                other
//   rank 0 scratch 3 4 5                         a slot as large as block 3, one as large as block 4 ...
//   send 1 i3+2                                  block 3 and 4 of the input to rank 1
//   recv 2 s0 after 0                            into slot 0, when step 0 of this rank is complete
//   recv_reduce 2 o3 i3 after 0 1                o3 = i3 op message
//   copy o3 i3                                   o3 = i3
//   reduce o3 i3 s0                              o3 = i3 op s0
//
// '#' starts a comment. Steps of a rank are counted from 0; those of one lane are issued in the order of the file.
// Under derive-waits the reader derives what each step must wait for, as PlanBuilder does, and `after` adds to that.

#include "algorithms/plan_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "algorithms/catalogue.h"
#include "algorithms/check.h"
#include "algorithms/describe.h"
#include "algorithms/plan_assemble.h"
#include "tutti/error.h"

namespace tutti::algorithms {
namespace {

constexpr std::string_view magic = "tutti-plans 1";
constexpr int most_ranks_of_plans = 4096;
constexpr int most_pipeline_of_plans = 1 << 20;
constexpr std::size_t most_blocks = 20'000'000;  // limit on the blocks that the checker examines
constexpr std::array letters{'i', 'o', 's'};     // by Buffer
constexpr std::array verbs{Verb::send, Verb::recv, Verb::recv_reduce, Verb::copy, Verb::reduce};

std::string text_of(const Blocks& blocks) {
  std::string text =
      " " + std::string(1, letters[static_cast<std::size_t>(blocks.buffer)]) + std::to_string(blocks.first);
  if (blocks.count != 1) text += "+" + std::to_string(blocks.count);
  return text;
}

void write_plan(std::string& text, const Plan& plan) {
  text += "rank " + std::to_string(plan.shape.rank);
  if (!plan.scratch_like.empty()) text += " scratch";
  for (const int like : plan.scratch_like) text += " " + std::to_string(like);
  text += "\n";
  std::vector<std::string> after(plan.steps.size());
  for (StepId step = 0; step < plan.steps.size(); ++step)
    for (const StepId next : plan.successors(step)) after[next] += " " + std::to_string(step);
  for (StepId id = 0; id < plan.steps.size(); ++id) {
    const Step& step = plan.steps[id];
    text += name_of(step.verb);
    if (!is_local(step.verb)) text += " " + std::to_string(step.peer);
    if (writes_dst(step.verb)) text += text_of(step.dst);
    if (reads_left(step.verb)) text += text_of(step.left);
    if (reads_right(step.verb)) text += text_of(step.right);
    if (!after[id].empty()) text += " after" + after[id];
    text += "\n";
  }
}

/// Adds what PlanBuilder lets steps wait for if they are in an order in which one after the other is right.
void derive_waits(const Shape& shape, Collective collective, const std::vector<Step>& steps,
                  const std::vector<int>& scratch_like, std::vector<Edge>& edges) {
  const bool apart = detail::traits_of(collective).in_place == InPlace::never;
  PlanBuilder builder{shape, apart ? InPlace::never : InPlace::allowed};
  for (const int like : scratch_like) builder.scratch({Buffer::input, like, 1});
  for (const Step& step : steps) builder.add(step);
  const Plan plan = std::move(builder).build();
  for (StepId step = 0; step < plan.steps.size(); ++step)
    for (const StepId next : plan.successors(step)) edges.push_back({step, next});
}

class Reader {
 public:
  Reader(std::string_view text, std::string_view file_name) : text_(text), file_name_(file_name) {}

  CheckedPlans read() {
    if (!next_line() || line_ != magic) refuse("a file of plans begins with \"" + std::string{magic} + "\"");
    if (!next_line()) refuse("it has no plans");
    read_head();
    for (bool more = next_line(); more;) more = read_rank();
    if (given_.plans.size() != static_cast<std::size_t>(shape_.ranks))
      refuse("it ends after rank " + std::to_string(given_.plans.size()) + " of " + std::to_string(shape_.ranks));
    return {std::move(given_), std::move(names_), {}};
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorCode::invalid_argument, std::string{file_name_} + ":" + std::to_string(number_) + ": " + why);
  }

  /// The next line that is not empty, without comment and surrounding blanks.
  bool next_line() {
    while (!text_.empty()) {
      line_ = text_.substr(0, text_.find('\n'));
      text_.remove_prefix(std::min(text_.size(), line_.size() + 1));
      ++number_;
      line_ = line_.substr(0, line_.find('#'));
      while (!line_.empty() && (line_.back() == ' ' || line_.back() == '\r')) line_.remove_suffix(1);
      if (!line_.empty()) return true;
    }
    return false;
  }

  std::string_view word() {
    while (!line_.empty() && line_.front() == ' ') line_.remove_prefix(1);
    const std::string_view found = line_.substr(0, line_.find(' '));
    line_.remove_prefix(found.size());
    return found;
  }

  void expect(std::string_view wanted) {
    const std::string_view found = word();
    if (found != wanted) refuse("\"" + std::string{found} + "\" stands where \"" + std::string{wanted} + "\" must");
  }

  int number(std::string_view digits, int least, int most) const {
    int value = 0;
    const char* const end = digits.data() + digits.size();
    const auto [stop, problem] = std::from_chars(digits.data(), end, value);
    if (problem != std::errc{} || stop != end || value < least || value > most)
      refuse("\"" + std::string{digits} + "\" is not a number from " + std::to_string(least) + " to " +
             std::to_string(most));
    return value;
  }

  void read_head() {
    try {
      given_.collective = find_collective(word());
    } catch (const Error& error) {
      refuse(error.what());
    }
    given_.name = word();
    if (given_.name.empty() || given_.name.size() > longest_name ||
        !std::all_of(given_.name.begin(), given_.name.end(), may_be_in_name))
      refuse("the name must have 1 to " + std::to_string(longest_name) + " letters, digits, '_', '-' or '.'");
    for (const Entry& entry : catalogue(given_.collective))
      if (entry.name == given_.name) refuse("the catalogue has an algorithm " + given_.name + " already");
    expect("ranks");
    shape_.ranks = number(word(), 1, most_ranks_of_plans);
    expect("root");
    shape_.root = number(word(), 0, shape_.ranks - 1);
    expect("pipeline");
    shape_.pipeline = number(word(), 1, most_pipeline_of_plans);
    for (std::string_view claim = word(); !claim.empty(); claim = word()) {
      bool* const known = claim == "equal-parts"    ? &given_.equal_parts
                          : claim == "rank-order"   ? &given_.rank_order
                          : claim == "derive-waits" ? &derives_waits_
                                                    : nullptr;
      if (known == nullptr)
        refuse("\"" + std::string{claim} + "\" is not one of equal-parts, rank-order and derive-waits");
      *known = true;
    }
    blocks_ = static_cast<std::size_t>(shape_.ranks) * static_cast<std::size_t>(shape_.pipeline);
    touch(blocks_ * static_cast<std::size_t>(shape_.ranks));
  }

  /// Reads from a rank's line to the next rank's; false at the end of the file.
  bool read_rank() {
    expect("rank");
    shape_.rank = number(word(), 0, shape_.ranks - 1);
    if (static_cast<std::size_t>(shape_.rank) != given_.plans.size())
      refuse("rank " + std::to_string(given_.plans.size()) + " must come next");
    std::vector<int> scratch_like;
    if (const std::string_view scratch = word(); !scratch.empty()) {
      if (scratch != "scratch") refuse("\"" + std::string{scratch} + "\" stands where \"scratch\" must");
      for (std::string_view like = word(); !like.empty(); like = word())
        scratch_like.push_back(number(like, 0, static_cast<int>(blocks_) - 1));
    }
    touch(scratch_like.size());
    slots_ = scratch_like.size();
    std::vector<Step> steps;
    std::vector<Edge> edges;
    std::vector<std::string>& names = names_.emplace_back();
    bool more = next_line();
    for (; more && !line_.starts_with("rank "); more = next_line()) {
      names.push_back("step " + std::to_string(steps.size()) + " in line " + std::to_string(number_));
      steps.push_back(read_step());
      read_waits(static_cast<StepId>(steps.size() - 1), edges);
    }
    if (derives_waits_) derive_waits(shape_, given_.collective, steps, scratch_like, edges);
    given_.plans.push_back(assemble(shape_, std::move(steps), std::move(edges), std::move(scratch_like)));
    return more;
  }

  Step read_step() {
    const std::string_view name = word();
    const auto verb = std::find_if(verbs.begin(), verbs.end(), [&](Verb known) { return name == name_of(known); });
    if (verb == verbs.end())
      refuse("\"" + std::string{name} + "\" is not one of send, recv, recv_reduce, copy and reduce");
    Step step{.verb = *verb};
    if (!is_local(step.verb)) {
      step.peer = number(word(), 0, shape_.ranks - 1);
      if (step.peer == shape_.rank) refuse("a rank has no messages with itself");
    }
    if (writes_dst(step.verb)) step.dst = blocks();
    if (reads_left(step.verb)) step.left = blocks();
    if (reads_right(step.verb)) step.right = blocks();
    const int count = writes_dst(step.verb) ? step.dst.count : step.left.count;
    if ((reads_left(step.verb) && step.left.count != count) || (reads_right(step.verb) && step.right.count != count))
      refuse("the operands of this " + std::string{name} + " differ in their number of blocks");
    if (derives_waits_ && step.verb == Verb::copy && step.dst == step.left) refuse("it copies blocks onto themselves");
    return step;
  }

  /// "i3" or "o3+2"
  Blocks blocks() {
    const std::string_view text = word();
    const auto letter = std::find(letters.begin(), letters.end(), text.empty() ? ' ' : text.front());
    if (letter == letters.end()) refuse("blocks are written like i3, o3+2 or s0, not \"" + std::string{text} + "\"");
    const auto buffer = static_cast<Buffer>(letter - letters.begin());
    const std::size_t size = buffer == Buffer::scratch ? slots_ : blocks_;
    if (size == 0) refuse("\"" + std::string{text} + "\": this rank has no scratch");
    const std::size_t plus = std::min(text.find('+'), text.size());
    const int first = number(text.substr(1, plus - 1), 0, static_cast<int>(size) - 1);
    const int most = static_cast<int>(size) - first;
    const int count = plus < text.size() ? number(text.substr(plus + 1), 1, most) : 1;
    touch(static_cast<std::size_t>(count));
    return {buffer, first, count};
  }

  void read_waits(StepId step, std::vector<Edge>& edges) {
    const std::string_view after = word();
    if (after.empty()) return;
    if (after != "after") refuse("\"" + std::string{after} + "\" stands where \"after\" must");
    for (std::string_view before = word(); !before.empty(); before = word()) {
      if (step == 0) refuse("the first step has no step before it to wait for");
      edges.push_back({static_cast<StepId>(number(before, 0, static_cast<int>(step) - 1)), step});
    }
  }

  void touch(std::size_t blocks) {
    touched_ += blocks;
    if (touched_ > most_blocks) refuse("the plans are too large to be proved");
  }

  std::string_view text_;
  std::string_view file_name_;
  std::string_view line_;
  int number_ = 0;
  GivenPlans given_;
  StepNames names_;
  bool derives_waits_ = false;
  Shape shape_;
  std::size_t blocks_ = 0;
  std::size_t slots_ = 0;
  std::size_t touched_ = 0;
};

}  // namespace

bool may_be_in_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

std::string write_plans(const GivenPlans& given) {
  const Shape& shape = given.plans.at(0).shape;
  std::string text = std::string{magic} + "\n" + name_of(given.collective) + " " + given.name + " ranks " +
                     std::to_string(shape.ranks) + " root " + std::to_string(shape.root) + " pipeline " +
                     std::to_string(shape.pipeline) + (given.equal_parts ? " equal-parts" : "") +
                     (given.rank_order ? " rank-order" : "") + "\n";
  for (const Plan& plan : given.plans) write_plan(text, plan);
  return text;
}

CheckedPlans check_plans(std::string_view text, std::string_view file_name) {
  CheckedPlans checked = Reader{text, file_name}.read();
  GivenPlans& given = checked.given;
  checked.verdict = check(given.collective, given.plans, {given.equal_parts, given.rank_order}, &checked.names);
  given.needs_room = checked.verdict.needs_room;
  return checked;
}

GivenPlans read_plans(std::string_view text, std::string_view file_name) {
  CheckedPlans checked = check_plans(text, file_name);
  if (!checked.verdict.ok())
    throw Error(ErrorCode::invalid_argument,
                std::string{file_name} + ": the plan is wrong: " + checked.verdict.problems.front());
  return std::move(checked.given);
}

}  // namespace tutti::algorithms
