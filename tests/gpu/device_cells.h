#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "lib/base/collective_traits.h"
#include "tests/gpu/on_device.h"
#include "tests/support/noise.h"
#include "tutti/tutti.h"

namespace tutti::testing {

/// How a call is made: one that waits; two that go on at the same time, in streams of their own; or a prepared one,
/// which is started twice.
enum class Way { wait, start, prepare };
/// Parts have equal sizes; or those of a _v call, where they lie one after the other, or in reverse order with gaps.
enum class Parts { equal, packed, apart };

/// One cell of the matrix of calls on device memory.
struct DeviceCell {
  Collective collective{};
  std::string algorithm;
  OpKind op = OpKind::sum;
  std::size_t count = 0;
  bool in_place = false;
  Parts parts = Parts::equal;
  int root = 0;
  Way way = Way::wait;
  bool bare = false;  ///< ranks give nothing where a buffer is ignored
  unsigned seed = 0;
};

/// Device memory that one call after the other uses, since making it anew would wait for the device.
class Field {
 public:
  void write(const std::vector<std::byte>& content) {
    const cuda::Current current{context()};
    if (memory_.size() < content.size()) memory_ = cuda::DeviceMemory{2 * content.size()};
    copy(memory_.address(), cuda::address_of(content.data()), content.size());
  }
  std::vector<std::byte> read(std::size_t size) const {
    std::vector<std::byte> content(size);
    copy(cuda::address_of(content.data()), memory_.address(), size);
    return content;
  }
  std::byte* data() const { return reinterpret_cast<std::byte*>(memory_.address()); }

 private:
  void copy(cuda::Address to, cuda::Address from, std::size_t bytes) const {
    cuda::Commands commands{context(), stream_.get()};
    commands.copy(to, from, bytes);
    cuda::driver().cuStreamSynchronize(stream_.get());
  }
  cuda::OwnStream stream_{context()};
  cuda::DeviceMemory memory_;
};

/// What all cells of a rank share: two calls can be on their way at once, each with two fields.
struct Fields {
  std::array<std::array<Field, 2>, 2> of_call;
  std::array<cuda::OwnStream, 2> streams{cuda::OwnStream{context()}, cuda::OwnStream{context()}};
};

/// Makes calls with elements of type T on device memory, and on host memory by the same algorithm. run() is called on
/// all ranks alike; it returns "" or what is wrong.
template <class T>
class DeviceCells {
 public:
  DeviceCells(Communicator& comm, Fields& fields)
      : comm_(comm), fields_(fields), n_(static_cast<std::size_t>(comm.size())) {}

  std::string run(const DeviceCell& cell) {
    cell_ = cell;
    traits_ = detail::traits_of(cell.collective);
    lay_out();
    before_ = images();
    expected_ = before_;
    issue(comm_, spans<std::span<T>>(expected_[0].data(), expected_[1].data()), nullptr);
    if (cell.way == Way::start) return run_two();
    if (cell.way == Way::prepare) return run_prepared();
    write(0);
    // The legacy default stream, or another.
    void* const stream = cell.seed % 2 == 0 ? nullptr : fields_.streams[0].get();
    issue(comm_, device(0), stream);
    return what_differs(0);
  }

 private:
  using Image = std::vector<std::byte>;
  static constexpr std::size_t guard = 5;  // elements around each buffer
  static constexpr double factor = 0.3;

  /// A buffer of the call: elements of a field.
  struct Place {
    int field = 0;
    std::size_t at = guard;
    std::size_t count = 0;
  };
  template <class Span>
  struct Buffers {
    Span in, out;
  };

  std::size_t me() const { return static_cast<std::size_t>(comm_.rank()); }
  bool is_variable() const { return cell_.parts != Parts::equal; }

  /// Elements that rank `from` sends to rank `to` in an exchange of unequal parts.
  std::size_t exchanged(std::size_t from, std::size_t to) const { return (from * 2 + to) % 3 * cell_.count; }

  /// Places parts of these sizes, and returns the end of the last one.
  std::size_t place_parts(const std::vector<std::size_t>& counts, std::vector<std::size_t>& places) const {
    places.assign(n_, 0);
    std::size_t end = 0;
    if (cell_.parts == Parts::apart) {
      for (std::size_t k = n_; k-- > 0;) places[k] = end + 1 + k % 2, end = places[k] + counts[k];
      return end + 1;
    }
    for (std::size_t k = 0; k < n_; ++k) places[k] = end, end += counts[k];
    return end;
  }

  void lay_out() {
    counts_.assign(n_, cell_.count);
    for (std::size_t k = 0; k < n_ && is_variable(); ++k)
      counts_[k] = traits_.exchanges() ? exchanged(me(), k) : (k * 3 + cell_.count) % 4 * cell_.count / 2;
    recv_counts_ = counts_;
    for (std::size_t k = 0; k < n_ && is_variable() && traits_.exchanges(); ++k) recv_counts_[k] = exchanged(k, me());
    const std::size_t in_parts = place_parts(counts_, places_);
    const std::size_t out_parts = place_parts(recv_counts_, recv_places_);
    const auto size = [&](detail::Extent extent, std::size_t parts) {
      return extent == detail::Extent::whole ? cell_.count : extent == detail::Extent::parts ? parts : counts_[me()];
    };
    in_ = {0, guard, size(traits_.input.extent, in_parts)};
    out_ = {1, guard, size(traits_.output.extent, out_parts)};
    const bool has_in = traits_.input.is_at(comm_.rank(), cell_.root);
    const bool has_out = traits_.output.is_at(comm_.rank(), cell_.root);
    sizes_ = {in_.count, out_.count};
    if (cell_.in_place) {
      if (traits_.input.extent == traits_.output.extent)
        out_ = in_;
      else if (has_in && has_out && traits_.gathers())
        in_.field = 1, in_.at += places_[me()];
      else if (has_in && has_out)
        out_.field = 0, out_.at += places_[me()];
    }
    if (cell_.bare && !has_in && in_.field != out_.field) in_.count = 0;
    if (cell_.bare && !has_out && in_.field != out_.field) out_.count = 0;
  }

  /// The fields before the call: noise, differing by rank.
  std::array<Image, 2> images() const {
    std::mt19937_64 generator{(std::uint64_t{cell_.seed} << 8) + me()};
    std::array<Image, 2> made;
    for (std::size_t field = 0; field < 2; ++field) {
      made[field].resize((sizes_[field] + 2 * guard) * sizeof(T));
      for (std::size_t at = 0; at < made[field].size(); at += sizeof(T)) {
        const T element = noise_of<T>(generator, cell_.op);
        std::memcpy(made[field].data() + at, &element, sizeof(T));
      }
    }
    return made;
  }

  template <class Span>
  Buffers<Span> spans(std::byte* first, std::byte* second) const {
    const auto span = [&](const Place& place) {
      return Span{reinterpret_cast<T*>(place.field == 0 ? first : second) + place.at, place.count};
    };
    return {span(in_), span(out_)};
  }
  Buffers<gpu::Span<T>> device(int call) const {
    const auto& fields = fields_.of_call[static_cast<std::size_t>(call)];
    return spans<gpu::Span<T>>(fields[0].data(), fields[1].data());
  }

  template <class Calls, class Span>
  auto issue(Calls& calls, const Buffers<Span>& buffers, void* stream) const {
    auto& [in, out] = buffers;
    const CallOptions options{.algorithm = cell_.algorithm, .stream = stream};
    const Op op = cell_.op == OpKind::premul_sum ? premul_sum(factor) : Op{cell_.op};
    const Counts counts = cell_.parts == Parts::apart ? Counts{counts_, places_} : Counts{counts_};
    const Counts recv_counts = cell_.parts == Parts::apart ? Counts{recv_counts_, recv_places_} : Counts{recv_counts_};
    const bool v = is_variable();
    const int root = cell_.root;
    switch (cell_.collective) {
      case Collective::all_reduce:
        return calls.all_reduce(in, out, op, options);
      case Collective::reduce:
        return calls.reduce(in, out, op, root, options);
      case Collective::broadcast:
        return calls.broadcast(out, root, options);
      case Collective::all_gather:
        return v ? calls.all_gather_v(in, out, counts, options) : calls.all_gather(in, out, options);
      case Collective::gather:
        return v ? calls.gather_v(in, out, counts, root, options) : calls.gather(in, out, root, options);
      case Collective::scatter:
        return v ? calls.scatter_v(in, counts, out, root, options) : calls.scatter(in, out, root, options);
      case Collective::reduce_scatter:
        return v ? calls.reduce_scatter_v(in, out, counts, op, options) : calls.reduce_scatter(in, out, op, options);
      case Collective::all_to_all:
        return v ? calls.all_to_all_v(in, counts, out, recv_counts, options) : calls.all_to_all(in, out, options);
      case Collective::scan:
        return calls.scan(in, out, op, options);
      case Collective::exclusive_scan:
        return calls.exclusive_scan(in, out, op, options);
      case Collective::barrier:
        break;
    }
    return calls.barrier(options);
  }

  std::string run_two() {
    write(0);
    write(1);
    auto calls = comm_.async();
    Work first = issue(calls, device(0), fields_.streams[0].get());
    Work second = issue(calls, device(1), fields_.streams[1].get());
    first.wait();
    second.wait();
    const std::string wrong = what_differs(0);
    return wrong.empty() ? what_differs(1) : wrong;
  }

  std::string run_prepared() {
    write(0);
    auto calls = comm_.prepare();
    Persistent prepared = issue(calls, device(0), fields_.streams[1].get());
    prepared.run();
    const std::string wrong = what_differs(0);
    write(0);
    prepared.start();
    prepared.wait();
    return wrong.empty() ? what_differs(0) : wrong;
  }

  void write(int call) {
    for (std::size_t field = 0; field < 2; ++field)
      fields_.of_call[static_cast<std::size_t>(call)][field].write(before_[field]);
  }

  std::string what_differs(int call) const {
    for (std::size_t field = 0; field < 2; ++field) {
      const Image& expected = expected_[field];
      const Image found = fields_.of_call[static_cast<std::size_t>(call)][field].read(expected.size());
      const auto differs = std::ranges::mismatch(found, expected).in1;
      if (differs == found.end()) continue;
      const auto element = static_cast<std::size_t>(differs - found.begin()) / sizeof(T);
      const Place& place = static_cast<int>(field) == out_.field ? out_ : in_;
      return std::string{field == 0 ? "input" : "output"} + " differs at element " +
             std::to_string(static_cast<std::ptrdiff_t>(element) - static_cast<std::ptrdiff_t>(place.at)) + " of " +
             std::to_string(place.count) + (call == 0 ? "" : ", of the second call");
    }
    return "";
  }

  Communicator& comm_;
  Fields& fields_;
  const std::size_t n_;
  DeviceCell cell_;
  detail::CollectiveTraits traits_{};
  std::vector<std::size_t> counts_, recv_counts_, places_, recv_places_;
  Place in_, out_;
  std::array<std::size_t, 2> sizes_{};
  std::array<Image, 2> before_, expected_;
};

}  // namespace tutti::testing
