#include "tutti/types.h"

#include "lib/base/collective_traits.h"
#include "lib/base/half.h"

namespace tutti {

f16::f16(float value) : bits(half::narrow_f16(value)) {}
f16::operator float() const { return half::widen_f16(bits); }

bf16::bf16(float value) : bits(half::narrow_bf16(value)) {}
bf16::operator float() const { return half::widen_bf16(bits); }

const char* tutti::name_of(Collective collective) {
  const auto number = static_cast<int>(collective);
  return number < collective_count ? detail::traits_of(collective).name : "unknown";
}

std::size_t tutti::size_of(DataType type) {
  switch (type) {
    case DataType::i8:
    case DataType::u8:
    case DataType::boolean:
      return 1;
    case DataType::i16:
    case DataType::u16:
    case DataType::f16:
    case DataType::bf16:
      return 2;
    case DataType::i32:
    case DataType::u32:
    case DataType::f32:
      return 4;
    case DataType::i64:
    case DataType::u64:
    case DataType::f64:
    case DataType::c64:
      return 8;
    case DataType::c128:
      return 16;
  }
  return 0;
}

const char* tutti::name_of(DataType type) {
  switch (type) {
    case DataType::i8:
      return "i8";
    case DataType::u8:
      return "u8";
    case DataType::i16:
      return "i16";
    case DataType::u16:
      return "u16";
    case DataType::i32:
      return "i32";
    case DataType::u32:
      return "u32";
    case DataType::i64:
      return "i64";
    case DataType::u64:
      return "u64";
    case DataType::boolean:
      return "bool";
    case DataType::f16:
      return "f16";
    case DataType::bf16:
      return "bf16";
    case DataType::f32:
      return "f32";
    case DataType::f64:
      return "f64";
    case DataType::c64:
      return "c64";
    case DataType::c128:
      return "c128";
  }
  return "unknown";
}

const char* tutti::name_of(OpKind kind) {
  switch (kind) {
    case OpKind::sum:
      return "sum";
    case OpKind::product:
      return "product";
    case OpKind::min:
      return "min";
    case OpKind::max:
      return "max";
    case OpKind::band:
      return "band";
    case OpKind::bor:
      return "bor";
    case OpKind::bxor:
      return "bxor";
    case OpKind::avg:
      return "avg";
    case OpKind::premul_sum:
      return "premul_sum";
    case OpKind::user:
      return "user";
  }
  return "unknown";
}

}  // namespace tutti
