#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tutti/request.h"

namespace tutti::detail {

/// A checked _v call, with copies of its counts, in the form for the engine: parts one after the other, counted in
/// elements of the wire. If the caller's parts have displacements, they are packed before the call and unpacked after
/// it.
class OwnParts {
 public:
  /// `rank`: of this one.
  OwnParts(const Request& request, int rank);
  OwnParts(const OwnParts&) = delete;
  OwnParts& operator=(const OwnParts&) = delete;

  /// The engine cannot use the request directly.
  static bool are_needed_for(const Request& request) {
    return request.variable &&
           (request.input.unit > 1 || !request.displacements.empty() || !request.recv_displacements.empty());
  }

  /// Refers to this object.
  const Request& request() const { return request_; }
  bool are_moved() const { return !input_.parts.empty() || !output_.parts.empty(); }
  /// Before each start.
  void collect_input() noexcept;
  /// After each success.
  void spread_output() const noexcept;

 private:
  struct Part {
    std::size_t begin = 0;  // of the caller's, in bytes
    std::size_t size = 0;
  };
  struct Moved {
    std::vector<Part> parts;  // empty: no copy is needed
    std::vector<std::byte> memory;
  };

  void move(Moved& moved, std::span<const std::size_t> counts, std::span<const std::size_t> displacements) const;

  Request request_;
  std::vector<std::size_t> counts_;
  std::vector<std::size_t> recv_counts_;
  const std::byte* caller_input_;
  std::byte* caller_output_;
  Moved input_;
  Moved output_;
};

}  // namespace tutti::detail
