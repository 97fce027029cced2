// Every collective, by every algorithm, for every element type and op, over every transport, in place and not, for
// awkward rank counts and lengths, against a plain reference.

#include <doctest/doctest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "algorithms/catalogue.h"
#include "algorithms/domains.h"
#include "lib/base/collective_traits.h"
#include "lib/compute/kernels.h"
#include "tests/matrix/cells.h"
#include "tests/support/sample.h"
#include "tests/support/world.h"

namespace tutti::testing {
namespace {

struct Tally {
  std::atomic<long> cells{0};
  std::mutex mutex;
  std::vector<std::string> failures;

  void fail(const Cell& cell, const char* type, int rank, const std::string& what) {
    const std::lock_guard lock{mutex};
    if (failures.size() < 20)
      failures.push_back(std::string(tutti::name_of(cell.collective)) + (cell.variable ? "_v " : " ") + cell.algorithm +
                         " " + type + " " + tutti::name_of(cell.op) + " count " + std::to_string(cell.count) +
                         (cell.in_place ? " in place" : "") + " root " + std::to_string(cell.root) + " rank " +
                         std::to_string(rank) + ": " + what);
  }
};

std::vector<std::size_t> awkward_counts(std::size_t n) { return {0, 1, n - 1, n, n + 1, 3 * n + 2, 129}; }

template <class T>
void run_type(Communicator& comm, const algorithms::Entry& entry, const std::string& algorithm, Lot& lot,
              Tally& tally) {
  constexpr DataType type = data_type_of<T>;
  const detail::CollectiveTraits& traits = detail::traits_of(entry.collective);
  Cells<T> cells{comm};
  const auto n = static_cast<std::size_t>(comm.size());
  for (int kind = 0; kind < (traits.reduces() ? static_cast<int>(OpKind::user) : 1); ++kind) {
    const auto op = static_cast<OpKind>(kind);
    if (!compute::supports(type, op) || (traits.reduces() && !traits.takes(op))) continue;
    if (only_a_sanitized_sample() && op != OpKind::sum && type != DataType::i32) continue;
    for (std::size_t count : awkward_counts(n)) {
      for (const bool in_place : {false, true}) {
        for (const bool variable : {false, true}) {
          if (variable && (!traits.has_parts() || entry.equal_parts)) continue;
          if (variable && in_place && traits.exchanges()) continue;
          if (!lot.draws()) continue;
          const Cell cell{.collective = entry.collective,
                          .algorithm = algorithm,
                          .op = op,
                          .count = count,
                          .in_place = in_place,
                          .variable = variable,
                          .root = static_cast<int>((count + static_cast<std::size_t>(kind)) % n)};
          const std::string wrong = cells.run(cell);
          if (comm.rank() == 0) ++tally.cells;
          if (!wrong.empty()) tally.fail(cell, tutti::name_of(type), comm.rank(), wrong);
        }
      }
    }
  }
}

template <class... Types>
void run_types(Communicator& comm, const algorithms::Entry& entry, const std::string& algorithm, Lot& lot,
               Tally& tally) {
  (run_type<Types>(comm, entry, algorithm, lot, tally), ...);
}

/// The names by which an entry is run: also with domains that are uneven and no neighbours, if it knows domains.
std::vector<std::string> names_of(const algorithms::Entry& entry, int ranks) {
  std::vector<std::string> names{std::string{entry.name}};
  if (!entry.has_domains || ranks < 3) return names;
  std::vector<int> domains;
  for (int rank = 0; rank < ranks; ++rank) domains.push_back(rank % 3 == 1 ? 1 : 0);
  names.push_back(names.front() + ":" + algorithms::domains_text(domains));
  return names;
}

void run_all(Communicator& comm, Tally& tally) {
  Lot lot{5, 4};  // the same on each rank
  for (const algorithms::Entry& entry : algorithms::catalogue()) {
    for (const std::string& name : names_of(entry, comm.size())) {
      if (only_a_sanitized_sample()) {
        run_types<std::int32_t, float, bf16, std::complex<double>>(comm, entry, name, lot, tally);
      } else {
        run_types<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t, std::uint32_t, std::int64_t,
                  std::uint64_t, bool, f16, bf16, float, double, std::complex<float>, std::complex<double>>(
            comm, entry, name, lot, tally);
      }
    }
  }
}

void run_kind(Kind kind) {
  Tally tally;
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8})
    run_ranks({.ranks = ranks, .kind = kind}, [&](Communicator& comm) { run_all(comm, tally); });
  for (const std::string& failure : tally.failures) FAIL_CHECK(failure);
  std::printf("matrix: %ld cells over %s\n", tally.cells.load(), name_of(kind));
  CHECK(tally.cells > 0);
}

TEST_CASE("every cell of the matrix is right") {
  const char* only = std::getenv("MATRIX_TRANSPORT");
  bool is_known = !only;
  for (const Kind kind : all_kinds) {
    if (only && std::string(only) != name_of(kind)) continue;
    is_known = true;
    run_kind(kind);
  }
  CHECK_MESSAGE(is_known, "MATRIX_TRANSPORT names no transport");
}

}  // namespace
}  // namespace tutti::testing
