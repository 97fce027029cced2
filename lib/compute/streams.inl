// Folds of many sources, and stores that pass the caches by: both made of any combine kernel, a block at a time.
// Included by kernels.inl only, once per instruction set.
//
// A block of intermediate results lives in the first-level cache. So memory sees each source once and dst once, and a
// kernel needs no second version that knows of more operands or of another kind of store.

#include <cstddef>
#include <cstdint>

#include "lib/compute/table.h"

#if defined(__AVX2__)
#include <immintrin.h>
#define TUTTI_STREAMS 1
#else
#define TUTTI_STREAMS 0
#endif

namespace tutti::compute {
namespace {

constexpr std::size_t line_size = 64;
constexpr std::size_t block_size = 4096;  // of intermediate results: a few of these fit into any first-level cache

struct alignas(line_size) Block {
  unsigned char bytes[block_size];
};

void* forward(void* from, std::size_t bytes) { return static_cast<char*>(from) + bytes; }
const void* forward(const void* from, std::size_t bytes) { return static_cast<const char*>(from) + bytes; }

std::size_t least(std::size_t a, std::size_t b) { return a < b ? a : b; }

// The loops take the kernel as an argument, called once per block: as templates they would be compiled for each, with
// the kernel inside.

void copy_plain(void* dst, const void* src, std::size_t bytes) { __builtin_memcpy(dst, src, bytes); }

/// What a fold is made of: `last` writes dst.
struct Parts {
  Combine kernel;
  Combine last;
  Copy copy;
  std::size_t size;  // of an element
};

/// The fold of sources[..] from byte `offset` on, of at most a block. Reads all of them before it writes dst.
void fold_block(const Parts& parts, void* dst, const void* const* sources, int n, std::size_t offset,
                std::size_t count) {
  Block block;
  const void* so_far = forward(sources[0], offset);
  for (int s = 1; s < n - 1; ++s) {
    parts.kernel(block.bytes, so_far, forward(sources[s], offset), count);
    so_far = block.bytes;
  }
  parts.last(forward(dst, offset), so_far, forward(sources[n - 1], offset), count);
}

[[gnu::noinline]] void fold_blocks(const Parts& parts, void* dst, const void* const* sources, int n,
                                   std::size_t count) {
  if (n == 1) {
    if (dst != sources[0]) parts.copy(dst, sources[0], count * parts.size);
  } else if (n == 2) {
    parts.last(dst, sources[0], sources[1], count);
  } else {
    const std::size_t most = block_size / parts.size;
    for (std::size_t done = 0; done < count; done += most)
      fold_block(parts, dst, sources, n, done * parts.size, least(most, count - done));
  }
}

template <Combine kernel, Combine last, Copy copy, std::size_t size>
void fold(void* dst, const void* const* sources, int n, std::size_t count) {
  static constexpr Parts parts{kernel, last, copy, size};
  fold_blocks(parts, dst, sources, n, count);
}

// ---- Streams

#if TUTTI_STREAMS

/// Bytes up to the next line.
std::size_t to_line(const void* at) { return -reinterpret_cast<std::uintptr_t>(at) % line_size; }

/// Whole lines to an aligned place, without a fence.
void stream_lines(void* dst, const void* src, std::size_t lines) {
  auto* to = static_cast<char*>(dst);
  const auto* from = static_cast<const char*>(src);
  for (std::size_t i = 0; i < lines; ++i, to += line_size, from += line_size) {
#if defined(__AVX512F__)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
#else
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + line_size / 2));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), low);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + line_size / 2), high);
#endif
  }
}

void copy_streaming(void* dst, const void* src, std::size_t bytes) {
  const std::size_t head = least(to_line(dst), bytes);
  const std::size_t lines = (bytes - head) / line_size;
  const std::size_t tail = head + lines * line_size;
  __builtin_memcpy(dst, src, head);
  stream_lines(forward(dst, head), forward(src, head), lines);
  __builtin_memcpy(forward(dst, tail), forward(src, tail), bytes - tail);
  _mm_sfence();
}

[[gnu::noinline]] void stream_blocks(Combine kernel, std::size_t size, void* dst, const void* left, const void* right,
                                     std::size_t count) {
  const std::size_t apart = to_line(dst);
  if (apart % size != 0) return kernel(dst, left, right, count);  // no element begins where a line does
  std::size_t done = least(apart / size, count);
  kernel(dst, left, right, done);
  const std::size_t per_line = line_size / size;
  while (count - done >= per_line) {
    Block block;
    const std::size_t lines = least((count - done) / per_line, block_size / line_size);
    kernel(block.bytes, forward(left, done * size), forward(right, done * size), lines * per_line);
    stream_lines(forward(dst, done * size), block.bytes, lines);
    done += lines * per_line;
  }
  kernel(forward(dst, done * size), forward(left, done * size), forward(right, done * size), count - done);
  _mm_sfence();
}

template <Combine kernel, std::size_t size>
void combine_streaming(void* dst, const void* left, const void* right, std::size_t count) {
  stream_blocks(kernel, size, dst, left, right, count);
}

#else

constexpr Copy copy_streaming = copy_plain;

#endif

// ---- Rows of the table

template <Combine kernel, std::size_t size>
constexpr Combine streaming_of() {
#if TUTTI_STREAMS
  if constexpr (kernel != nullptr) return combine_streaming<kernel, size>;
#endif
  return nullptr;
}

template <Combine kernel, std::size_t size>
constexpr Fold fold_of() {
  if constexpr (kernel == nullptr)
    return nullptr;
  else
    return fold<kernel, kernel, copy_plain, size>;
}

template <Combine kernel, std::size_t size>
constexpr Fold fold_streaming_of() {
  constexpr Combine last = streaming_of<kernel, size>();
  if constexpr (last == nullptr)
    return nullptr;
  else
    return fold<kernel, last, copy_streaming, size>;
}

/// All that follows from the combine kernels of a type whose elements have `size` bytes.
template <std::size_t size, Combine... kernel>
constexpr Kernels kernels_of(Scale scale, Divide divide) {
  static_assert(sizeof...(kernel) == op_count);
  return {{kernel...},
          {fold_of<kernel, size>()...},
          {streaming_of<kernel, size>()...},
          {fold_streaming_of<kernel, size>()...},
          scale,
          divide};
}

}  // namespace
}  // namespace tutti::compute
