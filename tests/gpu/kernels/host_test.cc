// The kernels of GPUs, compiled for the host, against the CPU's reference; and the table that chooses them.

#include <doctest/doctest.h>

#include <cstdlib>
#include <memory>
#include <set>
#include <string>

#include "lib/compute/gpu/table.h"
#include "lib/compute/kernels.h"
#include "tests/gpu/kernels/cases.h"
#include "tests/support/gpu_kernels/host_kernels.h"

using namespace tutti;
using compute::gpu::Step;
using testing::Case;
using testing::Computation;
using testing::Form;

namespace {

constexpr std::uint64_t counts[] = {1, 2, 3, 7, 15, 16, 17, 33, 63, 100, 129};

/// Whether the kernel makes of `before` all of `after`.
bool passes(const Case& one, std::uint64_t threads) {
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  const std::unique_ptr<void, Free> memory{std::aligned_alloc(256, one.before.size())};
  std::copy(one.before.begin(), one.before.end(), static_cast<unsigned char*>(memory.get()));
  // The memory is not where its addresses say.
  constexpr std::uint64_t base = std::uint64_t{1} << 40;
  const auto alias = static_cast<std::ptrdiff_t>(reinterpret_cast<std::uintptr_t>(memory.get()) - base);
  const auto* const kernel = testing::host_kernel(one.kernel->name);
  REQUIRE((kernel != nullptr));
  for (std::uint64_t thread = threads; thread-- > 0;)
    kernel->run(testing::at(one.arguments, base), thread, threads, alias);
  return std::equal(one.after.begin(), one.after.end(), static_cast<unsigned char*>(memory.get()));
}

}  // namespace

TEST_CASE("the kernels have the reference's bits for every type, op and step, and touch nothing else") {
  std::mt19937 random{20261126};
  int cases = 0;
  for (const Computation& computation : testing::all_computations()) {
    CAPTURE(computation.text());
    for (int inputs = 1; inputs <= compute::gpu::most_inputs; ++inputs) {
      for (unsigned shift = 0; shift < 2; ++shift) {
        const Form form{inputs, 1 + static_cast<int>(random() % compute::gpu::most_outputs),
                        counts[random() % std::size(counts)], shift, random() % 2 == 0};
        CAPTURE(form.text());
        CHECK(passes(make_case(computation, form, random), 1 + random() % 40));
        ++cases;
      }
    }
    for (int outputs = 1; outputs <= compute::gpu::most_outputs; ++outputs) {
      const Form form{2, outputs, counts[random() % std::size(counts)], 0, outputs % 2 == 0};
      CAPTURE(form.text());
      CHECK(passes(make_case(computation, form, random), 7));
      ++cases;
    }
  }
  MESSAGE(cases << " cases");
}

TEST_CASE("a kernel of no elements writes nothing") {
  std::mt19937 random{1};
  for (const Computation& computation : testing::all_computations())
    CHECK(passes(make_case(computation, {2, 2, 0, 0, false}, random), 3));
}

TEST_CASE("there is a kernel for exactly what the CPU supports") {
  for (int t = 0; t < data_type_count; ++t) {
    for (int k = 0; k < compute::op_count; ++k) {
      const auto type = static_cast<DataType>(t);
      const auto op = static_cast<OpKind>(k);
      CAPTURE(std::string{name_of(type)});
      CAPTURE(std::string{name_of(op)});
      const bool is_there = choose(type, op, Step::whole).kernel != nullptr;
      CHECK(is_there == compute::supports(type, op));
      CHECK((choose(type, op, Step::combine).kernel != nullptr) == is_there);
      CHECK((choose(type, op, Step::contribute).kernel != nullptr) == is_there);
      CHECK((choose(type, op, Step::begin).kernel != nullptr) ==
            (is_there && (op == OpKind::avg || op == OpKind::premul_sum)));
      CHECK((choose(type, op, Step::finish).kernel != nullptr) == (is_there && op == OpKind::avg));
    }
    CHECK((choose(static_cast<DataType>(t), OpKind::user, Step::whole).kernel == nullptr));
  }
}

TEST_CASE("every kernel is used by some type and op") {
  std::set<int> used;
  for (const Computation& c : testing::all_computations()) used.insert(choose(c.type, c.op, c.step).kernel->index);
  CHECK(used.size() == compute::gpu::kernels().size());
  for (const auto& kernel : compute::gpu::kernels())
    CHECK(&kernel == &compute::gpu::kernels()[static_cast<std::size_t>(kernel.index)]);
}

TEST_CASE("a launch has as many threads as there are vectors, until the device is full") {
  const compute::gpu::Kernel& kernel = *choose(DataType::f32, OpKind::sum, Step::whole).kernel;
  CHECK(kernel.lanes == 4);
  const auto blocks = [&](std::uint64_t count) { return blocks_for(kernel, count, 132).blocks; };
  CHECK(blocks(0) == 1);
  CHECK(blocks(2048) == 1);
  CHECK(blocks(2049) == 2);
  CHECK(blocks(std::uint64_t{1} << 40) == 264);
  CHECK(blocks_for(kernel, 1, 132).threads == 512);
}
