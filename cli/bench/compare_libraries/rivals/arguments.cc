#include "cli/bench/compare_libraries/rivals/arguments.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

namespace tutti::cli::measure {
namespace {

template <class Number>
std::vector<Number> numbers_in(const std::string& text) {
  std::vector<Number> numbers;
  std::stringstream words{text};
  for (std::string word; std::getline(words, word, ',');) numbers.push_back(static_cast<Number>(std::stoull(word)));
  return numbers;
}

void take(Arguments& into, const std::string& name, const std::string& value) {
  if (name == "--call") {
    const auto call = find_call(value);
    if (!call) throw std::invalid_argument("no call \"" + value + "\"");
    into.call = *call;
  } else if (name == "--sizes") {
    into.sizes = numbers_in<std::size_t>(value);
  } else if (name == "--setting") {
    into.setting = value;
  } else if (name == "--folder") {
    into.folder = value;
  } else if (name == "--transport") {
    into.transport = value;
  } else if (name == "--ranks") {
    into.ranks = std::stoi(value);
  } else if (name == "--gpu-rate") {
    into.gpu_rate = std::stod(value);
  } else if (name == "--cores") {
    into.cores = std::stoi(value);
  } else if (name == "--probe-cores") {
    into.probe_cores = numbers_in<int>(value);
  } else if (name == "--budget-ms") {
    into.budget.milliseconds = std::stod(value);
  } else if (name == "--cap-ms") {
    into.budget.most = std::stod(value);
  } else if (name == "--computing-us") {
    into.budget.computing = std::stod(value);
  } else if (name == "--seconds") {
    into.seconds = std::stoi(value);
  } else {
    throw std::invalid_argument("no option \"" + name + "\"; tutti bench --against starts this program");
  }
}

}  // namespace

Arguments parse_arguments(int argc, char** argv) {
  Arguments arguments;
  if (argc % 2 == 0) throw std::invalid_argument(std::string{argv[argc - 1]} + " has no value");
  for (int i = 1; i + 1 < argc; i += 2) take(arguments, argv[i], argv[i + 1]);
  if (arguments.sizes.empty() || arguments.folder.empty())
    throw std::invalid_argument("--sizes and --folder are needed; tutti bench --against starts this program");
  return arguments;
}

void print_row(std::size_t size, std::size_t bytes, const Times& times, std::uint64_t wrong, double before,
               double after) {
  std::printf("row %zu %zu %.4f %.4f %.4f %.4f %.4f %d %llu %.1f %.1f\n", size, bytes, times.single, times.least,
              times.p95, times.loop, times.skew, times.iterations, static_cast<unsigned long long>(wrong), before,
              after);
  std::fflush(stdout);
}

void print_end() {
  std::printf("end\n");
  std::fflush(stdout);
}

}  // namespace tutti::cli::measure
