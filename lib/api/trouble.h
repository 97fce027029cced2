#pragma once

#include <exception>
#include <span>
#include <string>
#include <utility>

#include "tutti/communicator.h"

namespace tutti::detail {

/// What keeps this rank from steps that all ranks of a communicator take together. Threading: one thread.
class Trouble {
 public:
  explicit Trouble(Communicator& comm) : comm_(comm) {}

  bool is_there() const { return !text_.empty(); }
  const std::string& text() const { return text_; }
  void set(std::string text) { text_ = std::move(text); }
  void clear() { text_.clear(); }

  /// This rank's part of a step, unless it has trouble.
  template <class Part>
  void attempt(const Part& part) {
    if (is_there()) return;
    try {
      part();
    } catch (const std::exception& error) {
      text_ = error.what();
    }
  }
  /// Whether no rank has trouble. All ranks call it at the same place.
  bool agreed() {
    int all_well = is_there() ? 0 : 1;
    comm_.all_reduce(std::span{&all_well, 1}, min);
    return all_well == 1;
  }

 private:
  Communicator& comm_;
  std::string text_;
};

}  // namespace tutti::detail
