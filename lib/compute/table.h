#pragma once

#include <cstddef>

// The shape of a kernel table, apart from kernels.h because this is all that the files for one instruction set may
// include: an inline function of a larger header, compiled there for AVX-512, could be the copy that the linker keeps.

namespace tutti::compute {

/// dst[i] = left[i] op right[i]. `dst` may be `left` or `right`, else disjoint; no alignment is needed.
using Combine = void (*)(void* dst, const void* left, const void* right, std::size_t count);
/// dst[i] = factor * src[i]. `dst` may be `src`, else disjoint.
using Scale = void (*)(void* dst, const void* src, std::size_t count, double factor);
/// data[i] = data[i] / n.
using Divide = void (*)(void* data, std::size_t count, int n);

inline constexpr int op_count = 9;     // OpKind without `user`
inline constexpr int type_count = 15;  // DataType

/// What one element type can do; null where it cannot.
struct Kernels {
  Combine combine[op_count];  // by OpKind; `avg` and `premul_sum` combine like `sum`
  Scale scale;                // what premul_sum begins with
  Divide divide;              // what avg ends with
};

struct Table {
  const char* isa;
  Kernels of[type_count];  // by DataType
};

extern const Table generic_table;
extern const Table avx2_table;
extern const Table avx512_table;

}  // namespace tutti::compute
