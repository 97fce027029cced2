#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::trace {

/// Slices of time on tracks, and arrows between ranks, which will become events.
class ChromeTraceBuilder {
 public:
  /// The kind of a track, with a peer or without.
  enum class Track : std::uint8_t { calls, board, work, stream, to, from, message_to, message_from };

  static constexpr int thread_of_calls = 1;

  explicit ChromeTraceBuilder(int rank) : rank_(rank) {}

  /// Times in nanoseconds. `name`, `category` and `args`, JSON of an object without its braces, are copied. Returns its
  /// number.
  std::size_t slice(Track track, int peer, std::int64_t begin, std::int64_t end, std::string_view category,
                    std::string name, std::string args);
  /// A slice within the slice added last, from its beginning.
  void inner(std::int64_t end, std::string name);
  /// The slice added last lies within `outer`, and is shown on the same thread.
  void within(std::size_t outer);
  struct Arrow {
    std::uint64_t id = 0;
    bool begins = false;
    int from = 0;
    int to = 0;
    std::uint64_t bytes = 0;
    std::int64_t at = 0;  ///< pushed into its slice
  };
  void arrow(std::size_t slice, const Arrow& arrow);

  void write(const std::function<void(std::string_view)>& put);

 private:
  struct Slice {
    std::uint64_t track;  ///< in the order they are shown in
    std::int64_t begin;
    std::int64_t end;
    std::string_view category;
    std::string name;
    std::string args;
    std::int64_t inner_end = 0;
    std::string inner_name;
    std::optional<std::size_t> outer{};
    std::uint64_t thread = 0;
  };
  struct Placed {
    std::size_t slice;
    Arrow arrow;
  };
  void place();
  void write_threads(const std::function<void(std::string_view)>& put) const;
  void write_slice(const Slice& slice, const std::function<void(std::string_view)>& put) const;
  void write_arrow(const Placed& placed, const std::function<void(std::string_view)>& put) const;

  int rank_;
  std::vector<Slice> slices_;
  std::vector<Placed> arrows_;
};

/// Escaped for a JSON string.
std::string escaped(std::string_view text);
/// Nanoseconds as microseconds in the format, with all digits.
std::string microseconds(std::int64_t nanoseconds);

}  // namespace tutti::trace
