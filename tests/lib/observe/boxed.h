#pragma once

#include <memory>
#include <string>

#include "lib/observe/black_box_begin.h"
#include "lib/observe/black_box_reader.h"
#include "tests/support/scratch.h"

namespace tutti::testing {

inline const black_box::Box::Owner owner{2, 4, "n07", "job/1"};

/// A launcher's memory, and a box in it.
struct Boxed {
  Descriptor memory = black_box::make_memory();
  Setting setting{"TUTTI_BLACK_BOX_FD", std::to_string(memory.get())};
  std::string trouble;
  std::unique_ptr<black_box::Box> box = black_box::Box::open(owner, trouble);

  black_box::Snapshot read() const { return black_box::read(memory, "the box"); }
};

inline black_box::CallRecord call_number(std::uint64_t n) {
  black_box::CallRecord call{
      .group = 7 * n, .operation = n, .count = 3 * n, .started = static_cast<std::int64_t>(n), .parts = 9};
  call.root = static_cast<std::int32_t>(n);
  call.algorithm = {'r', 'i', 'n', 'g'};
  return call;
}

}  // namespace tutti::testing
