#pragma once

namespace tutti::testing {

/// The threads of a block, one after the other.
struct HostBlock {
  unsigned of_grid;
  unsigned blocks() const { return of_grid; }
  template <class Run>
  void first(const Run& run) const {
    run();
  }
  template <class Run>
  void each(int count, const Run& run) const {
    for (int i = 0; i < count; ++i) run(i);
  }
  void sync() const {}
};

}  // namespace tutti::testing
