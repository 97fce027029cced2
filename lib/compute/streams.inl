// Folds of many sources, and stores past the caches. Both are made of any combine kernel, a block at a time. Included
// by kernels.inl only, once per instruction set.
//
// A block of intermediate results stays in the first-level cache. So each source and dst pass through memory once, and
// a kernel needs no second version for more operands or another kind of store.

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

/// The fold of sources[..] from byte `offset` on, of at most a block, to `to`: all are read before that is written.
void fold_block(Combine kernel, void* to, const void* const* sources, int n, std::size_t offset, std::size_t count) {
  Block block;
  const void* so_far = forward(sources[0], offset);
  for (int s = 1; s < n - 1; ++s) {
    kernel(block.bytes, so_far, forward(sources[s], offset), count);
    so_far = block.bytes;
  }
  kernel(to, so_far, forward(sources[n - 1], offset), count);
}

[[gnu::noinline]] void fold_blocks(Combine kernel, std::size_t size, void* dst, const void* const* sources, int n,
                                   std::size_t count) {
  if (n == 1) {
    if (dst != sources[0]) copy_plain(dst, sources[0], count * size);
  } else if (n == 2) {
    kernel(dst, sources[0], sources[1], count);
  } else {
    const std::size_t most = block_size / size;
    for (std::size_t done = 0; done < count; done += most)
      fold_block(kernel, forward(dst, done * size), sources, n, done * size, least(most, count - done));
  }
}

template <Combine kernel, std::size_t size>
void fold(void* dst, const void* const* sources, int n, std::size_t count) {
  fold_blocks(kernel, size, dst, sources, n, count);
}

// ---- Streams

#if TUTTI_STREAMS

/// Bytes up to the next line.
std::size_t to_line(const void* at) { return -reinterpret_cast<std::uintptr_t>(at) % line_size; }

/// A line's length from anywhere to anywhere.
void copy_line(char* to, const char* from) {
#if defined(__AVX512F__)
  _mm512_storeu_si512(to, _mm512_loadu_si512(from));
#else
  const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + line_size / 2));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), low);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + line_size / 2), high);
#endif
}

[[maybe_unused]] void copy(void* dst, const void* src, std::size_t bytes) {
  constexpr std::size_t least_by_lines = 2048;  // memcpy copies less than that as well
  if (bytes < least_by_lines) return copy_plain(dst, src, bytes);
  auto* const to = static_cast<char*>(dst);
  const auto* const from = static_cast<const char*>(src);
  copy_line(to, from);
  for (std::size_t i = to_line(dst); i + line_size < bytes; i += line_size) {
    copy_line(to + i, from + i);
    __asm__ volatile("" ::: "memory");  // or compilers would make a call of memcpy of this loop
  }
  copy_line(to + (bytes - line_size), from + (bytes - line_size));
}

/// A whole line to the begin of another, without a fence.
void stream_line(char* to, const char* from) {
#if defined(__AVX512F__)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
#else
  const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + line_size / 2));
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), low);
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to + line_size / 2), high);
#endif
}

/// Streams a block of results and prefetches the next block of two sources. Otherwise memory would be read and written
/// in turn, which is slower than both at once.
void stream_block(void* dst, const Block& block, std::size_t bytes, const void* next_left, const void* next_right) {
  for (std::size_t i = 0; i < bytes; i += line_size) {
    __builtin_prefetch(forward(next_left, i));
    __builtin_prefetch(forward(next_right, i));
    stream_line(static_cast<char*>(forward(dst, i)), reinterpret_cast<const char*>(block.bytes) + i);
  }
}

void copy_streaming(void* dst, const void* src, std::size_t bytes) {
  const std::size_t head = least(to_line(dst), bytes);
  const std::size_t tail = head + (bytes - head) / line_size * line_size;
  __builtin_memcpy(dst, src, head);
  for (std::size_t i = head; i < tail; i += line_size)
    stream_line(static_cast<char*>(forward(dst, i)), static_cast<const char*>(forward(src, i)));
  __builtin_memcpy(forward(dst, tail), forward(src, tail), bytes - tail);
  _mm_sfence();
}

[[gnu::noinline]] void stream_blocks(Combine kernel, std::size_t size, void* dst, const void* const* sources, int n,
                                     std::size_t count) {
  if (n == 1 && dst != sources[0]) return copy_streaming(dst, sources[0], count * size);
  const std::size_t apart = to_line(dst);
  if (n == 1 || apart % size != 0)  // no element begins at the start of a cache line
    return fold_blocks(kernel, size, dst, sources, n, count);
  std::size_t done = least(apart / size, count);
  fold_block(kernel, dst, sources, n, 0, done);
  const std::size_t per_line = line_size / size;
  while (count - done >= per_line) {
    Block block;
    const std::size_t now = least((count - done) / per_line * per_line, block_size / size);
    const std::size_t offset = done * size, next = (done + now) * size;
    fold_block(kernel, block.bytes, sources, n, offset, now);
    stream_block(forward(dst, offset), block, now * size, forward(sources[0], next), forward(sources[1], next));
    done += now;
  }
  fold_block(kernel, forward(dst, done * size), sources, n, done * size, count - done);
  _mm_sfence();
}

template <Combine kernel, std::size_t size>
void fold_streaming(void* dst, const void* const* sources, int n, std::size_t count) {
  stream_blocks(kernel, size, dst, sources, n, count);
}

template <Combine kernel, std::size_t size>
void combine_streaming(void* dst, const void* left, const void* right, std::size_t count) {
  const void* const sources[] = {left, right};
  stream_blocks(kernel, size, dst, sources, 2, count);
}

#else

constexpr Copy copy = copy_plain;
constexpr Copy copy_streaming = copy_plain;

#endif

// ---- Rows of the table

template <Combine kernel, std::size_t size>
constexpr Fold fold_of() {
  if constexpr (kernel != nullptr) return fold<kernel, size>;
  return nullptr;
}

template <Combine kernel, std::size_t size>
constexpr Combine combine_streaming_of() {
#if TUTTI_STREAMS
  if constexpr (kernel != nullptr) return combine_streaming<kernel, size>;
#endif
  return nullptr;
}

template <Combine kernel, std::size_t size>
constexpr Fold fold_streaming_of() {
#if TUTTI_STREAMS
  if constexpr (kernel != nullptr) return fold_streaming<kernel, size>;
#endif
  return nullptr;
}

/// All that follows from the combine kernels of a type whose elements have `size` bytes.
template <std::size_t size, Combine... kernel>
constexpr Kernels kernels_of(Scale scale, const Average& average) {
  static_assert(sizeof...(kernel) == op_count);
  return {{kernel...},
          {fold_of<kernel, size>()...},
          {combine_streaming_of<kernel, size>()...},
          {fold_streaming_of<kernel, size>()...},
          scale,
          average};
}

}  // namespace
}  // namespace tutti::compute
