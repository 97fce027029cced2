#include "cli/bench/kernels/rates.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <new>
#include <random>
#include <string_view>

#include "cli/bench/machine.h"
#include "cli/measure/median.h"
#include "tutti/error.h"

namespace tutti::cli::kernel_rates {
namespace {

using measure::median;

constexpr std::align_val_t alignment{4096};
constexpr std::size_t random_part = 65536;

// ---- The copy loop: plain loads and stores, as wide as the kernels' own; no memcpy, which has tricks of its own.

using Line16 [[gnu::vector_size(16), gnu::may_alias]] = unsigned char;
using Line32 [[gnu::vector_size(32), gnu::may_alias]] = unsigned char;
using Line64 [[gnu::vector_size(64), gnu::may_alias]] = unsigned char;

template <class Line>
[[gnu::always_inline]] inline void copy_lines(std::byte* dst, const std::byte* src, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += sizeof(Line)) {
    *reinterpret_cast<Line*>(dst + i) = *reinterpret_cast<const Line*>(src + i);
    asm volatile("" ::: "memory");  // or the compiler would use memcpy
  }
}

using CopyLoop = void (*)(std::byte* dst, const std::byte* src, std::size_t bytes);

void copy_generic(std::byte* dst, const std::byte* src, std::size_t bytes) { copy_lines<Line16>(dst, src, bytes); }
#if defined(__x86_64__)
[[gnu::target("avx2")]] void copy_avx2(std::byte* dst, const std::byte* src, std::size_t bytes) {
  copy_lines<Line32>(dst, src, bytes);
}
[[gnu::target("avx512f")]] void copy_avx512(std::byte* dst, const std::byte* src, std::size_t bytes) {
  copy_lines<Line64>(dst, src, bytes);
}
#endif

CopyLoop copy_loop([[maybe_unused]] std::string_view isa) {
#if defined(__x86_64__)
  if (isa == "avx2") return copy_avx2;
  if (isa.starts_with("avx512")) return copy_avx512;
#endif
  return copy_generic;
}

// ---- Contents

/// Values that repeated combining does not change: no overflow, no subnormals, which are slow.
void fill_with_ones(std::byte* to, std::size_t bytes, DataType type) {
  const auto repeat = [&](auto pattern) {
    for (std::size_t i = 0; i + sizeof pattern <= bytes; i += sizeof pattern)
      std::memcpy(to + i, &pattern, sizeof pattern);
  };
  if (type == DataType::f16) return repeat(f16{1.0f});
  if (type == DataType::bf16) return repeat(bf16{1.0f});
  if (type == DataType::f32 || type == DataType::c64) return repeat(1.0f);
  if (type == DataType::f64 || type == DataType::c128) return repeat(1.0);
  std::minstd_rand random{1};
  std::generate(to, to + std::min(bytes, random_part), [&] { return static_cast<std::byte>(random() >> 8); });
  for (std::size_t i = random_part; i < bytes; i += random_part)
    std::memcpy(to + i, to, std::min(random_part, bytes - i));
}

// ---- Time

template <class Call>
double seconds_of(int calls, Call call) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

template <class Call>
int calls_within(double seconds, Call call) {
  call();
  const double one = std::max(seconds_of(1, call), 1e-8);
  return static_cast<int>(std::clamp(seconds / one, 1.0, 1e8));
}

bool is_fold(Form form) { return form == Form::fold || form == Form::fold_streaming; }

}  // namespace

bool is_there(const compute::Table& table, const Task& task) {
  const compute::Kernels& kernels = compute::kernels(table, task.type);
  const auto op = static_cast<std::size_t>(task.op);
  const bool has_form_alone = task.op == OpKind::avg || task.op == OpKind::premul_sum;
  if (has_form_alone && task.form != Form::in_place) return false;
  if (task.op == OpKind::avg) return kernels.average.size != 0;
  switch (task.form) {
    case Form::in_place:
    case Form::apart:
      return kernels.combine[op] != nullptr;
    case Form::streaming:
      return kernels.combine_streaming[op] != nullptr;
    case Form::fold:
      return kernels.fold[op] != nullptr;
    case Form::fold_streaming:
      return kernels.fold_streaming[op] != nullptr;
  }
  return false;
}

void Bench::Release::operator()(std::byte* memory) const { ::operator delete[](memory, alignment); }

Bench::Bench(const compute::Table& table, std::size_t bytes, int sources) : table_{table}, bytes_{bytes} {
  const std::size_t all = bytes * (static_cast<std::size_t>(sources) + 1);
  if (all > bench::available_memory())
    throw Error{ErrorCode::unsupported,
                fmt::format("bench: {} buffers of {} bytes do not fit into the {} bytes of memory that are left; take "
                            "smaller sizes (--sizes) or fewer sources (--sources)",
                            sources + 1, bytes, bench::available_memory())};
  for (int i = 0; i <= sources; ++i) buffers_.emplace_back(static_cast<std::byte*>(::operator new[](bytes, alignment)));
  for (std::size_t i = 1; i < buffers_.size(); ++i) sources_.push_back(buffers_[i].get());
}

void Bench::fill(DataType type) {
  fill_with_ones(buffers_[0].get(), bytes_, type);
  for (std::size_t i = 1; i < buffers_.size(); ++i) std::memcpy(buffers_[i].get(), buffers_[0].get(), bytes_);
}

void Bench::call(const Task& task) {
  const compute::Kernels& kernels = compute::kernels(table_, task.type);
  const auto op = static_cast<std::size_t>(task.op);
  const std::size_t count = bytes_ / size_of(task.type);
  std::byte* const dst = buffers_[0].get();
  if (task.op == OpKind::avg) {
    const bool is_wide = kernels.average.size != size_of(task.type);
    return kernels.average.finish(dst, is_wide ? buffers_[1].get() : dst, bytes_ / kernels.average.size, 1);
  }
  if (task.op == OpKind::premul_sum) return kernels.scale(dst, dst, count, 1.0);
  switch (task.form) {
    case Form::in_place:
      return kernels.combine[op](dst, dst, sources_[0], count);
    case Form::apart:
      return kernels.combine[op](dst, sources_[0], sources_[1], count);
    case Form::streaming:
      return kernels.combine_streaming[op](dst, sources_[0], sources_[1], count);
    case Form::fold:
      return kernels.fold[op](dst, sources_.data(), task.sources, count);
    case Form::fold_streaming:
      return kernels.fold_streaming[op](dst, sources_.data(), task.sources, count);
  }
}

Rate Bench::measure(const Task& task, const Effort& effort) {
  fill(task.type);
  const compute::Average& average = compute::kernels(table_, task.type).average;
  if (task.op == OpKind::avg && average.size != size_of(task.type))  // sums larger than elements
    average.begin(buffers_[1].get(), buffers_[0].get(), bytes_ / average.size, 1);
  const CopyLoop loop = copy_loop(table_.isa);
  const auto kernel = [&] { call(task); };
  const auto copy = [&] { loop(buffers_[0].get(), buffers_[1].get(), bytes_); };
  const int kernel_calls = calls_within(effort.seconds, kernel);
  const int copy_calls = calls_within(effort.seconds, copy);
  const double combined = static_cast<double>(bytes_) * (is_fold(task.form) ? task.sources - 1 : 1);
  std::vector<double> kernels, copies, ratios;
  for (int i = 0; i < effort.repetitions; ++i) {
    kernels.push_back(combined * kernel_calls / seconds_of(kernel_calls, kernel) / 1e9);
    copies.push_back(static_cast<double>(bytes_) * copy_calls / seconds_of(copy_calls, copy) / 1e9);
    ratios.push_back(kernels.back() / copies.back());
  }
  return {median(kernels), median(copies), median(ratios)};
}

}  // namespace tutti::cli::kernel_rates
