#pragma once

#include <cstddef>

// The shape of a kernel table, apart from kernels.h because this is all that the files for one instruction set may
// include: an inline function of a larger header, compiled there for AVX-512, could be the copy that the linker keeps.
//
// "Streaming" kernels write past the caches. They pay if dst is larger than the caches and is not read soon, since a
// plain store first reads the line that it overwrites. Both give the same bits. A streaming kernel ends with a fence,
// so a flag that is set afterwards has the same meaning as after plain stores.

namespace tutti::compute {

/// dst[i] = left[i] op right[i]. `dst` may be `left` or `right`, else disjoint; no alignment is needed.
using Combine = void (*)(void* dst, const void* left, const void* right, std::size_t count);
/// dst[i] = sources[0][i] op ... op sources[n - 1][i], from the left, n >= 1: the bits of n - 1 combines, but every
/// source is read once and dst written once. `dst` may be one of the sources, else disjoint; sources may coincide.
using Fold = void (*)(void* dst, const void* const* sources, int n, std::size_t count);
/// memcpy.
using Copy = void (*)(void* dst, const void* src, std::size_t bytes);
/// dst[i] = factor * src[i]. `dst` may be `src` if both have one type, else disjoint.
using Scale = void (*)(void* dst, const void* src, std::size_t count, double factor);
/// dst[i] = sum[i] + what `src[i]` contributes to it. `dst` may be `sum`, or `src` if elements and sums have one type,
/// else disjoint.
using Contribute = void (*)(void* dst, const void* sum, const void* src, std::size_t count, double factor);
/// dst[i] = sum[i] / divisor. `dst` may be `sum` if elements and sums have one type, else disjoint.
using Finish = void (*)(void* dst, const void* sum, std::size_t count, double divisor);

inline constexpr int op_count = 9;     // OpKind without `user`
inline constexpr int type_count = 15;  // DataType

/// How an average is computed so that no intermediate sum overflows unless the average does.
///
/// With n ranks, an element contributes itself, widened, if sums have a type of their own. If sums have the elements'
/// type, it contributes 2^-k of itself, where 2^k is the first power of two not below n. A sum is then divided by n, or
/// by n / 2^k. The scaling is exact, so only the sums and that division are rounded, except for contributions that
/// become subnormal.
/// subnormal.
struct Average {
  std::size_t size;       // of a sum: bytes; 0: the elements' type has no averages
  Scale begin;            // an element's contribution
  Contribute contribute;  // the same, added to a sum
  Combine add;            // two sums
  Finish finish;
};

/// The kernels of one element type; null if there is none. Arrays are indexed by OpKind, without `avg`; `premul_sum`
/// combines like `sum`.
struct Kernels {
  Combine combine[op_count];
  Fold fold[op_count];
  Combine combine_streaming[op_count];  // also null if the instruction set has no such stores: use `combine`
  Fold fold_streaming[op_count];        // likewise
  Scale scale;                          // the first step of premul_sum
  Average average;
};

struct Table {
  const char* isa;
  Copy copy;  // by plain stores. Never null, nor is the next one
  Copy copy_streaming;
  Kernels of[type_count];  // by DataType
};

extern const Table generic_table;
extern const Table avx2_table;
extern const Table avx512_table;
extern const Kernels f16_kernels_avx512fp16;  // if the compiler supports them

}  // namespace tutti::compute
