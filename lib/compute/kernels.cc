#include "lib/compute/kernels.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <array>
#include <string>

#include "lib/base/suggest.h"
#include "tutti/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tutti::compute {
namespace {

static_assert(op_count == static_cast<int>(OpKind::user) && type_count == data_type_count);

#if defined(__x86_64__)

bool has_f16c() {  // not a name that clang 14's __builtin_cpu_supports knows
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

/// Whether memcpy is slow. Older versions of glibc copy 2 KiB and more with `rep movsb`, which on a Zen 4 takes several
/// times as long to write what is in the L3 (16 KiB: 1.2 us, and 0.35 line by line).
bool has_slow_memcpy() { return __builtin_cpu_is("amd") != 0; }

/// That table, with memcpy where it is not slow.
template <const Table& table>
const Table& table_here() {
  static const Table here = [] {
    Table made = table;
    if (!has_slow_memcpy()) made.copy = generic_table.copy;
    return made;
  }();
  return here;
}

bool has_avx2() { return __builtin_cpu_supports("avx2") != 0 && has_f16c(); }

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
}

#if defined(TUTTI_HAS_AVX512FP16)

bool has_avx512fp16() {
  constexpr unsigned bit = 1U << 23;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return has_avx512() && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & bit) != 0;
}

const Table& avx512fp16_table() {
  static const Table table = [] {
    Table made = table_here<avx512_table>();
    made.isa = "avx512fp16";
    made.of[static_cast<int>(DataType::f16)] = f16_kernels_avx512fp16;
    return made;
  }();
  return table;
}

#endif

#endif

constexpr std::array<std::string_view, 4> isa_names{"generic", "avx2", "avx512", "avx512fp16"};

bool is_complex(DataType type) { return type == DataType::c64 || type == DataType::c128; }

bool is_floating(DataType type) {
  return type == DataType::f16 || type == DataType::bf16 || type == DataType::f32 || type == DataType::f64;
}

std::string supported_ops(DataType type) {
  std::string names;
  for (int i = 0; i < op_count; ++i) {
    const auto kind = static_cast<OpKind>(i);
    if (supports(type, kind)) names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(kind));
  }
  return names;
}

}  // namespace

bool supports(DataType type, OpKind kind) {
  switch (kind) {
    case OpKind::sum:
    case OpKind::product:
    case OpKind::user:
      return true;
    case OpKind::min:
    case OpKind::max:
      return !is_complex(type);
    case OpKind::band:
    case OpKind::bor:
    case OpKind::bxor:
      return !is_complex(type) && !is_floating(type);
    case OpKind::avg:
      return type != DataType::boolean;
    case OpKind::premul_sum:
      return is_complex(type) || is_floating(type);
  }
  return false;
}

void require(DataType type, const Op& op) {
  if (op.kind() == OpKind::user && !op.function())
    throw Error{ErrorCode::invalid_argument, "the user op has no function"};
  if (op.kind() == OpKind::user && op.user_type() != type) {
    throw Error{ErrorCode::invalid_argument,
                fmt::format("the user op was written for elements of type {}, but the buffer holds {}; make one "
                            "for the buffer's element type",
                            name_of(op.user_type()), name_of(type))};
  }
  if (!supports(type, op.kind())) {
    throw Error{ErrorCode::unsupported,
                fmt::format("op {} has no meaning for elements of type {}; {} offers {}, or an op of your own",
                            name_of(op.kind()), name_of(type), name_of(type), supported_ops(type))};
  }
}

std::vector<const Table*> available_tables() {
  std::vector<const Table*> tables{&generic_table};
#if defined(__x86_64__)
  if (has_avx2()) tables.push_back(&table_here<avx2_table>());
  if (has_avx512()) tables.push_back(&table_here<avx512_table>());
#if defined(TUTTI_HAS_AVX512FP16)
  if (has_avx512fp16()) tables.push_back(&avx512fp16_table());
#endif
#endif
  return tables;
}

const Table& choose_table(std::string_view isa) {
  const std::vector<const Table*> tables = available_tables();
  if (isa.empty()) return *tables.back();
  std::string available;
  for (const Table* table : tables) {
    if (isa == table->isa) return *table;
    available += fmt::format("{}{}", available.empty() ? "" : ", ", table->isa);
  }
  for (const std::string_view known : isa_names) {
    if (isa == known) {
      throw Error{
          ErrorCode::unsupported,
          fmt::format("instruction set {} was asked for (TUTTI_ISA), but this processor runs {} only", isa, available)};
    }
  }
  throw Error{ErrorCode::invalid_argument, fmt::format("unknown instruction set \"{}\" (TUTTI_ISA): known are {}.{}",
                                                       isa, fmt::join(isa_names, ", "), did_you_mean(isa, isa_names))};
}

}  // namespace tutti::compute
