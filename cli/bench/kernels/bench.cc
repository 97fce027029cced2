// `tutti bench kernels`: how fast one core combines elements, for each type and op and at each level of the memory.

#include "cli/bench/kernels/bench.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/base/command_line.h"
#include "cli/base/exit_codes.h"
#include "cli/base/output.h"
#include "cli/base/sizes.h"
#include "cli/base/usage_error.h"
#include "cli/bench/kernels/rates.h"
#include "cli/bench/names.h"
#include "lib/base/environment.h"
#include "tutti/error.h"
#include "tutti/version.h"

namespace tutti::cli {
namespace {

using kernel_rates::Bench;
using kernel_rates::Effort;
using kernel_rates::Form;
using kernel_rates::Rate;
using kernel_rates::Task;

constexpr const char* kernels_footer =
    R"(A row is a type and an op, a pair of columns a size of each operand: GB/s of the
result, and its ratio to a plain copy loop of the same length, measured in turn. Both run on one core. Row avg is
the division of sums, which are larger than elements of some types, and mulsum the multiplication that these ops add.

Examples:
  tutti bench kernels                                        all types and ops in the caches and in memory
  tutti bench kernels -d float,half,bfloat16 -o sum --isa avx2
  tutti bench kernels -d float -o sum --form fold --sources 8
  tutti bench kernels --sizes 64K --format csv)";

const std::map<std::string, Form> forms{{"in-place", Form::in_place},
                                        {"apart", Form::apart},
                                        {"streaming", Form::streaming},
                                        {"fold", Form::fold},
                                        {"fold-streaming", Form::fold_streaming}};

struct KernelOptions {
  std::vector<std::string> types{"all"};
  std::vector<std::string> ops{"all"};
  std::vector<std::string> sizes{"16K", "256K", "4M", "256M"};
  std::string form = "in-place";
  std::string isa;
  std::string format = "table";
  int sources = 4;
  Effort effort;
};

struct KernelRow {
  bench::NamedType type;
  bench::NamedOp op;
};

void declare(CLI::App& app, KernelOptions& options) {
  app.set_help_flag("-h,--help", "Show this help");
  app.add_option("-d,--datatype", options.types, "Types, e.g. float,half; all")->delimiter(',');
  app.add_option("-o,--op", options.ops, "Ops, e.g. sum,max; all")->delimiter(',');
  app.add_option("--sizes", options.sizes, "Bytes of an operand")->delimiter(',')->capture_default_str();
  app.add_option("--form", options.form, "in-place, apart, streaming, fold or fold-streaming")
      ->check(CLI::IsMember(forms));
  app.add_option("--sources", options.sources, "Sources of a fold")->check(CLI::Range(2, 64))->capture_default_str();
  app.add_option("--isa", options.isa, "Instruction set; without it that of TUTTI_ISA, or the best");
  app.add_option("--repetitions", options.effort.repetitions,
                 "Repetitions of each kernel and of the copy loop, in turn")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--min-time", options.effort.seconds, "Seconds of one repetition, at least")
      ->check(CLI::Range(0.0, 10.0))
      ->capture_default_str();
  app.add_option("--format", options.format, "table, csv or json")->check(CLI::IsMember({"table", "csv", "json"}));
  app.footer(kernels_footer);
}

std::vector<std::size_t> sizes_of(const KernelOptions& options) {
  std::vector<std::size_t> sizes;
  for (const std::string& text : options.sizes) {
    const std::optional<std::size_t> bytes = parse_bytes(text);
    if (!bytes || *bytes == 0 || *bytes % 64 != 0)
      wrong("bench kernels", fmt::format("--sizes takes multiples of 64 bytes such as 16K, not \"{}\"", text));
    sizes.push_back(*bytes);
  }
  return sizes;
}

/// In the order of their numbers, under the names that `tutti bench` uses.
template <class Named, class Find>
std::vector<Named> named(const std::vector<std::string>& names, int all, Find find) {
  std::vector<Named> found;
  for (const std::string& name : names) {
    if (name == "all")
      for (int i = 0; i < all; ++i) found.push_back(find(i));
    else
      found.push_back(find(name));
  }
  return found;
}

struct FindType {
  bench::NamedType operator()(int number) const { return (*this)(name_of(static_cast<DataType>(number))); }
  bench::NamedType operator()(std::string_view name) const { return bench::find_types(name).front(); }
};
struct FindOp {
  bench::NamedOp operator()(int number) const { return (*this)(name_of(static_cast<OpKind>(number))); }
  bench::NamedOp operator()(std::string_view name) const { return bench::find_ops(name).front(); }
};

Task task_of(const KernelRow& row, const KernelOptions& options) {
  return {row.type.type, row.op.op, forms.at(options.form), options.sources};
}

std::vector<KernelRow> rows_of(const KernelOptions& options, const compute::Table& table) {
  std::vector<KernelRow> rows;
  for (const bench::NamedType type : named<bench::NamedType>(options.types, data_type_count, FindType{})) {
    for (const bench::NamedOp op : named<bench::NamedOp>(options.ops, compute::op_count, FindOp{})) {
      const KernelRow row{type, op};
      if (kernel_rates::is_there(table, task_of(row, options))) rows.push_back(row);
    }
  }
  if (rows.empty())
    throw Error{ErrorCode::unsupported, fmt::format("bench: the {} kernels have nothing of form {} for these types and "
                                                    "ops",
                                                    table.isa, options.form)};
  return rows;
}

/// Receives the results as they are measured.
class Output {
 public:
  Output(const KernelOptions& options, const compute::Table& table) : options_{options}, isa_{table.isa} {
    if (is_fold()) sources_ = options.sources;
    if (options.format == "csv") fmt::print("isa,form,sources,type,redop,size,GB/s,copy GB/s,ratio\n");
    if (options.format == "table") print_header();
  }

  void add(const KernelRow& row, std::size_t bytes, const Rate& rate) {
    if (options_.format == "csv")
      fmt::print("{},{},{},{},{},{},{:.3f},{:.3f},{:.4f}\n", isa_, options_.form, sources_, row.type.name, row.op.name,
                 bytes, rate.kernel, rate.copy, rate.ratio);
    if (options_.format == "table") fmt::print(" {:>9.2f} {:>6.2f}", rate.kernel, rate.ratio);
    if (options_.format == "json")
      results_.push_back({{"type", row.type.name},
                          {"redop", row.op.name},
                          {"size", bytes},
                          {"gb_per_s", rate.kernel},
                          {"copy_gb_per_s", rate.copy},
                          {"ratio", rate.ratio}});
  }
  void begin(const KernelRow& row) {
    if (options_.format == "table") fmt::print("  {:>10} {:>7}", row.type.name, row.op.name);
  }
  void end_row() {
    if (options_.format == "table") fmt::print("\n");
    flush_output();
  }
  void end() {
    if (options_.format == "json")
      fmt::print("{}\n", Json{{"version", TUTTI_VERSION},
                              {"instructions", isa_},
                              {"form", options_.form},
                              {"sources", sources_},
                              {"repetitions", options_.effort.repetitions},
                              {"results", results_}}
                             .dump(1));
  }

 private:
  using Json = nlohmann::ordered_json;

  bool is_fold() const { return options_.form.starts_with("fold"); }
  void print_header() {
    fmt::print("# kernels of {}, {}{}: GB/s, and the ratio to a copy loop of that size\n", isa_, options_.form,
               is_fold() ? fmt::format(" of {} sources", sources_) : "");
    fmt::print("# {:>10} {:>7}", "type", "redop");
    for (const std::string& size : options_.sizes) fmt::print(" {:>9} {:>6}", size, "/copy");
    fmt::print("\n");
  }

  const KernelOptions& options_;
  std::string isa_;
  int sources_ = 2;
  Json results_ = Json::array();
};

void run(const KernelOptions& options, const compute::Table& table) {
  const std::vector<KernelRow> rows = rows_of(options, table);
  std::vector<Bench> benches;
  const int sources = options.form == "in-place" ? 1 : std::max(2, options.sources);
  for (const std::size_t bytes : sizes_of(options)) benches.emplace_back(table, bytes, sources);
  Output output{options, table};
  for (const KernelRow& row : rows) {
    output.begin(row);
    for (Bench& bench : benches) output.add(row, bench.bytes(), bench.measure(task_of(row, options), options.effort));
    output.end_row();
  }
  output.end();
}

}  // namespace

int kernel_bench_main(int argc, char** argv) {
  KernelOptions options;
  CLI::App app{"Measures the kernels that reductions are made of, on one core.", "tutti bench kernels"};
  declare(app, options);
  if (!parse_command_line(app, argc, argv, "bench kernels")) return exit_success;
  const compute::Table& table =
      compute::choose_table(options.isa.empty() ? variable("TUTTI_ISA").value_or("") : options.isa);
  run(options, table);
  return exit_success;
}

}  // namespace tutti::cli
