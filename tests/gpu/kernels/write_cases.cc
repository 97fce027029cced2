// Writes cases for the interpreter of PTX (ptx_test.py): several of each kernel.
//
//   gpu_kernel_cases FILE
//
// One after the other, integers of 8 bytes: the length of the kernel's name, the name, the size of its parameter, the
// parameter, the size of the memory, the memory before, and after. Addresses count from the begin of the memory.

#include <cstdio>
#include <fstream>
#include <set>

#include "tests/gpu/kernels/cases.h"

using namespace tutti;

namespace {

void write(std::ofstream& to, const void* bytes, std::uint64_t size) {
  to.write(reinterpret_cast<const char*>(&size), sizeof size);
  to.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(size));
}

void write_case(std::ofstream& to, const testing::Case& one) {
  write(to, one.kernel->name, std::char_traits<char>::length(one.kernel->name));
  write(to, &one.arguments, sizeof one.arguments);
  write(to, one.before.data(), one.before.size());
  to.write(reinterpret_cast<const char*>(one.after.data()), static_cast<std::streamsize>(one.after.size()));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FILE\n", argv[0]);
    return 2;
  }
  std::ofstream to{argv[1], std::ios::binary};
  std::mt19937 random{7};
  std::set<int> done;
  for (const testing::Computation& c : testing::all_computations()) {
    const compute::gpu::Kernel& kernel = *choose(c.type, c.op, c.step).kernel;
    if (!done.insert(kernel.index).second) continue;
    // Vectors and a rest, two turns of some threads, and single elements. ptx_test.py starts 64 threads.
    const auto lanes = static_cast<unsigned>(kernel.lanes);
    write_case(to, make_case(c, {3, 2, 80 * lanes + lanes - 1, 0, false}, random));
    write_case(to, make_case(c, {2, 1, 97, 1, true}, random));
    write_case(to, make_case(c, {1, 3, 40 * lanes, 0, false}, random));
    write_case(to, make_case(c, {16, 16, 5, 0, false}, random));
  }
  to.close();
  return to.good() && done.size() == compute::gpu::kernels().size() ? 0 : 1;
}
