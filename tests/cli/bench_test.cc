#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

#include "cli/bench/data.h"
#include "cli/bench/names.h"
#include "cli/bench/numbers.h"
#include "cli/bench/options.h"
#include "lib/collective/arithmetic.h"
#include "lib/compute/kernels.h"
#include "tests/support/sample.h"
#include "tutti/error.h"

using namespace tutti;
using namespace tutti::cli;
using namespace tutti::cli::bench;

namespace {

Options parse(std::vector<const char*> words) { return parse_options(static_cast<int>(words.size()), words.data()); }

/// The code of the error that `action` throws, or "none".
template <class Action>
std::string code_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return name_of(error.code());
  }
  return "none";
}

}  // namespace

// ---- Options

TEST_CASE("without options the defaults are those of nccl-tests") {
  const Options options = parse({"bench", "all_reduce"});
  CHECK(options.min_bytes == 33554432);
  CHECK(options.max_bytes == 33554432);
  CHECK_FALSE(options.iterations);
  CHECK_FALSE(options.warmup);
  CHECK(options.check == 1);
  CHECK(options.ranks() == 1);
  CHECK(options.average == Average::mean);
  CHECK(options.op == "sum");
  CHECK(options.type == "float");
  CHECK_FALSE(options.wants_series());
}

TEST_CASE("letters and long names take their value glued or apart, with - or _, and may be cut short") {
  const Options options = parse({"all_reduce_perf", "-b1", "-e", "8192M", "-f", "2", "-g", "8", "-c", "0",
                                 "--warmup-iters", "5", "--agg_iters=3", "--nthr", "2", "-r", "-1"});
  CHECK(options.what == Collective::all_reduce);
  CHECK(options.min_bytes == 1);
  CHECK(options.max_bytes == std::size_t{8} << 30);
  CHECK(options.step_factor == 2);
  CHECK(options.ranks() == 16);
  CHECK(options.check == 0);
  CHECK(options.warmup == 5);
  CHECK(options.aggregate == 3);
  CHECK(options.root == "all");
}

TEST_CASE("our own options have long names only") {
  const Options options = parse({"bench", "broadcast", "--compare", "chain,tree:4", "--format", "csv", "--sync",
                                 "window", "--max-time", "0.5", "--deterministic", "1"});
  CHECK(options.compare == std::vector<std::string>{"chain", "tree:4"});
  CHECK(options.format == Format::csv);
  CHECK(options.sync == Sync::window);
  CHECK(options.max_time == 0.5);
  CHECK(options.deterministic);
  for (const char* const name : {"--algo", "--algorithm"})
    CHECK(parse({"bench", "broadcast", name, "chain"}).algorithm == "chain");
}

TEST_CASE("programs are known under nccl-tests' names, with a path, with _mpi, and under ours") {
  CHECK(find_measured("/usr/bin/alltoall_perf_mpi") == Collective::all_to_all);
  CHECK(find_measured("all_to_all") == Collective::all_to_all);
  CHECK(find_measured("sendrecv_perf") == measure::send_recv);
  CHECK(find_measured("reduce") == Collective::reduce);
  CHECK(program_name(measure::all_to_all_v) == "alltoallv_perf");
  CHECK(code_of([] { find_measured("hypercube_perf"); }) == "unsupported");
  CHECK(code_of([] { find_measured("all_reduces"); }) == "invalid_argument");
}

TEST_CASE("wrong usage is told apart from what is not supported") {
  const auto refused = [](std::vector<const char*> words) {
    words.insert(words.begin(), {"bench", "all_reduce"});
    return code_of([&] { parse(words); });
  };
  CHECK(refused({"--itres", "3"}) == "invalid_argument");
  CHECK(refused({"-q", "3"}) == "invalid_argument");
  CHECK(refused({"-n"}) == "invalid_argument");
  CHECK(refused({"-n", "0"}) == "invalid_argument");
  CHECK(refused({"-z", "2"}) == "invalid_argument");
  for (const char* const name : {"--repetitions", "--rivals-dir", "--peers-dir"})
    CHECK(refused({name, "3"}) == "invalid_argument");
  CHECK(refused({"-n", "20x"}) == "invalid_argument");
  CHECK(refused({"-b", "2M", "-e", "1M"}) == "invalid_argument");
  CHECK(refused({"-b", "8T"}) == "invalid_argument");
  CHECK(refused({"-K", "20"}) == "invalid_argument");
  CHECK(refused({"--compare", "ring"}) == "invalid_argument");
  CHECK(refused({"-d", "flaot"}) == "invalid_argument");
  CHECK(refused({"broadcast"}) == "invalid_argument");
  CHECK(refused({"-d", "f8e4m3"}) == "unsupported");
  CHECK(refused({"-G", "1"}) == "unsupported");
  CHECK(refused({"-D", "1"}) == "unsupported");
  CHECK(refused({"-G", "0", "-p", "1", "-y", "0"}) == "none");
}

TEST_CASE("sizes take binary units and fractions") {
  CHECK(parse_size("-b", "8") == 8);
  CHECK(parse_size("-b", "1.5K") == 1536);
  CHECK(parse_size("-b", "32m") == 33554432);
  CHECK(parse_size("-b", "1G") == 1073741824);
  CHECK(parse_size("-b", "64k") == 65536);
  for (const char* const text : {"64KB", "64kB", "64KiB", "65536B"}) CHECK(parse_size("-b", text) == 65536);
  CHECK(parse_size("-b", "1.5GiB") == 1610612736);
  for (const char* const text : {"64iB", "64KIB", "64BK", "KiB", "64BB"}) CHECK_THROWS(parse_size("-b", text));
}

TEST_CASE("the help names every option once, with its letter") {
  const std::string help = help_text();
  for (const char* words :
       {"-b, --minbytes SIZE", "-N, --run_cycles N", "-J, --output_file FILE.json", "--compare A,B,..."})
    CHECK(help.find(words) != std::string::npos);
}

// ---- Numbers

TEST_CASE("with one part per rank the part is a multiple of 16 bytes, rounded down") {
  const auto parts = [](MeasuredCall what, std::size_t bytes, std::size_t element, int ranks) {
    const Shape shape = shape_of(what, bytes, element, 0, ranks);
    return std::vector<std::size_t>{shape.count, shape.send_count, shape.recv_count, shape.largest};
  };
  using Numbers = std::vector<std::size_t>;
  CHECK(parts(Collective::all_reduce, 1001, 4, 3) == Numbers{250, 250, 250, 250});
  CHECK(parts(Collective::all_gather, 1000, 4, 3) == Numbers{80, 80, 240, 240});
  CHECK(parts(Collective::reduce_scatter, 1000, 2, 3) == Numbers{160, 480, 160, 480});
  CHECK(parts(Collective::all_to_all, 64, 4, 5) == Numbers{0, 0, 0, 0});
  CHECK(parts(Collective::gather, 64, 16, 3) == Numbers{1, 1, 3, 3});
  CHECK(parts(Collective::barrier, 64, 4, 3) == Numbers{0, 0, 0, 0});
}

TEST_CASE("uneven counts agree between sender and receiver, and every rank moves about as much") {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    std::vector<Shape> shapes;
    for (int rank = 0; rank < ranks; ++rank) shapes.push_back(shape_of(measure::all_to_all_v, 100000, 4, rank, ranks));
    for (std::size_t from = 0; from < shapes.size(); ++from) {
      CHECK(shapes[from].largest == shapes[0].largest);
      CHECK(shapes[from].largest <= 25000);  // so that the buffers are no larger than those of all_to_all
      for (std::size_t to = 0; to < shapes.size(); ++to)
        CHECK(shapes[from].send_counts[to] == shapes[to].recv_counts[from]);
    }
    if (ranks > 1) CHECK(shapes[0].send_counts[0] != shapes[0].send_counts[1]);
  }
}

TEST_CASE("sizes go by factor or by step, and a first size of 0 does not stand still") {
  Options options;
  options.min_bytes = 8;
  options.max_bytes = 100;
  options.step_factor = 3;
  CHECK(sizes_of(options) == std::vector<std::size_t>{8, 24, 72});
  options.step_factor = 1;
  options.step_bytes = 40;
  CHECK(sizes_of(options) == std::vector<std::size_t>{8, 48, 88});
  options.min_bytes = 0;
  options.max_bytes = 5;
  options.step_factor = 2;
  CHECK(sizes_of(options) == std::vector<std::size_t>{0, 1, 2, 4});
}

TEST_CASE("bus bandwidth counts what the busiest link carries") {
  CHECK(bandwidth(Collective::all_reduce, 1'000'000, 100, 4).algorithm == doctest::Approx(10));
  CHECK(bandwidth(Collective::all_reduce, 1'000'000, 100, 4).bus == doctest::Approx(15));
  CHECK(bandwidth(Collective::all_gather, 1'000'000, 100, 4).bus == doctest::Approx(7.5));
  CHECK(bandwidth(Collective::scatter, 1'000'000, 100, 2).bus == doctest::Approx(5));
  CHECK(bandwidth(Collective::broadcast, 1'000'000, 100, 8).bus == doctest::Approx(10));
  CHECK(bandwidth(Collective::all_reduce, 8, 0, 2).bus == 0);
  CHECK(bus_factor(Collective::all_reduce, 1) == 0);
}

TEST_CASE("percentiles are the nearest rank") {
  std::vector<double> times(100);
  std::iota(times.rbegin(), times.rend(), 1.0);
  const Statistics all = statistics(times);
  CHECK(all.least == 1);
  CHECK(all.most == 100);
  CHECK(all.p50 == 50);
  CHECK(all.p95 == 95);
  CHECK(all.p99 == 99);
  CHECK(all.mean == doctest::Approx(50.5));
  CHECK(statistics({7}).p99 == 7);
  CHECK(statistics({}).p99 == 0);
  CHECK(statistics({2, 4}).variation() == doctest::Approx(100.0 / 3));
}

TEST_CASE("-a chooses among the ranks' times") {
  const std::vector<double> times{5, 1, 9, 1};
  CHECK(over_ranks(times, Average::rank0) == 5);
  CHECK(over_ranks(times, Average::mean) == 4);
  CHECK(over_ranks(times, Average::least) == 1);
  CHECK(over_ranks(times, Average::most) == 9);
}

TEST_CASE("a row is warmed up by 50 calls or 20 ms, or exactly as often as -w says") {
  Options options;
  CHECK(warm_up_calls_left(options, 1, 1e-6) == 49);
  CHECK(warm_up_calls_left(options, 11, 0.02) == 0);
  options.aggregate = 3;
  CHECK(warm_up_calls_left(options, 1, 1e-6) == 149);
  options.warmup = 2;
  CHECK(warm_up_calls_left(options, 1, 10) == 5);
  options.warmup = 0;
  CHECK(warm_up_calls_left(options, 1, 0) <= 0);
}

TEST_CASE("without -n a row takes 2 ms at least") {
  Options options;
  CHECK(iterations_for(options, 0x1p-20) == 2098);
  CHECK(iterations_for(options, 1) == 20);
  options.iterations = 20;
  CHECK(iterations_for(options, 1e-6) == 20);
}

TEST_CASE("time limits stretch or shorten the number of iterations") {
  Options options;
  CHECK(iterations_for(options, 100) == 20);
  options.min_time = 1;
  CHECK(iterations_for(options, 0.001) == 1000);
  CHECK(iterations_for(options, 1) == 20);
  options.max_time = 2;
  CHECK(iterations_for(options, 0.5) == 4);
  CHECK(iterations_for(options, 100) == 1);
  options.skip = 3;
  CHECK(iterations_for(options, 100) == 4);
}

TEST_CASE("single calls end in time, though each waits for the others before it") {
  Options options;
  CHECK(single_calls_for(options, 20'000, 16, 16 * 250e-6) == 4000);
  CHECK(single_calls_for(options, 100, 16, 16 * 250e-6) == 100);
  CHECK(single_calls_for(options, 20, 16, 100) == 16);
  options.min_time = 2;
  CHECK(single_calls_for(options, 20'000, 16, 16 * 250e-6) == 8000);
  options.max_time = 0.125;
  CHECK(single_calls_for(options, 20'000, 16, 16 * 250e-6) == 500);
  options.skip = 30;
  CHECK(single_calls_for(options, 20'000, 16, 100) == 31);
  options.iterations = 20'000;
  CHECK(single_calls_for(options, 20'000, 16, 16 * 250e-6) == 500);
  options.max_time = 0;
  CHECK(single_calls_for(options, 20'000, 16, 16 * 250e-6) == 20'000);
  options.iterations = 20;  // and --min-time wants more
  CHECK(single_calls_for(options, 20'000, 16, 16 * 250e-6) == 8000);
}

TEST_CASE("ranks are split into groups as NCCL_TESTS_SPLIT says") {
  CHECK(split_colour("MOD 2", 5) == 1);
  CHECK(split_colour("div4", 5) == 1);
  CHECK(split_colour("AND 0x6", 5) == 4);
  CHECK(split_colour("|1", 4) == 5);
  CHECK(code_of([] { split_colour("MOD 0", 1); }) == "invalid_argument");
  CHECK(code_of([] { split_colour("XOR 1", 1); }) == "invalid_argument");
}

// ---- Data

TEST_CASE("expected results equal what the reference kernels make of the inputs, in either order") {
  const compute::Table& reference = compute::reference_table();
  tutti::testing::Lot lot{1, 8};
  for (int t = 0; t < data_type_count; ++t) {
    const auto type = static_cast<DataType>(t);
    for (int o = 0; o < compute::op_count; ++o) {
      const auto op = static_cast<OpKind>(o);
      if (!compute::supports(type, op)) continue;
      const Reduction reduction{false, op, op == OpKind::premul_sum ? 2.0 : 1.0};
      for (const int ranks : {1, 2, 3, 7, 64, 130}) {
        if (ranks > 7 && !lot.draws()) continue;
        CAPTURE(std::string{name_of(type)});
        CAPTURE(std::string{name_of(op)});
        CAPTURE(ranks);
        const auto fold = [&](bool backwards) {
          const detail::Arithmetic arithmetic{reference, type, op == OpKind::premul_sum ? premul_sum(2.0) : Op{op},
                                              ranks};
          std::vector<Bytes> all;
          std::vector<const std::byte*> sources;
          for (int k = 0; k < ranks; ++k) {
            all.push_back(input_pattern(type, reduction, backwards ? ranks - 1 - k : k, ranks, 1).bytes);
            if (arithmetic.premultiplies()) arithmetic.premultiply(all.back().data(), all.back().data(), period);
            sources.push_back(all.back().data());
          }
          Bytes result(all.front().size());
          arithmetic.fold(result.data(), sources, result.size(), false);
          return result;
        };
        const Pattern expected = result_pattern(type, reduction, ranks, ranks, 1);
        CHECK(count_wrong(fold(false), expected, 0) == 0);
        CHECK(count_wrong(fold(true), expected, 0) == 0);
        CHECK((expected.tolerance == 0 || ranks > 64));
      }
    }
  }
}

TEST_CASE("values differ from rank to rank, from place to place and from repetition to repetition") {
  for (int t = 0; t < data_type_count; ++t) {
    const auto type = static_cast<DataType>(t);
    for (const Reduction& reduction : {Reduction{}, Reduction{false, OpKind::sum, 1}}) {
      const Pattern one = input_pattern(type, reduction, 0, 4, 1);
      CHECK(one.bytes != input_pattern(type, reduction, 1, 4, 1).bytes);
      CHECK(one.bytes != input_pattern(type, reduction, 0, 4, 2).bytes);
      const auto element = static_cast<std::ptrdiff_t>(size_of(type));
      CHECK_FALSE(std::equal(one.bytes.begin() + element, one.bytes.end(), one.bytes.begin()));
    }
  }
}

TEST_CASE("every wrong element is counted, wherever the pattern begins, and poison is wrong") {
  const Pattern pattern = input_pattern(DataType::f32, {}, 2, 4, 1);
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, period - 1, period, period + 1, 3 * period + 2}) {
    for (const std::size_t first : {std::size_t{0}, std::size_t{1}, period - 1, 5 * period + 7}) {
      Bytes buffer(count * 4);
      fill(buffer, pattern, first);
      CHECK(count_wrong(buffer, pattern, first) == 0);
      if (count > 0) buffer.front() ^= std::byte{1};
      if (count > 1) buffer.back() ^= std::byte{1};
      CHECK(count_wrong(buffer, pattern, first) == std::min<std::size_t>(count, 2));
      poison(buffer);
      CHECK(count_wrong(buffer, pattern, first) == count);
    }
  }
}
