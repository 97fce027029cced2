// The tuning table: what it chooses, and what it says to a wrong line.

#include "algorithms/select.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/text.h"
#include "tutti/error.h"
#include "tutti/types.h"

namespace tutti::algorithms {
namespace {

using tutti::testing::contains;

std::string chosen(const TuningTable& table, const Situation& situation) { return to_string(table.select(situation)); }

Situation all_reduce_of(std::size_t bytes, int ranks, std::string_view transport) {
  return {.collective = Collective::all_reduce, .ranks = ranks, .bytes = bytes, .transport = transport};
}

TEST_CASE("the first line that matches wins, and both ends of a range belong to it") {
  const TuningTable table = TuningTable::parse(
      "# comment\n"
      "all_reduce shm 2-8 0-4K doubling  # behind a line, too\n"
      "\n"
      "  all_reduce\t* 9- 4K-1M tree:4*2\r\n"
      "all_reduce tcp 3 * chain*3\n"
      "all_reduce * * 2G- double_binary_tree\n"
      "all_reduce * * * circulant",
      "mine.table");
  CHECK(chosen(table, all_reduce_of(0, 2, "shm")) == "doubling");
  CHECK(chosen(table, all_reduce_of(4096, 8, "shm")) == "doubling");
  CHECK(chosen(table, all_reduce_of(4097, 8, "shm")) == "circulant");
  CHECK(chosen(table, all_reduce_of(1, 1, "shm")) == "circulant");
  CHECK(chosen(table, all_reduce_of(1, 9, "shm")) == "circulant");
  CHECK(chosen(table, all_reduce_of(4096, 9, "tcp")) == "tree:4*2");
  CHECK(chosen(table, all_reduce_of(1 << 20, 24576, "shm")) == "tree:4*2");
  CHECK(chosen(table, all_reduce_of((1 << 20) + 1, 9, "shm")) == "circulant");
  CHECK(chosen(table, all_reduce_of(77, 3, "tcp")) == "chain*3");
  CHECK(chosen(table, all_reduce_of(std::size_t{2} << 30, 4, "tcp")) == "double_binary_tree");
}

TEST_CASE("a line for oversubscribed hosts holds only there") {
  const TuningTable table = TuningTable::parse("all_reduce * * * direct oversubscribed\nall_reduce * * * chain", "t");
  Situation situation = all_reduce_of(8, 4, "shm");
  CHECK(chosen(table, situation) == "chain");
  situation.oversubscribed = true;
  CHECK(chosen(table, situation) == "direct");
}

TEST_CASE("where plans look at hosts, the number of ranks on each is the radix that a line does not give") {
  const TuningTable table = TuningTable::parse(
      "all_reduce cuda_hosts * 0-1K hierarchical\nall_reduce cuda_hosts * 0-2K hierarchical:2\nall_reduce * * * ring",
      "t");
  Situation situation = all_reduce_of(1024, 12, "cuda_hosts");
  situation.ranks_on_each_host = 4;
  std::string why;
  CHECK(to_string(table.select(situation, &why)) == "hierarchical:4");
  CHECK(contains(why, "hierarchical:4, by t:1"));
  situation.bytes = 2048;
  CHECK(chosen(table, situation) == "hierarchical:2");
  situation.bytes = 2049;
  CHECK(chosen(table, situation) == "ring");
  // Two hosts exchange one vector, where a ring would send two; among many the ring sends less.
  CHECK(chosen(TuningTable::builtin(), situation) == "hierarchical:4");
  situation.bytes = std::size_t{64} << 20;
  CHECK(chosen(TuningTable::builtin(), situation) == "hierarchical:4");
  situation.ranks = 64;
  CHECK(chosen(TuningTable::builtin(), situation) == "ring");
}

TEST_CASE("calls of GPUs may be staged, and other lines then decide what runs on the host") {
  const TuningTable table = TuningTable::parse(
      "all_to_all cuda_leader 2-4 * bruck\nall_reduce cuda_leader 2-4 0-64K staged\nall_reduce * * * ring", "t");
  CHECK(table.stages(all_reduce_of(4, 4, "cuda_leader")));
  CHECK(chosen(table, all_reduce_of(4, 4, "cuda_leader")) == "ring");
  CHECK_FALSE(table.stages(all_reduce_of((64 << 10) + 1, 4, "cuda_leader")));
  CHECK_FALSE(table.stages(all_reduce_of(4, 5, "cuda_leader")));
  CHECK_FALSE(table.stages(all_reduce_of(4, 4, "cuda_peers")));
  CHECK_FALSE(table.stages({.collective = Collective::broadcast, .ranks = 4, .transport = "cuda_leader"}));
  // A line before it that does not serve the call is passed over, and one that does decides.
  const TuningTable uneven = TuningTable::parse(
      "all_to_all cuda_ipc * * bruck\nall_to_all cuda_ipc * * staged\nall_to_all cuda_ipc * * direct", "t");
  Situation situation{.collective = Collective::all_to_all, .ranks = 4, .transport = "cuda_ipc"};
  CHECK_FALSE(uneven.stages(situation));
  situation.equal_parts = false;
  CHECK(uneven.stages(situation));
  for (const char* line : {"all_reduce shm 2 * staged", "all_reduce * * * staged", "all_reduce cuda_hosts 2 * staged"})
    CHECK_THROWS_WITH(TuningTable::parse(line, "t"), doctest::Contains("t:1: \"staged\" is for the GPUs of one host"));
}

TEST_CASE("between hosts with several ranks each, what crosses counts") {
  Situation situation = all_reduce_of(64, 8, "hosts");
  situation.ranks_on_each_host = 4;
  CHECK(chosen(TuningTable::builtin(), situation) == "hierarchical:4");
  situation.oversubscribed = true;
  CHECK(chosen(TuningTable::builtin(), situation) == "tree:2");
  situation.oversubscribed = false;
  situation.bytes = 1 << 20;
  CHECK(chosen(TuningTable::builtin(), situation) == "rails:4/256K");
  situation.collective = Collective::all_gather;
  CHECK(chosen(TuningTable::builtin(), situation) == "rails:4");
  situation.collective = Collective::broadcast;
  CHECK(chosen(TuningTable::builtin(), situation) == "chain/64K");
  situation.bytes = 64 << 10;
  CHECK(chosen(TuningTable::builtin(), situation) == "chain/16K");
  situation.bytes = 64;
  CHECK(chosen(TuningTable::builtin(), situation) == "hierarchical:4");
  // Sums in rank order, and more ranks than these lines are for: as everywhere, hosts are no radix there.
  situation = all_reduce_of(1 << 20, 8, "hosts");
  situation.rank_order = true;
  CHECK(chosen(TuningTable::builtin(), situation) == "direct_two_shot");
  for (const Collective collective : {Collective::all_reduce, Collective::broadcast, Collective::gather})
    for (const std::size_t bytes : {std::size_t{64}, std::size_t{32} << 10}) {
      Situation many{.collective = collective, .ranks = 128, .bytes = bytes, .transport = "hosts"};
      many.ranks_on_each_host = 64;
      CHECK(chosen(TuningTable::builtin(), many) ==
            chosen(TuningTable::builtin(), {.collective = collective, .ranks = 128, .bytes = bytes, .transport = "x"}));
    }
}

TEST_CASE("lines for tcp in a table of one's own hold for several hosts, too, unless it has lines for those") {
  Situation situation = all_reduce_of(1 << 20, 8, "hosts");
  situation.ranks_on_each_host = 4;
  CHECK(chosen(TuningTable::parse("all_reduce tcp * * chain", "t"), situation) == "chain");
  CHECK(chosen(TuningTable::parse("all_reduce tcp * * chain\nall_reduce hosts * 1M- ring", "t"), situation) == "ring");
  CHECK(chosen(TuningTable::parse("all_reduce shm * * chain", "t"), situation) == "rails:4/256K");
  std::string why;
  TuningTable::parse("all_reduce tcp * * chain", "t").select(situation, &why);
  CHECK(contains(why, "chain, by t:1"));
  // A line for all transports comes in its turn.
  const std::string tcp = "all_reduce tcp * * chain\n", all = "all_reduce * * * ring\n";
  CHECK(chosen(TuningTable::parse(tcp + all, "t"), situation) == "chain");
  CHECK(chosen(TuningTable::parse(all + tcp, "t"), situation) == "ring");
  CHECK(chosen(TuningTable::parse(tcp + all + "broadcast hosts * * chain", "t"), situation) == "chain");
  CHECK(chosen(TuningTable::parse(tcp + all + "all_reduce hosts * * tree:4", "t"), situation) == "ring");
}

TEST_CASE("a barrier among many ranks that share cores is direct, but not over links") {
  Situation situation{.collective = Collective::barrier, .ranks = 128, .transport = "shm", .oversubscribed = true};
  CHECK(chosen(TuningTable::builtin(), situation) == "direct");
  situation.boards = false;
  CHECK(chosen(TuningTable::builtin(), situation) == "dissemination");
  situation.ranks = 16;
  CHECK(chosen(TuningTable::builtin(), situation) == "direct");
  situation = {.collective = Collective::barrier, .ranks = 129, .transport = "shm", .oversubscribed = true};
  CHECK(chosen(TuningTable::builtin(), situation) == "dissemination");
}

TEST_CASE(
    "tiny calls of up to 128 ranks that share cores are direct on boards, and pass over it where there are none") {
  Situation situation{.collective = Collective::all_reduce, .ranks = 64, .bytes = 4, .transport = "shm"};
  situation.oversubscribed = true;
  CHECK(chosen(TuningTable::builtin(), situation) == "direct");
  situation.boards = false;
  CHECK(chosen(TuningTable::builtin(), situation) == "doubling");
  situation.rank_order = true;
  CHECK(chosen(TuningTable::builtin(), situation) == "direct");
  situation = {.collective = Collective::broadcast, .ranks = 128, .bytes = 1024, .transport = "shm"};
  situation.oversubscribed = true;
  CHECK(chosen(TuningTable::builtin(), situation) == "direct");
  situation.collective = Collective::reduce;
  CHECK(chosen(TuningTable::builtin(), situation) == "direct");
}

TEST_CASE("a line for domains holds where ranks are in several, and its algorithm gets them") {
  const TuningTable table = TuningTable::parse(
      "all_reduce shm * * hierarchical core-per-rank domains\n"
      "all_reduce * * * direct",
      "t");
  Situation situation = all_reduce_of(4, 4, "shm");
  CHECK(chosen(table, situation) == "direct");
  situation.domains = {0, 0, 1, 0};
  CHECK(chosen(table, situation) == "hierarchical:0-1.3+2");
  situation.rank_order = true;
  CHECK(chosen(table, situation) == "direct");
  situation.rank_order = false;
  situation.oversubscribed = true;
  CHECK(chosen(table, situation) == "direct");
}

TEST_CASE("a line whose algorithm has domains is for as many ranks as those have") {
  const TuningTable table = TuningTable::parse("all_reduce shm * * hierarchical:2+2\nall_reduce shm * * ring", "mine");
  CHECK(chosen(table, all_reduce_of(8, 4, "shm")) == "hierarchical:2+2");
  for (const int ranks : {2, 3, 5, 16}) CHECK(chosen(table, all_reduce_of(8, ranks, "shm")) == "ring");
}

TEST_CASE("the built-in table divides tiny calls of many ranks by domains, and others not") {
  Situation situation{.collective = Collective::broadcast, .ranks = 16, .bytes = 4, .transport = "shm"};
  CHECK(chosen(TuningTable::builtin(), situation) == "direct");
  situation.domains = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
  for (const Collective collective :
       {Collective::broadcast, Collective::reduce, Collective::all_reduce, Collective::barrier}) {
    situation.collective = collective;
    CHECK(chosen(TuningTable::builtin(), situation) == "hierarchical:8+8");
  }
  situation.collective = Collective::broadcast;
  situation.bytes = 64 * 1024;
  CHECK(chosen(TuningTable::builtin(), situation) == "direct");
}

TEST_CASE("a line for a core per rank holds nowhere else") {
  const TuningTable table = TuningTable::parse("all_reduce * * * direct core-per-rank\nall_reduce * * * chain", "t");
  Situation situation = all_reduce_of(8, 4, "shm");
  CHECK(chosen(table, situation) == "direct");
  situation.oversubscribed = true;
  CHECK(chosen(table, situation) == "chain");
}

TEST_CASE("a line whose algorithm does not serve the call is passed over") {
  const TuningTable table = TuningTable::parse(
      "all_to_all * * * bruck\nall_to_all * * * direct\n"
      "all_reduce * * * ring\nall_reduce * * * direct_two_shot\nall_gather * * * bruck",
      "t");
  CHECK(chosen(table, {.collective = Collective::all_to_all, .ranks = 4}) == "bruck");
  CHECK(chosen(table, {.collective = Collective::all_to_all, .ranks = 4, .equal_parts = false}) == "direct");
  CHECK(chosen(table, {.collective = Collective::all_reduce, .ranks = 4, .rank_order = true}) == "direct_two_shot");
  CHECK(chosen(table, {.collective = Collective::all_gather, .ranks = 4, .rank_order = true}) == "bruck");
}

TEST_CASE("the built-in table decides where a table has no line") {
  const TuningTable table = TuningTable::parse("all_reduce tcp 4 * doubling", "mine.table");
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{1} << 16, std::size_t{1} << 26}) {
    const Situation situation = all_reduce_of(bytes, 5, "tcp");
    std::string why;
    CHECK(to_string(table.select(situation, &why)) == chosen(TuningTable::builtin(), situation));
    CAPTURE(why);
    CHECK(contains(why, "by tuning_table.inc:"));
    CHECK(contains(why, "; no line of mine.table matches this call"));
  }
  CHECK(table.select({.collective = Collective::reduce, .ranks = 4, .rank_order = true}).entry->rank_order);
}

TEST_CASE("the reason names call, choice, line and text") {
  const TuningTable table = TuningTable::parse("# nothing\nall_reduce  tcp 2-8   * ring*4", "mine.table");
  std::string why;
  (void)table.select(all_reduce_of(4096, 8, "tcp"), &why);
  CHECK(why == "all_reduce of 4096 bytes over 8 ranks by tcp: ring*4, by mine.table:2: all_reduce tcp 2-8 * ring*4");
}

TEST_CASE("a wrong line is refused with file, line and what is wrong") {
  struct Case {
    const char* line;
    const char* reason;
  };
  for (const Case& wrong : std::vector<Case>{
           {"all_reduce tcp 2-8 *", "expected \"collective transport ranks bytes algorithm\""},
           {"all_reduce tcp 2-8 * ring oversubscribed really", "found 7 words"},
           {"all_reduce tcp 2-8 * ring crowded",
            "the words at the end can only be \"oversubscribed\" or \"core-per-rank\", and \"domains\", not"},
           {"all_reduce tcp * * ring domains", "domains need an algorithm that knows them, without a radix"},
           {"all_reduce tcp * * hierarchical:2 oversubscribed domains", "domains need an algorithm that knows them"},
           {"all_reduce tcp 2-8 * ring core-per-rnk", "Did you mean \"core-per-rank\"?"},
           {"allreduce tcp 2-8 * ring", "Did you mean \"all_reduce\"?"},
           {"all_reduce tpc 2-8 * ring", "Did you mean \"tcp\"?"},
           {"all_reduce tcp 8-2 * ring", "column ranks: \"8-2\" ends before it begins"},
           {"all_reduce tcp -8 * ring", "column ranks must be"},
           {"all_reduce tcp x * ring", "column ranks must be"},
           {"all_reduce tcp * 4KB ring", "column bytes must be"},
           {"all_reduce tcp * 1-4k ring", "not \"1-4k\""},
           {"all_reduce tcp * 1--4 ring", "column bytes must be"},
           {"all_reduce tcp * 0-99999999999G ring", "\"99999999999G\" is too large"},
           {"all_reduce tcp * 0-99999999999999999999 ring", "column bytes must be"},
           {"all_reduce tcp * * rang", "Did you mean \"ring\"?"},
           {"all_reduce tcp * * tree:1", "radix after ':' must be a number from 2"},
           {"all_reduce tcp * * circulant*4", "gains nothing from a pipeline"},
       }) {
    CAPTURE(std::string{wrong.line});
    try {
      (void)TuningTable::parse("# first\n\n" + std::string{wrong.line} + "\n", "my.table");
      FAIL_CHECK("accepted");
    } catch (const Error& error) {
      const std::string text = error.what();
      CAPTURE(text);
      CHECK(error.code() == ErrorCode::invalid_argument);
      CHECK(text.rfind("my.table:3: ", 0) == 0);
      CHECK(contains(text, wrong.reason));
    }
  }
}

TEST_CASE("the built-in table has a line for every call of two ranks or more") {
  for (int i = 0; i < collective_count; ++i)
    for (const std::string_view transport : {"shm", "tcp", "inproc"})
      for (const int ranks : {2, 3, 8, 9, 16, 17, 64, 65, 300, 24576})
        for (const std::size_t bytes :
             {std::size_t{0}, std::size_t{8}, std::size_t{4097}, std::size_t{1} << 20, std::size_t{1} << 40})
          for (const int flags : {0, 1, 2, 3, 4, 5, 6, 7}) {
            const Situation situation{.collective = static_cast<Collective>(i),
                                      .ranks = ranks,
                                      .bytes = bytes,
                                      .transport = transport,
                                      .oversubscribed = (flags & 1) != 0,
                                      .equal_parts = (flags & 2) != 0,
                                      .rank_order = (flags & 4) != 0};
            std::string why;
            const Choice choice = TuningTable::builtin().select(situation, &why);
            CAPTURE(why);
            REQUIRE(contains(why, "tuning_table.inc:"));
            REQUIRE(choice.entry->collective == situation.collective);
            const bool serves = situation.equal_parts || !choice.entry->equal_parts;
            REQUIRE(serves);
            const bool ordered =
                !situation.rank_order || !detail::is_reduction(situation.collective) || choice.entry->rank_order;
            REQUIRE(ordered);
          }
}

TEST_CASE("one rank alone is served, too") {
  for (int i = 0; i < collective_count; ++i)
    CHECK(TuningTable::builtin().select({.collective = static_cast<Collective>(i)}).entry != nullptr);
}

}  // namespace
}  // namespace tutti::algorithms
