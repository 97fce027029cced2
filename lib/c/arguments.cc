#include "lib/c/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "lib/c/guarded.h"

namespace tutti::c_api {
namespace {

/// A struct that seems larger was not initialised.
constexpr std::size_t largest_struct = 4096;

template <class Enum>
constexpr bool same(int c, Enum cpp) {
  return c == static_cast<int>(cpp);
}
static_assert(same(TUTTI_I8, DataType::i8) && same(TUTTI_U8, DataType::u8) && same(TUTTI_I16, DataType::i16) &&
              same(TUTTI_U16, DataType::u16) && same(TUTTI_I32, DataType::i32) && same(TUTTI_U32, DataType::u32) &&
              same(TUTTI_I64, DataType::i64) && same(TUTTI_U64, DataType::u64) && same(TUTTI_BOOL, DataType::boolean) &&
              same(TUTTI_F16, DataType::f16) && same(TUTTI_BF16, DataType::bf16) && same(TUTTI_F32, DataType::f32) &&
              same(TUTTI_F64, DataType::f64) && same(TUTTI_C64, DataType::c64) && same(TUTTI_C128, DataType::c128) &&
              TUTTI_C128 + 1 == data_type_count);
static_assert(same(TUTTI_SUM, OpKind::sum) && same(TUTTI_PRODUCT, OpKind::product) && same(TUTTI_MIN, OpKind::min) &&
              same(TUTTI_MAX, OpKind::max) && same(TUTTI_BAND, OpKind::band) && same(TUTTI_BOR, OpKind::bor) &&
              same(TUTTI_BXOR, OpKind::bxor) && same(TUTTI_AVG, OpKind::avg) &&
              same(TUTTI_PREMUL_SUM, OpKind::premul_sum) && same(TUTTI_USER, OpKind::user));
static_assert(same(TUTTI_ALL_REDUCE, Collective::all_reduce) && same(TUTTI_REDUCE, Collective::reduce) &&
              same(TUTTI_BROADCAST, Collective::broadcast) && same(TUTTI_ALL_GATHER, Collective::all_gather) &&
              same(TUTTI_REDUCE_SCATTER, Collective::reduce_scatter) && same(TUTTI_SCATTER, Collective::scatter) &&
              same(TUTTI_GATHER, Collective::gather) && same(TUTTI_ALL_TO_ALL, Collective::all_to_all) &&
              same(TUTTI_BARRIER, Collective::barrier) && same(TUTTI_SCAN, Collective::scan) &&
              same(TUTTI_EXCLUSIVE_SCAN, Collective::exclusive_scan) && TUTTI_EXCLUSIVE_SCAN + 1 == collective_count);
static_assert(TUTTI_INVALID_ARGUMENT == result_of(ErrorCode::invalid_argument) &&
              TUTTI_UNSUPPORTED == result_of(ErrorCode::unsupported) &&
              TUTTI_MISMATCH == result_of(ErrorCode::mismatch) && TUTTI_TIMEOUT == result_of(ErrorCode::timeout) &&
              TUTTI_PEER_LOST == result_of(ErrorCode::peer_lost) && TUTTI_ABORTED == result_of(ErrorCode::aborted) &&
              TUTTI_RENDEZVOUS == result_of(ErrorCode::rendezvous) && TUTTI_SYSTEM == result_of(ErrorCode::system) &&
              TUTTI_CORRUPTED == result_of(ErrorCode::corrupted) &&
              TUTTI_TRUNCATED == result_of(ErrorCode::truncated) && TUTTI_TRUNCATED == error_code_count);

}  // namespace

void refuse_null(const char* name) { throw Wrong{fmt::format("{} is NULL", name)}; }

DataType type_of(tutti_type type) {
  if (type < 0 || type >= data_type_count)
    throw Wrong{fmt::format("{} is not a tutti_type; valid are 0 to {}", type, data_type_count - 1)};
  return static_cast<DataType>(type);
}

Collective collective_of(tutti_collective collective) {
  if (collective < 0 || collective >= collective_count)
    throw Wrong{fmt::format("{} is not a tutti_collective; valid are 0 to {}", collective, collective_count - 1)};
  return static_cast<Collective>(collective);
}

std::size_t required_size(std::size_t size, const char* name, std::size_t first) {
  if (size < first || size > largest_struct)
    throw Wrong{fmt::format(
        "the member size of {0} is {1}: set it to sizeof({0}), and the members that you do not need to 0", name, size)};
  return size;
}

void copy_struct(void* ours, std::size_t ours_size, const void* theirs, std::size_t size, const char* name,
                 std::size_t first) {
  required_size(size, name, first);
  std::memcpy(ours, theirs, std::min(size, ours_size));
  if (size <= ours_size) return;
  const std::span unknown{static_cast<const char*>(theirs) + ours_size, size - ours_size};
  if (!std::ranges::all_of(unknown, [](char byte) { return byte == 0; }))
    throw Wrong{fmt::format("{} sets members that this version of tutti does not have", name)};
}

tutti_call_options call_options_of(const tutti_call_options* theirs) {
  constexpr std::size_t first_size = 64;
  constexpr const char* name = "tutti_call_options";
  static_assert(first_size == sizeof(tutti_call_options));
  if (theirs) {
    required_size(theirs->size, name, first_size);
    if (theirs->work) *theirs->work = nullptr;
    if (theirs->persistent) *theirs->persistent = nullptr;
  }
  const auto ours = options_of(theirs, name, first_size);
  if (ours.stream && !ours.on_device)
    throw Wrong{"a stream is given, but on_device is 0: set it to 1 if the buffers are memory of a GPU"};
  return ours;
}

void write_text(const std::string& from, char* text, std::size_t size) {
  given(text, "text");
  if (size <= from.size())
    throw Wrong{fmt::format("the text needs {} bytes, and there is room for {}", from.size() + 1, size)};
  std::memcpy(text, from.c_str(), from.size() + 1);
}

}  // namespace tutti::c_api
