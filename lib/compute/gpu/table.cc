#include "lib/compute/gpu/table.h"

#include <algorithm>
#include <array>

#define TUTTI_GPU_FUNCTION
#include "lib/compute/gpu/kernels.inl"

namespace tutti::compute::gpu {
namespace {

enum Number : int {
#define TUTTI_KERNEL(name, ...) kernel_##name,
#include "lib/compute/gpu/kernels.inc"
#undef TUTTI_KERNEL
  no_kernel,
};

constexpr Kernel all[] = {
#define TUTTI_KERNEL(name, ...) {"tutti_" #name, kernel_##name, lanes_of<__VA_ARGS__>()},
#include "lib/compute/gpu/kernels.inc"
#undef TUTTI_KERNEL
};

/// The kernels of one type.
struct Row {
  Number sum, product, min, max, band, bor, bxor;
  // avg: begin, contribute, combine, finish, whole
  std::array<Number, step_count> average;
  Number premultiply, contribute_scaled;
  unsigned parts_of_sums;  // elements of the kernels that only add or multiply by a number, in one of the type
};

#define TUTTI_INTEGER(type, signless, sums)                                                                         \
  Row {                                                                                                             \
    kernel_sum_##signless, kernel_product_##signless, kernel_min_##type, kernel_max_##type, kernel_band_##signless, \
        kernel_bor_##signless, kernel_bxor_##signless,                                                              \
        {kernel_begin_##type, kernel_contribute_##type, kernel_sum_##sums, kernel_finish_##type,                    \
         kernel_average_##type},                                                                                    \
        no_kernel, no_kernel, 1                                                                                     \
  }
#define TUTTI_FLOATING(type)                                                                                         \
  Row {                                                                                                              \
    kernel_sum_##type, kernel_product_##type, kernel_min_##type, kernel_max_##type, no_kernel, no_kernel, no_kernel, \
        {kernel_premultiply_##type, kernel_contribute_##type, kernel_sum_##type, kernel_finish_##type,               \
         kernel_average_##type},                                                                                     \
        kernel_premultiply_##type, kernel_contribute_##type, 1                                                       \
  }

constexpr Row complex_of(Row real, Number product) {
  real.product = product;
  real.min = real.max = no_kernel;
  real.parts_of_sums = 2;
  return real;
}

constexpr Row f16_row() {
  Row row = TUTTI_FLOATING(f16);
  row.average[static_cast<int>(Step::begin)] = kernel_begin_f16;  // sums are floats
  row.average[static_cast<int>(Step::combine)] = kernel_sum_f32;
  row.contribute_scaled = kernel_contribute_scaled_f16;
  return row;
}

constexpr Row boolean_row{kernel_bor_bool,
                          kernel_band_bool,
                          kernel_band_bool,
                          kernel_bor_bool,
                          kernel_band_bool,
                          kernel_bor_bool,
                          kernel_bxor_bool,
                          {no_kernel, no_kernel, no_kernel, no_kernel, no_kernel},
                          no_kernel,
                          no_kernel,
                          1};

// By DataType.
constexpr std::array<Row, data_type_count> rows{
    TUTTI_INTEGER(i8, i8, i32),
    TUTTI_INTEGER(u8, i8, i32),
    TUTTI_INTEGER(i16, i16, i32),
    TUTTI_INTEGER(u16, i16, i32),
    TUTTI_INTEGER(i32, i32, i64),
    TUTTI_INTEGER(u32, i32, i64),
    TUTTI_INTEGER(i64, i64, i128),
    TUTTI_INTEGER(u64, i64, i128),
    boolean_row,
    f16_row(),
    TUTTI_FLOATING(bf16),
    TUTTI_FLOATING(f32),
    TUTTI_FLOATING(f64),
    complex_of(TUTTI_FLOATING(f32), kernel_product_c64),
    complex_of(TUTTI_FLOATING(f64), kernel_product_c128),
};

/// The kernel of an op whose contributions are elements, and whose sums are the result.
Number plain(const Row& row, OpKind op) {
  switch (op) {
    case OpKind::sum:
      return row.sum;
    case OpKind::product:
      return row.product;
    case OpKind::min:
      return row.min;
    case OpKind::max:
      return row.max;
    case OpKind::band:
      return row.band;
    case OpKind::bor:
      return row.bor;
    case OpKind::bxor:
      return row.bxor;
    case OpKind::avg:
    case OpKind::premul_sum:
    case OpKind::user:
      break;
  }
  return no_kernel;
}

Number premultiplied(const Row& row, Step step) {
  if (row.premultiply == no_kernel || step == Step::finish) return no_kernel;
  if (step == Step::combine) return row.sum;
  return step == Step::contribute ? row.contribute_scaled : row.premultiply;
}

Number number_of(const Row& row, OpKind op, Step step) {
  if (op == OpKind::avg) return row.average[static_cast<std::size_t>(step)];
  if (op == OpKind::premul_sum) return premultiplied(row, step);
  return step == Step::begin || step == Step::finish ? no_kernel : plain(row, op);
}

}  // namespace

std::span<const Kernel> kernels() { return all; }

Choice choose(DataType type, OpKind op, Step step) {
  const Row& row = rows[static_cast<std::size_t>(type)];
  const Number number = number_of(row, op, step);
  if (number == no_kernel) return {};
  return {&all[number], op == OpKind::product ? 1 : row.parts_of_sums};
}

Blocks blocks_for(const Kernel& kernel, std::uint64_t count, int multiprocessors) {
  const std::uint64_t per_block = std::uint64_t{threads_per_block} * static_cast<unsigned>(kernel.lanes);
  const std::uint64_t wanted = std::max<std::uint64_t>(1, (count + per_block - 1) / per_block);
  const auto room = std::uint64_t{blocks_per_multiprocessor} * static_cast<unsigned>(std::max(multiprocessors, 1));
  return {static_cast<unsigned>(std::min(wanted, room)), threads_per_block};
}

}  // namespace tutti::compute::gpu
