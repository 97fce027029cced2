#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/plan/interchange/options.h"
#include "cli/plan/page/page.h"

namespace CLI {
class App;
}  // namespace CLI

// The command line of `tutti plan`.

namespace tutti::cli::plan {

inline constexpr int most_ranks_in_frames = 16;  ///< unless requested

struct Options {
  std::string collective;
  std::string algorithm;
  std::string rank;
  std::string bytes = "1M";
  std::string transport = "tcp";
  std::string topology;
  std::string svg;
  std::string import;
  std::string on;
  std::string slot = "1M";
  interchange::Outputs outputs;
  PageOptions page;
  double latency = 10;      // us, of one message
  double bandwidth = 1.25;  // GB/s: 10 Gb/s
  int ranks = 4;
  std::optional<int> step;
  int root = 0;
  int pipeline = 0;  // 0: not given
  int radix = 0;
  std::optional<int> hosts;
  std::optional<int> gpus;
  int slots = 4;  // per link
  bool oversubscribed = false;
  bool check = false;
  bool explain = false;
  bool list = false;
  bool json = false;
};

void declare(CLI::App& app, Options& options);

std::size_t size_of_text(const std::string& text, const char* option = "--bytes");

void check_root(const Options& options);
/// All but the root and the rank.
void check_options(const Options& options);

int rank_in_front(const Options& options);
/// The ranks whose steps are shown: the requested ones, else the first, or a few for programs.
std::vector<int> ranks_to_show(const Options& options);

}  // namespace tutti::cli::plan
