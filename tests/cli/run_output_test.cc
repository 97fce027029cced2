#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <string_view>

#include "cli/run/output.h"

using namespace tutti;
using namespace tutti::cli;

namespace {

struct Pipe {
  Pipe() {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
    read = Descriptor{ends[0]};
    write = Descriptor{ends[1]};
  }
  Descriptor read, write;
};

const auto late = RankOutput::Clock::now() + std::chrono::hours{1};

/// An outlet, and the output that it has written.
struct Screen {
  std::string text() {
    outlet.flush();
    char bytes[4096];
    for (ssize_t got = 0; (got = ::read(pipe.read.get(), bytes, sizeof bytes)) > 0;)
      seen.append(bytes, static_cast<std::size_t>(got));
    return seen;
  }

  Pipe pipe;
  Outlet outlet{pipe.write.get()};
  std::string seen;
};

/// One stream of a rank.
struct Rank {
  Rank(const std::string& label, Screen& screen, bool lines = true)
      : output{std::move(pipe.read), label, lines, screen.outlet, transcript} {}
  void write(std::string_view text) {
    REQUIRE(::write(pipe.write.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    REQUIRE(output.read_some());
  }
  void end() {
    pipe.write.reset();
    REQUIRE_FALSE(output.read_some());
    REQUIRE_FALSE(output.open());
  }

  Pipe pipe;
  Transcript transcript;
  RankOutput output;
};

}  // namespace

TEST_CASE("an unfinished line is shown within 100 ms and goes on where it stands") {
  Screen screen;
  Rank rank{"[0] ", screen};
  const auto begin = RankOutput::Clock::now();
  rank.write("name");
  CHECK(screen.text() == "");
  REQUIRE(rank.output.show_at());
  CHECK(*rank.output.show_at() >= begin);
  CHECK(*rank.output.show_at() <= RankOutput::Clock::now() + std::chrono::milliseconds{100});
  const auto first = rank.output.show_at();
  rank.write("? ");
  CHECK(rank.output.show_at() == first);
  rank.output.show_if_due(late);
  CHECK(screen.text() == "[0] name? ");
  CHECK_FALSE(rank.output.show_at());
  rank.write("yes");
  CHECK(rank.output.show_at());
  rank.output.show_if_due(late);
  CHECK(screen.text() == "[0] name? yes");
  rank.write("!\nnext\n");
  CHECK(screen.text() == "[0] name? yes!\n[0] next\n");
  CHECK_FALSE(rank.output.show_at());
}

TEST_CASE("an unfinished line is not shown before its time") {
  Screen screen;
  Rank rank{"[0] ", screen};
  rank.write("name? ");
  REQUIRE(rank.output.show_at());
  rank.output.show_if_due(*rank.output.show_at() - std::chrono::milliseconds{1});
  CHECK(screen.text() == "");
  rank.output.show_if_due(*rank.output.show_at());
  CHECK(screen.text() == "[0] name? ");
}

TEST_CASE("the rest of a line that waits to be read is read before the line is shown") {
  Screen screen;
  Rank rank{"[0] ", screen};
  rank.write("one t");
  REQUIRE(::write(rank.pipe.write.get(), "wo\nthree", 8) == 8);
  rank.output.show_if_due(*rank.output.show_at());
  CHECK(screen.text() == "[0] one two\n");
  CHECK(rank.output.show_at());
}

TEST_CASE("while an outlet is full no unfinished line is shown") {
  Screen screen;
  Rank rank{"[0] ", screen};
  rank.write("unfinished");
  screen.outlet.put(&screen, std::string(1 << 20, 'x') + "\n");
  CHECK(screen.outlet.full());
  CHECK_FALSE(rank.output.show_at());
  rank.output.show_if_due(late);
  CHECK_FALSE(screen.outlet.continues(&rank.output));
}

TEST_CASE("the end of a whole buffer is no prompt, unless more follows alone") {
  Screen screen;
  Rank rank{"[0] ", screen};
  const auto begin = RankOutput::Clock::now();
  rank.write(std::string(RankOutput::block - 3, 'x') + "\nab");
  REQUIRE(rank.output.show_at());
  CHECK(*rank.output.show_at() >= begin + RankOutput::block_patience);
  rank.write("c? ");
  REQUIRE(rank.output.show_at());
  CHECK(*rank.output.show_at() <= RankOutput::Clock::now() + RankOutput::patience);
}

TEST_CASE("a line that is finished at once is whole and needs no clock") {
  Screen screen;
  Rank rank{"[0] ", screen};
  rank.write("one\ntwo\r\n\n");
  CHECK(screen.text() == "[0] one\n[0] two\r\n[0] \n");
  CHECK_FALSE(rank.output.show_at());
}

TEST_CASE("another line ends one that is shown unfinished") {
  Screen screen;
  Rank zero{"[0] ", screen}, one{"[1] ", screen};
  zero.write("50 %");
  zero.output.show_if_due(late);
  one.write("hello\n");
  CHECK(screen.text() == "[0] 50 %\n[1] hello\n");
  SUBCASE("its rest is labelled anew") {
    zero.write(" done\n");
    CHECK(screen.text() == "[0] 50 %\n[1] hello\n[0]  done\n");
  }
  SUBCASE("nothing is left of it") {
    zero.write("\nnext\n");
    CHECK(screen.text() == "[0] 50 %\n[1] hello\n[0] next\n");
  }
  CHECK(zero.transcript.last_line != "");
}

TEST_CASE("unfinished lines of several ranks do not mix, with labels or without") {
  for (const bool labelled : {true, false}) {
    Screen screen;
    Rank zero{labelled ? "[0] " : "", screen}, one{labelled ? "[1] " : "", screen};
    for (const char* const text : {"a", "b"}) {
      zero.write(text);
      one.write(text);
      zero.output.show_if_due(late);
      one.output.show_if_due(late);
    }
    zero.end();
    one.end();
    CHECK(screen.text() == (labelled ? "[0] a\n[1] a\n[0] b\n[1] b\n" : "a\na\nb\nb\n"));
  }
}

TEST_CASE("a carriage return begins the label again") {
  Screen screen;
  Rank rank{"[0] ", screen};
  rank.write("\r10%");
  rank.output.show_if_due(late);
  CHECK(screen.text() == "[0] 10%");
  rank.write("\r20%");
  CHECK(screen.text() == "[0] 10%\r");
  rank.output.show_if_due(late);
  CHECK(screen.text() == "[0] 10%\r[0] 20%");
  rank.write("\r30%\r40%\r");
  CHECK(screen.text() == "[0] 10%\r[0] 20%\r[0] 30%\r");
  CHECK(rank.transcript.last_line == "30%");
  SUBCASE("and the end of the line may follow late") {
    rank.write("\n");
    CHECK(screen.text() == "[0] 10%\r[0] 20%\r[0] 30%\r[0] 40%\r\n");
  }
  SUBCASE("and the last bar is the last line") {
    rank.end();
    CHECK(screen.text() == "[0] 10%\r[0] 20%\r[0] 30%\r[0] 40%\n");
    CHECK(rank.transcript.last_line == "40%");
  }
  SUBCASE("and another rank's line does not overwrite a bar") {
    Rank other{"[1] ", screen};
    rank.output.show_if_due(late);
    other.write("hello\n");
    CHECK(screen.text() == "[0] 10%\r[0] 20%\r[0] 30%\r[0] 40%\n[1] hello\n");
  }
}

TEST_CASE("a bar that ends with a carriage return is closed with the rank") {
  Screen screen;
  Rank rank{"[0] ", screen};
  rank.write("10%\r\r");
  rank.end();
  CHECK(screen.text() == "[0] 10%\r\n");
}

TEST_CASE("a line that a terminal's echo has ended is not ended again") {
  Screen screen;
  Rank zero{"[0] ", screen}, one{"[1] ", screen};
  zero.write("n? ");
  zero.output.show_if_due(late);
  screen.outlet.line_was_ended();  // somebody typed an answer
  one.write("hello\n");
  zero.write("got 5\n");
  CHECK(screen.text() == "[0] n? [1] hello\n[0] got 5\n");
}

TEST_CASE("bytes of a single rank pass unchanged, and are known all the same") {
  Screen screen;
  Rank rank{"", screen, false};
  rank.write("a\r\nb\rc");
  CHECK(screen.text() == "a\r\nb\rc");
  CHECK_FALSE(rank.output.show_at());
  CHECK(rank.transcript.last_line == "b");
  screen.outlet.put(&screen, "tutti: ours\n");
  CHECK(screen.text() == "a\r\nb\rc\ntutti: ours\n");
  rank.end();
  CHECK(rank.transcript.last_line == "c");
}

TEST_CASE("a log that cannot be written is given up, with the reason") {
  Screen screen;
  Rank rank{"[0] ", screen};
  rank.transcript.log = Descriptor{::open("/dev/full", O_WRONLY | O_CLOEXEC)};
  REQUIRE(rank.transcript.log);
  rank.write("x\n");
  CHECK(rank.transcript.log_error == ENOSPC);
  CHECK_FALSE(rank.transcript.log);
  CHECK(screen.text() == "[0] x\n");
}

TEST_CASE("an outlet tells why it failed and drops the rest") {
  const Descriptor full{::open("/dev/full", O_WRONLY | O_CLOEXEC)};
  REQUIRE(full);
  Outlet outlet{full.get()};
  outlet.put(nullptr, "x\n");
  outlet.flush();
  CHECK(outlet.error() == ENOSPC);
  CHECK(outlet.empty());
  outlet.put(nullptr, "y\n");
  CHECK(outlet.empty());
}
