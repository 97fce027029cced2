#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tutti/request.h"

namespace tutti::detail {

/// A checked _v call, with counts of its own, as the engine takes it: parts one after the other, counted in elements of
/// the wire. Where the caller's parts lie otherwise, they are copied together before the call and apart after it.
class OwnParts {
 public:
  /// `rank`: of this one.
  OwnParts(const Request& request, int rank);
  OwnParts(const OwnParts&) = delete;
  OwnParts& operator=(const OwnParts&) = delete;

  /// Whether the engine cannot take the request as it is.
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
  struct Side {
    std::vector<Part> parts;  // none: it is as it should be
    std::vector<std::byte> memory;
  };

  static std::vector<std::size_t> scaled(std::span<const std::size_t> counts, std::size_t unit);
  void move(Side& side, std::span<const std::size_t> counts, std::span<const std::size_t> displacements) const;

  Request request_;
  std::vector<std::size_t> counts_;
  std::vector<std::size_t> recv_counts_;
  const std::byte* caller_input_;
  std::byte* caller_output_;
  Side input_;
  Side output_;
};

}  // namespace tutti::detail
