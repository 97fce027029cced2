// The JSON file of nccl-tests, format 3: same keys, with the quirks that readers rely on (booleans and root are
// strings). Additions are under "tutti"; of the environment only known variables are kept.

#include <nlohmann/json.hpp>

#include "cli/bench/report.h"

namespace tutti::cli::bench {

using Json = nlohmann::ordered_json;

namespace {

const char* text_of(bool value) { return value ? "true" : "false"; }

Json devices(const Machine& machine) {
  Json list = Json::array();
  for (const Device& device : machine.devices)
    list.push_back({{"rank", device.rank},
                    {"group", device.group},
                    {"pid", device.pid},
                    {"hostname", device.host},
                    {"device", device.device},
                    {"device_hex", "cpu"},
                    {"device_info", device.processor}});
  return list;
}

Json config(const Options& options, const Machine& machine) {
  Json config{{"nthreads", options.threads},
              {"ngpus", options.gpus},
              {"minimum_bytes", options.min_bytes},
              {"maximum_bytes", options.max_bytes}};
  if (options.step_factor > 1) {
    config["step_factor"] = options.step_factor;
  } else {
    config["step_bytes"] = options.step_bytes;
  }
  config["warmup_iters"] = options.warmup.value_or(usual_warmup);
  config["iterations"] = options.iterations.value_or(usual_iterations);
  config["aggregated_iterations"] = options.aggregate;
  config["validation"] = options.check;
  config["graph"] = 0;
  config["blocking_collectives"] = text_of(options.blocking != 0);
  config["per_iter_timing"] = text_of(true);
  config["per_iter_skip"] = options.skip;
  config["parallel_init"] = text_of(false);
  config["devices"] = devices(machine);
  return config;
}

Json placement(const Timing& timing, const Options& options) {
  return {{options.cpu_time ? "cpu_time" : "time", timing.microseconds},
          {"alg_bw", timing.bandwidth.algorithm},
          {"bus_bw", timing.bandwidth.bus},
          {"nwrong", timing.wrong < 0 ? Json(nullptr) : Json(timing.wrong)}};
}

Json single_calls(const Series& series, const Options& options) {
  const Statistics all = statistics(counted(series, options));
  Json block{{"skipped_iterations", options.skip},
             {"min_us", all.least},
             {"max_us", all.most},
             {"avg_us", all.mean},
             {"p50_us", all.p50},
             {"p95_us", all.p95},
             {"p99_us", all.p99},
             {"stdev_us", all.deviation},
             {"cv_pct", all.variation()},
             {"times_us", series.slowest}};
  if (series.by_rank.size() > 1) block["per_process_max_times_us"] = series.by_rank;
  return block;
}

const char* name_of(Sync sync) {
  switch (sync) {
    case Sync::barrier:
      return "barrier";
    case Sync::none:
      return "none";
    case Sync::window:
      return "window";
  }
  return "unknown";
}

Json facts(const Options& options, const Machine& machine) {
  return {{"version", machine.version},
          {"collective", measure::name_of(options.what)},
          {"transport", machine.transport},
          {"congestion_control", machine.congestion},
          {"kernel", machine.kernel},
          {"cores", machine.cores},
          {"ranks_per_core", machine.ranks_per_core},
          {"pinned", machine.pinned},
          {"instructions", machine.instructions},
          {"clock", options.cpu_time ? "CLOCK_PROCESS_CPUTIME_ID" : "CLOCK_MONOTONIC"},
          {"sync", name_of(options.sync)},
          {"deterministic", options.deterministic}};
}

}  // namespace

struct JsonReport::Impl {
  Options options;
  Json document;
};

JsonReport::JsonReport(const Options& options, const Machine& machine, std::vector<std::string> arguments,
                       std::vector<std::string> environment)
    : impl_(std::make_unique<Impl>(Impl{options, {}})) {
  impl_->document = {{"version", 3},
                     {"start_time", local_time()},
                     {"args", std::move(arguments)},
                     {"env", std::move(environment)},
                     {"nccl_version", 0},
                     {"config", config(options, machine)},
                     {"tutti", facts(options, machine)},
                     {"results", Json::array()}};
}

JsonReport::~JsonReport() = default;

void JsonReport::add(const RowResult& row) {
  const Options& options = impl_->options;
  const std::string root = std::to_string(row.root);
  Json result{{"size", row.bytes},
              {"count", row.count},
              {"type", row.type},
              {"redop", row.op},
              {"root", std::string(root.size() < 6 ? 6 - root.size() : 0, ' ') + root},
              {"out_of_place", placement(row.out_of_place, options)}};
  if (!row.out_of_place.series.slowest.empty())
    result["out_of_place_per_iter"] = single_calls(row.out_of_place.series, options);
  result["in_place"] = row.in_place ? placement(*row.in_place, options) : Json(nullptr);
  if (row.in_place && !row.in_place->series.slowest.empty())
    result["in_place_per_iter"] = single_calls(row.in_place->series, options);
  result["actual_iterations"] = row.out_of_place.iterations;
  result["experiment_name"] = row.experiment;
  result["algorithm"] = row.algorithm;
  impl_->document["results"].push_back(std::move(result));
}

void JsonReport::conclude(const std::vector<std::string>& sentences) {
  impl_->document["tutti"]["conclusions"] = sentences;
}

std::string JsonReport::finish(const Outcome& outcome, const std::vector<std::string>& errors) {
  Json& document = impl_->document;
  document["out_of_bounds"] = {{"count", outcome.wrong_placements}, {"okay", text_of(outcome.wrong_placements == 0)}};
  document["average_bus_bandwidth"] = {{"bandwidth", outcome.average()},
                                       {"okay", outcome.least_bandwidth ? text_of(!outcome.too_slow()) : "unchecked"}};
  document["errors"] = errors;
  document["end_time"] = local_time();
  return document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";  // paths may be in any encoding
}

}  // namespace tutti::cli::bench
