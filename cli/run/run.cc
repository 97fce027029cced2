// `tutti run`: the command line. job.cc carries it out.

#include "cli/run/run.h"

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "cli/base/command_line.h"
#include "cli/base/exit_codes.h"
#include "cli/base/output.h"
#include "cli/base/usage_error.h"
#include "cli/run/environment.h"
#include "lib/base/environment.h"
#include "lib/base/host.h"
#include "lib/base/most_ranks.h"
#include "lib/base/net/address.h"
#include "lib/base/suggest.h"
#include "lib/failure/inject.h"
#include "lib/security/job_secret.h"
#include "rendezvous/endpoint.h"
#include "tutti/error.h"

namespace tutti::cli {
namespace {

constexpr const char* run_examples = R"(Examples:
  tutti run -n 4 ./prog --its options      four ranks on this host
  tutti run -n 4 script.py                 the same by Python: TUTTI_PYTHON, else python3 unless it is executable
  tutti run -n 4 -m package.module         the same for a module of Python
  tutti run -n auto --label never ./prog   one rank per available core, lines as they are
  tutti run -n 4 --log-dir logs --timeout 60 ./prog
  on two hosts, with the same secret in both files:
    n0$ tutti run -n 8 --nnodes 2 --node-rank 0 --rdzv-endpoint n0:29400 --secret-file ~/.tutti-secret ./prog
    n1$ tutti run -n 8 --nnodes 2 --node-rank 1 --rdzv-endpoint n0:29400 --secret-file ~/.tutti-secret ./prog

Exit code: 0, that of the first rank that failed (128 + its signal), 128 + the signal that ended tutti, 124 after --timeout,
126 or 127 for a program that cannot be started, 74 when output, a log or the trace could not be written)";

/// The words before CLI11 converts them.
struct RunWords {
  std::string ranks = "1";
  std::string nodes = "1";
  std::string label;
  std::string bind_to = "auto";
  std::string map_by;
  std::string endpoint;
  std::string master_host;
  std::string master_port;
  std::string timeout = "0";
  std::string kill_grace = "2";
  std::string max_restarts = "0";
  std::string max_lost = "0";
  std::vector<std::string> exported;
  std::string inject;
  bool standalone = false;
  bool label_flag = false;
  bool no_label = false;
  bool dry_run = false;
  bool no_python = false;
  bool module = false;
  bool foreign = false;
};

int whole_number(const std::string& option, const std::string& word, int least, int most) {
  int value = 0;
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc{} || stop != end || value < least || value > most) {
    wrong("run", fmt::format("{} takes a whole number from {} to {}, not \"{}\"", option, least, most, word));
  }
  return value;
}

/// "2", "0.5", "2s", "500ms", "5m".
std::chrono::milliseconds duration(const std::string& option, const std::string& word) {
  char* unit = nullptr;
  const double value = std::strtod(word.c_str(), &unit);
  const std::string_view rest{unit};
  const double scale = rest.empty() || rest == "s" ? 1000 : rest == "ms" ? 1 : rest == "m" ? 60'000 : 0;
  if (unit == word.c_str() || scale == 0 || !(value >= 0 && value * scale < 1e12)) {
    wrong("run", fmt::format("{} takes a time such as 30, 0.5, 500ms or 5m, not \"{}\"", option, word));
  }
  return std::chrono::milliseconds{static_cast<std::int64_t>(std::ceil(value * scale))};  // 0 may stand for never
}

void declare(CLI::App& app, RunWords& words, Job& job) {
  app.set_help_flag("-h,--help", "Show this help");
  const auto value = [&app](const char* names, auto& into, const char* type, const char* meaning) {
    app.add_option(names, into, meaning)->type_name(type);
  };
  value("-n,--nproc-per-node,--np", words.ranks, "N|auto",
        "Ranks on this node; auto: one per available core (also -np)");
  value("--nnodes", words.nodes, "N", "Nodes of the job, each with as many ranks (1)");
  value("--node-rank", job.node, "K", "Number of this node, from 0; node 0 serves the store");
  value("--rdzv-endpoint,--rdzv", words.endpoint, "HOST[:PORT]", "Address of node 0, the same on all nodes");
  value("--master-addr", words.master_host, "HOST", "The same in two parts, as with torchrun");
  value("--master-port", words.master_port, "PORT", "(29400)");
  value("--rdzv-id", job.id, "NAME", "Name that separates jobs (generated)");
  value("--secret-file", job.secret_file, "FILE",
        "File with the job's secret, readable only by you (TUTTI_SECRET or TUTTI_SECRET_FILE; on one node a random "
        "one)");
  app.add_flag("--insecure", job.insecure,
               "Use no secret: anyone who reaches the store can join; for PyTorch's store clients");
  app.add_flag("--tls", job.tls, "Encrypt all TCP connections, to the store and between ranks (TUTTI_TLS=1)");
  app.add_flag("--standalone", words.standalone, "One node (the default)");
  value("-x,--export", words.exported, "NAME[=VALUE]",
        "Set a variable for all ranks; without a value it must be set here");
  value("--inject", words.inject, "FAULTS",
        "Inject faults in the first attempt, e.g. kill:rank=2,op=5 (TUTTI_INJECT: in each)");
  value("--trace", job.trace, "FILE", "Record everything that the ranks do, for Perfetto and `tutti trace`");
  value("--label", words.label, "always|never", "Write [RANK] before each line (if there are several ranks)");
  app.add_flag("-l,--tag-output", words.label_flag, "The same as --label always");
  app.add_flag("--no-label", words.no_label, "The same as --label never");
  value("--log-dir", job.log_dir, "DIR", "Also write the output of rank r to DIR/rank-r.log");
  value("--bind-to", words.bind_to, "auto|core|none",
        "core: pin each rank to its share of the cores; auto: if there is a core for each (auto)");
  value("--map-by", words.map_by, "block|cyclic",
        "block: a rank gets neighbouring cores, or neighbours share a core; cyclic: both in turn (block)");
  value("--timeout", words.timeout, "SECONDS", "End the whole job after that time; 0: never (0)");
  value("--kill-grace", words.kill_grace, "SECONDS", "Time between SIGTERM and SIGKILL (2)");
  value("--max-restarts", words.max_restarts, "N", "Start all ranks again, up to N times, when one has failed (0)");
  value("--max-lost", words.max_lost, "N", "Ranks that may fail while the others go on, see Communicator::shrink (0)");
  app.add_flag("--dry-run", words.dry_run, "Print what would be started");
  app.add_flag("-m,--module", words.module, "The program is the name of a module, which Python starts (python -m)");
  app.add_flag("--no-python", words.no_python, "Start a program whose name ends in .py as it is, and not by Python");
  app.add_flag("--oversubscribe,--allow-run-as-root", words.foreign,
               "Accepted from command lines for other launchers; without effect");
  app.footer(run_examples);
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() != 0) option->allow_extra_args(false);
  }
}

/// Common spellings of options: "-np" for "-n", "_" for "-" in long names.
std::string normal_name(std::string_view word) {
  std::string name{word.substr(0, word.find('='))};
  if (name == "-np") return "-n";
  if (name.starts_with("--")) std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

/// Our options end at the first word that is neither an option nor the value of one: that is the program.
std::vector<std::string> split_off_options(const CLI::App& app, int argc, char** argv, Job& job) {
  std::vector<std::string> options;
  int i = 1;
  for (; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--") {
      ++i;
      break;
    }
    if (!word.starts_with("-") || word == "-") break;
    std::string name = normal_name(word);
    const bool glued = !name.starts_with("--") && name.size() > 2;  // -n4
    const CLI::Option* option = app.get_option_no_throw(glued ? name.substr(0, 2) : name);
    if (option == nullptr) {
      std::vector<std::string> names;
      for (const CLI::Option* known : app.get_options()) {
        for (const std::string& long_name : known->get_lnames()) names.push_back("--" + long_name);
      }
      const std::vector<std::string_view> views{names.begin(), names.end()};
      wrong("run", fmt::format("no option \"{}\".{}", name, did_you_mean(name, views)));
    }
    const bool takes_value = option->get_items_expected_max() != 0;
    const std::size_t equals = word.find('=');
    if (takes_value && !name.starts_with("--") && !glued && equals != std::string_view::npos) {
      options.insert(options.end(), {name, std::string{word.substr(equals + 1)}});  // of "-n=4" CLI11 would take "=4"
      continue;
    }
    options.push_back(glued ? std::string{word} : name + std::string{word.substr(std::min(word.size(), equals))});
    if (!takes_value || glued || equals != std::string_view::npos) continue;
    if (i + 1 == argc) wrong("run", fmt::format("{} needs a value", name));
    options.emplace_back(argv[++i]);
  }
  for (; i < argc; ++i) job.command.emplace_back(argv[i]);
  return options;
}

/// A script of Python is started by the Python that started us, or by any if it cannot be started by itself; a module
/// always. Its output is not to wait until it ends.
void add_python(std::vector<std::string>& command, bool is_module) {
  if (!is_module && !command.front().ends_with(".py")) return;
  const auto python = variable("TUTTI_PYTHON");
  if (!is_module && !python && ::access(command.front().c_str(), X_OK) == 0) return;
  if (is_module) command.insert(command.begin(), "-m");
  command.insert(command.begin(), {python.value_or("python3"), "-u"});
}

/// HOST or HOST:PORT; a host alone gets torchrun's default port.
void set_endpoint(std::string text, const std::string& said_by, Job& job) {
  for (const std::string_view scheme : {"tcp://", "store://"}) {
    if (text.starts_with(scheme)) text.erase(0, scheme.size());
  }
  const std::size_t after_host = text.starts_with("[") ? text.find(']') : 0;
  if (after_host != std::string::npos && text.find(':', after_host) == std::string::npos) text += ":29400";
  const rendezvous::Endpoint endpoint = rendezvous::parse_endpoint(text, said_by);
  job.host = endpoint.host;
  job.port = endpoint.port;
}

void set_place(const RunWords& words, Job& job) {
  if (job.node < 0 || job.node >= job.nodes) {
    wrong("run", fmt::format("--node-rank {} is outside 0 to {} (--nnodes {})", job.node, job.nodes - 1, job.nodes));
  }
  if (!words.endpoint.empty() && !words.master_host.empty()) {
    wrong("run", "give either --rdzv-endpoint or --master-addr, not both");
  }
  if (!words.endpoint.empty()) set_endpoint(words.endpoint, "--rdzv-endpoint", job);
  if (!words.master_host.empty()) {
    const bool is_address = net::parse_address(words.master_host, 0).has_value();  // "::1" needs no brackets here
    set_endpoint(is_address ? net::with_brackets(words.master_host) : words.master_host, "--master-addr", job);
  }
  if (!words.master_port.empty()) job.port = rendezvous::parse_port(words.master_port, "--master-port");
  if (job.nodes == 1) return;
  if (words.standalone) wrong("run", "--standalone means one node, --nnodes says more");
  if (job.host.empty()) wrong("run", "several nodes need --rdzv-endpoint HOST:PORT, the address of node 0");
  if (job.port == 0) wrong("run", "several nodes need a port that all of them know, not 0");
}

/// Variables of tutti hold for this process, too, which reads some of them for its ranks.
void set_exports(const RunWords& words, Job& job) {
  for (const std::string& word : words.exported) {
    const std::size_t end = word.find('=');
    if (end == 0 || word.empty()) wrong("run", fmt::format("-x takes NAME or NAME=VALUE, not \"{}\"", word));
    if (end != std::string::npos) {
      for (const auto& [name, option] :
           {std::pair{"TUTTI_SECRET_FILE=", "--secret-file FILE"}, {"TUTTI_TLS=", "--tls"}})
        if (word.starts_with(name))
          wrong("run", fmt::format("-x {}...: the job's store must know it, too: use {}", name, option));
      if (word.starts_with("TUTTI_SECRET="))
        wrong("run",
              "a command line can be read by everybody on this host: set TUTTI_SECRET before it, or use --secret-file");
      if (const std::string given = word.substr(0, end); is_given(job, given))
        wrong("run",
              fmt::format("-x {0}=...: tutti run itself gives each rank its {0}, by options such as -n, --nnodes, "
                          "--rdzv-endpoint, --rdzv-id and --inject; --dry-run shows them",
                          given));
      const auto& [name, value] = job.exported.emplace_back(word.substr(0, end), word.substr(end + 1));
      if (name.starts_with("TUTTI_")) ::setenv(name.c_str(), value.c_str(), 1);
    } else if (std::getenv(word.c_str()) == nullptr) {
      wrong("run", fmt::format("-x {}: that variable is not set here; give -x {}=VALUE", word, word));
    }
  }
}

void fill(const RunWords& words, Job& job) {
  job.ranks_here = words.ranks == "auto" || words.ranks == "cpu"
                       ? available_cores()
                       : whole_number("-n", words.ranks, 1, most_ranks_of_job);
  job.nodes = whole_number("--nnodes", words.nodes, 1, most_ranks_of_job / job.ranks_here);
  set_place(words, job);
  if (!words.inject.empty()) {
    detail::parse_faults(words.inject, job.ranks(), "run: --inject");
    job.inject = words.inject;
  }
  set_exports(words, job);
  const std::string label = words.label_flag ? "always" : words.no_label ? "never" : words.label;
  if (!label.empty() && label != "always" && label != "never") {
    wrong("run", fmt::format("--label takes always or never, not \"{}\"", label));
  }
  job.label = label == "always" ? Label::always : label == "never" ? Label::never : Label::when_several;
  if (words.bind_to != "auto" && words.bind_to != "core" && words.bind_to != "none") {
    wrong("run", fmt::format("--bind-to takes auto, core or none, not \"{}\"", words.bind_to));
  }
  job.binding = words.bind_to == "core"   ? Binding::core
                : words.bind_to == "none" ? Binding::none
                                          : Binding::when_it_fits;
  if (!words.map_by.empty() && words.map_by != "block" && words.map_by != "cyclic")
    wrong("run", fmt::format("--map-by takes block or cyclic, not \"{}\"", words.map_by));
  if (!words.map_by.empty() && job.binding != Binding::core)
    wrong("run", "--map-by is about ranks that are pinned: give --bind-to core as well");
  job.mapping = words.map_by == "cyclic" ? Mapping::cyclic : Mapping::block;
  job.timeout = duration("--timeout", words.timeout);
  job.kill_grace = duration("--kill-grace", words.kill_grace);
  job.max_lost = whole_number("--max-lost", words.max_lost, 0, job.ranks() - 1);
  job.max_restarts = whole_number("--max-restarts", words.max_restarts, 0, 1'000'000);
  if (job.command.empty()) wrong("run", "which program? For example: tutti run -n 4 ./prog");
  if (words.no_python && words.module) wrong("run", "a module is started by Python: leave out --no-python or --module");
  if (job.insecure && !job_secret(job.secret_file).empty())
    wrong("run",
          "--insecure means no secret, but --secret-file, TUTTI_SECRET or TUTTI_SECRET_FILE gives one; leave out one");
  if (!words.no_python) add_python(job.command, words.module);
}

}  // namespace

int run_main(int argc, char** argv) {
  Job job;
  RunWords words;
  CLI::App app{"Starts the ranks of a program and watches them.", "tutti run"};
  app.add_option("PROGRAM", "The program and its arguments, after all options of tutti")->type_name("[ARGUMENTS]");
  declare(app, words, job);
  const std::vector<std::string> options = split_off_options(app, argc, argv, job);
  std::vector<std::string> backwards{options.rbegin(), options.rend()};  // CLI11 takes them from the back
  try {
    app.parse(backwards);
  } catch (const CLI::CallForHelp&) {
    print_text(app.help());
    return exit_success;
  } catch (const CLI::ParseError& error) {
    refuse(app, error, options, "run");
  }
  refuse_empty_values(app, "run");
  fill(words, job);
  if (words.dry_run) {
    print_text(describe_ranks(job));
    return exit_success;
  }
  return run_job(job);
}

}  // namespace tutti::cli
