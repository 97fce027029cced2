#include "algorithms/window_program.h"

#include <algorithm>
#include <cstddef>

#include "lib/base/index.h"

namespace tutti::algorithms {
namespace {

class WindowLowerer {
 public:
  WindowLowerer(std::span<const BoardProgram> programs, int root)
      : programs_(programs), root_(root), made_(programs.size()) {
    const std::vector<BoardProgram::Contribution>& first = programs[0].rounds[0].contributions;
    const auto contributes_input = [&](int rank) {
      const auto& ranges = first[at(rank)].ranges;
      return !ranges.empty() && ranges.front().buffer == Buffer::input;
    };
    pushes_ = contributes_input(root);
    for (int rank = 0; rank < ranks(); ++rank) pushes_ = pushes_ && (rank == root || !contributes_input(rank));
  }

  std::vector<WindowProgram> lower() {
    for (int rank = 0; rank < ranks(); ++rank)
      for (const BoardProgram::Result& result : first(rank).results) add_task(rank, result);
    bool fits = true;
    for (int rank = 0; rank < ranks(); ++rank)
      if (programs_[at(rank)].rounds.size() > 1)
        for (const BoardProgram::Result& result : programs_[at(rank)].rounds[1].results)
          fits = fits && hand_on(rank, result);
    return fits ? finished() : std::vector<WindowProgram>{};
  }

 private:
  /// A task whose destinations are listed separately until all are known.
  struct Draft {
    int rank;  // the rank that runs the task
    Blocks dst;
    std::vector<int> to;
    std::span<const BoardProgram::Source> sources;
  };

  int ranks() const { return static_cast<int>(programs_.size()); }
  const BoardProgram::Round& first(int rank) const { return programs_[at(rank)].rounds[0]; }

  void add_task(int rank, const BoardProgram::Result& result) {
    const auto sources = std::span{first(rank).sources}.subspan(at(result.first), at(result.count));
    const bool pushed = pushes_ && sources.front().rank == root_;
    drafts_.push_back({pushed ? root_ : rank, result.dst, {rank}, sources});
  }

  /// `rank` copies a result that one rank computes in its first round to the same place.
  bool hand_on(int rank, const BoardProgram::Result& result) {
    const BoardProgram::Source& source = programs_[at(rank)].rounds[1].sources[at(result.first)];
    const auto makes_it = [&](const Draft& draft) { return draft.rank == source.rank && draft.dst == result.dst; };
    const auto draft = std::find_if(drafts_.begin(), drafts_.end(), makes_it);
    if (result.count > 1 || source.blocks != result.dst || draft == drafts_.end()) return false;
    draft->to.push_back(rank);
    return true;
  }

  std::vector<WindowProgram> finished() {
    bool shares_input = false, shares_output = false;
    for (const Draft& draft : drafts_) {
      WindowProgram& program = made_[at(draft.rank)];
      program.tasks.push_back({draft.dst, static_cast<int>(program.sources.size()),
                               static_cast<int>(draft.sources.size()), static_cast<int>(program.destinations.size()),
                               static_cast<int>(draft.to.size())});
      for (const BoardProgram::Source& source : draft.sources) {
        program.sources.push_back({source.rank, source.blocks});
        if (source.rank != draft.rank) (source.blocks.buffer == Buffer::input ? shares_input : shares_output) = true;
      }
      for (const int to : draft.to) {
        program.destinations.push_back(to);
        shares_output = shares_output || to != draft.rank;
      }
    }
    for (int rank = 0; rank < ranks(); ++rank) {
      made_[at(rank)].shares_input = shares_input;
      made_[at(rank)].shares_output = shares_output;
      for (int other = 0; other < ranks(); ++other)
        if (other != rank) made_[at(rank)].others.push_back(other);
    }
    return std::move(made_);
  }

  std::span<const BoardProgram> programs_;
  int root_;
  bool pushes_ = false;  // only the root has an input
  std::vector<Draft> drafts_;
  std::vector<WindowProgram> made_;
};

}  // namespace

std::vector<WindowProgram> lower_to_windows(std::span<const BoardProgram> programs, int root) {
  return WindowLowerer{programs, root}.lower();
}

}  // namespace tutti::algorithms
