// Folds of many sources and streaming stores, against the plain reference.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "lib/compute/kernels.h"
#include "tests/support/sample.h"

using namespace tutti;
using compute::Table;

namespace {

using Bytes = std::vector<unsigned char>;

constexpr std::size_t guard_size = 128;
constexpr int most_sources = 16;

/// Small and just around a vector, a line, a block of the fold and several of those.
constexpr std::size_t element_counts[] = {0,  1,  2,   3,   7,   15,  16,   17,   31,   33,   63,
                                          64, 65, 100, 255, 257, 511, 1023, 1025, 4095, 4097, 9001};

/// `size` bytes at `offset` behind a line's begin, with a guard before and after that must stay as it is.
class Buffer {
 public:
  Buffer(std::size_t size, std::size_t offset, std::mt19937& random) : storage_(size + offset + 2 * guard_size + 64) {
    for (std::size_t i = 0; i < storage_.size(); i += sizeof(std::uint32_t)) {
      const auto bits = static_cast<std::uint32_t>(random());
      std::memcpy(&storage_[i], &bits, std::min(sizeof bits, storage_.size() - i));
    }
    const auto misfit = reinterpret_cast<std::uintptr_t>(storage_.data()) % 64;
    start_ = guard_size + (64 - misfit) % 64 + offset;
    size_ = size;
  }
  unsigned char* data() { return storage_.data() + start_; }
  Bytes content() { return {data(), data() + size_}; }
  Bytes before() { return {storage_.data(), data()}; }
  Bytes after() { return {data() + size_, storage_.data() + storage_.size()}; }

 private:
  Bytes storage_;
  std::size_t start_ = 0;
  std::size_t size_ = 0;
};

/// Floating values of which many neighbours are NaN, infinite or zero: every fourth element has an extreme exponent.
void season(Buffer& buffer, DataType type, std::size_t count, std::mt19937& random) {
  const std::size_t size = size_of(type);
  for (std::size_t i = 0; i < count; ++i) {
    if (random() % 4 != 0) continue;
    unsigned char* const last = buffer.data() + (i + 1) * size - 1;
    *last = random() % 2 == 0 ? 0x7f : 0x80;
    if (size > 1) last[-1] = random() % 2 == 0 ? 0x80 : 0x00;
  }
}

struct Pair {
  DataType type;
  OpKind kind;
};

std::vector<Pair> supported_pairs() {
  std::vector<Pair> pairs;
  for (int t = 0; t < data_type_count; ++t)
    for (int k = 0; k < compute::op_count; ++k)
      if (static_cast<OpKind>(k) != OpKind::avg && compute::supports(static_cast<DataType>(t), static_cast<OpKind>(k)))
        pairs.push_back({static_cast<DataType>(t), static_cast<OpKind>(k)});
  return pairs;
}

template <class Check>
void for_every_pair(Check check) {
  std::mt19937 random{20240515};
  testing::Lot lot{1, 15};
  for (const Table* table : compute::available_tables()) {
    CAPTURE(std::string{table->isa});
    for (const Pair pair : supported_pairs()) {
      if (!lot.draws()) continue;
      CAPTURE(std::string{name_of(pair.type)});
      CAPTURE(std::string{name_of(pair.kind)});
      check(*table, pair, random);
    }
  }
}

/// Calls `fold` once for `n` random sources; `same` is the source that is dst as well, -1 for none.
template <class Call>
void check_fold(Call fold, Pair pair, int n, int same, std::size_t count, std::mt19937& random) {
  CAPTURE(n);
  CAPTURE(same);
  CAPTURE(count);
  const std::size_t bytes = count * size_of(pair.type);
  std::vector<Buffer> buffers;
  for (int i = 0; i <= n; ++i) {  // the last is a dst of its own
    const std::size_t offset = random() % 2 == 0 ? random() % 8 * size_of(pair.type) % 64 : random() % 64;
    buffers.emplace_back(bytes, offset, random);
    season(buffers.back(), pair.type, count, random);
  }
  std::vector<const void*> sources;
  for (int i = 0; i < n; ++i) sources.push_back(buffers[static_cast<std::size_t>(i)].data());
  Bytes expected = buffers.front().content();
  const auto combine = compute::combine(compute::reference_table(), pair.type, pair.kind);
  for (int i = 1; i < n; ++i) combine(expected.data(), expected.data(), sources[static_cast<std::size_t>(i)], count);

  Buffer& dst = buffers[static_cast<std::size_t>(same < 0 ? n : same)];
  const Bytes before = dst.before(), after = dst.after();
  fold(dst.data(), sources.data(), n, count);
  CHECK(dst.content() == expected);
  CHECK(dst.before() == before);
  CHECK(dst.after() == after);
}

}  // namespace

TEST_CASE("a fold has the bits of repeated combines, for any number of sources, also into one of them") {
  for_every_pair([](const Table& table, Pair pair, std::mt19937& random) {
    const auto& kernels = compute::kernels(table, pair.type);
    const compute::Fold folds[] = {kernels.fold[static_cast<int>(pair.kind)],
                                   kernels.fold_streaming[static_cast<int>(pair.kind)]};
    REQUIRE((folds[0] != nullptr));
    for (const compute::Fold fold : folds) {
      if (fold == nullptr) continue;
      for (int n = 1; n <= most_sources; ++n) {
        const std::size_t count = element_counts[random() % std::size(element_counts)];
        check_fold(fold, pair, n, -1, count, random);
        check_fold(fold, pair, n, static_cast<int>(random() % static_cast<unsigned>(n)), count, random);
      }
      for (const std::size_t count : element_counts) check_fold(fold, pair, 3, -1, count, random);
    }
  });
}

TEST_CASE("a source may be named twice in a fold") {
  for_every_pair([](const Table& table, Pair pair, std::mt19937& random) {
    const std::size_t count = 3001;
    Buffer source{count * size_of(pair.type), 0, random}, dst{count * size_of(pair.type), 8, random};
    const std::vector<const void*> sources(5, source.data());
    Bytes expected = source.content();
    const auto combine = compute::combine(compute::reference_table(), pair.type, pair.kind);
    for (int i = 1; i < 5; ++i) combine(expected.data(), expected.data(), source.data(), count);
    compute::kernels(table, pair.type).fold[static_cast<int>(pair.kind)](dst.data(), sources.data(), 5, count);
    CHECK(dst.content() == expected);
  });
}

TEST_CASE("a streaming combine equals the reference bit for bit, in place or not, and touches nothing else") {
  for_every_pair([](const Table& table, Pair pair, std::mt19937& random) {
    const auto combine = compute::kernels(table, pair.type).combine_streaming[static_cast<int>(pair.kind)];
    CHECK((combine == nullptr) == (std::string{table.isa} == "generic"));
    if (combine == nullptr) return;
    for (const std::size_t count : element_counts) {
      for (const int same : {-1, 0, 1}) {
        const auto fold_of_two = [&](void* dst, const void* const* sources, int, std::size_t n) {
          combine(dst, sources[0], sources[1], n);
        };
        check_fold(fold_of_two, pair, 2, same, count, random);
      }
    }
  });
}

TEST_CASE("a copy is a copy, past the caches or not, wherever both ends lie") {
  std::mt19937 random{3};
  std::vector<const Table*> tables = compute::available_tables();
  if (tables.size() > 1) tables.push_back(&compute::avx2_table);  // which may copy otherwise than is best here
  if (tables.size() > 3) tables.push_back(&compute::avx512_table);
  tables.push_back(&compute::reference_table());
  for (const Table* table : tables) {
    CAPTURE(std::string{table->isa});
    for (const std::size_t bytes :
         {0u, 1u, 31u, 63u, 64u, 65u, 127u, 128u, 129u, 1000u, 2047u, 2048u, 2111u, 4096u, 10001u}) {
      for (int i = 0; i < 30; ++i) {
        CAPTURE(bytes);
        for (const compute::Copy copy : {table->copy, table->copy_streaming}) {
          Buffer src{bytes, random() % 64, random}, dst{bytes, random() % 64, random};
          const Bytes before = dst.before(), after = dst.after();
          copy(dst.data(), src.data(), bytes);
          CHECK(dst.content() == src.content());
          CHECK(dst.before() == before);
          CHECK(dst.after() == after);
        }
      }
    }
  }
}
