#include "tests/gpu/small_kernels.h"

#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/support/fake_cuda/control.h"

namespace tutti::testing {
namespace {

constexpr const char* source = R"(
.version 7.0
.target sm_70
.address_size 64

.visible .entry small_add(.param .align 8 .b8 argument[32])
{
  .reg .pred %stop;
  .reg .b32 %block, %threads, %thread, %blocks, %add, %value;
  .reg .b64 %index, %stride, %count, %to, %from, %at, %offset, %wide;
  ld.param.u64 %to, [argument];
  ld.param.u64 %from, [argument+8];
  ld.param.u64 %count, [argument+16];
  ld.param.u32 %add, [argument+24];
  cvta.to.global.u64 %to, %to;
  cvta.to.global.u64 %from, %from;
  mov.u32 %block, %ctaid.x;
  mov.u32 %threads, %ntid.x;
  mov.u32 %thread, %tid.x;
  mov.u32 %blocks, %nctaid.x;
  mul.wide.u32 %index, %block, %threads;
  cvt.u64.u32 %wide, %thread;
  add.s64 %index, %index, %wide;
  mul.wide.u32 %stride, %blocks, %threads;
next:
  setp.ge.u64 %stop, %index, %count;
  @%stop bra done;
  shl.b64 %offset, %index, 2;
  add.s64 %at, %from, %offset;
  ld.global.u32 %value, [%at];
  add.s32 %value, %value, %add;
  add.s64 %at, %to, %offset;
  st.global.u32 [%at], %value;
  add.s64 %index, %index, %stride;
  bra next;
done:
  ret;
}

.visible .entry small_spend(.param .align 8 .b8 argument[8])
{
  .reg .pred %more;
  .reg .b64 %first, %now, %wanted, %spent;
  ld.param.u64 %wanted, [argument];
  mov.u64 %first, %globaltimer;
again:
  mov.u64 %now, %globaltimer;
  sub.s64 %spent, %now, %first;
  setp.lt.u64 %more, %spent, %wanted;
  @%more bra again;
  ret;
}

.visible .entry small_store(.param .align 8 .b8 argument[16])
{
  .reg .b64 %word, %value;
  ld.param.u64 %word, [argument];
  ld.param.u64 %value, [argument+8];
  cvta.to.global.u64 %word, %word;
  st.release.sys.global.u64 [%word], %value;
  ret;
}
)";

/// The fake's functions, if the driver is the fake.
template <class Function>
Function* find(const char* name) {
  void* const library = ::dlopen("libcuda.so.1", RTLD_LAZY);
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(library, name));
}

decltype(fake_cuda_reach)* reach = nullptr;
decltype(fake_cuda_can_reach)* can_reach = nullptr;
decltype(fake_cuda_fail_kernel)* fail_kernel = nullptr;

bool check(std::uint64_t address, std::size_t bytes) {
  if (can_reach(reinterpret_cast<const void*>(address), bytes) != 0) return true;
  fail_kernel(static_cast<int>(cuda::Result::illegal_address));
  return false;
}

void add(const void* argument, unsigned block, unsigned blocks, unsigned threads) {
  const auto& a = *static_cast<const AddArguments*>(argument);
  if (!check(a.from, 4 * a.count) || !check(a.to, 4 * a.count)) return;
  const auto* const from = static_cast<const std::uint32_t*>(reach(reinterpret_cast<const void*>(a.from)));
  auto* const to = static_cast<std::uint32_t*>(reach(reinterpret_cast<const void*>(a.to)));
  for (unsigned thread = 0; thread < threads; ++thread)
    for (std::uint64_t i = std::uint64_t{block} * threads + thread; i < a.count; i += std::uint64_t{blocks} * threads)
      to[i] = from[i] + a.add;
}

void spend(const void* argument, unsigned, unsigned, unsigned) {
  const std::chrono::nanoseconds wanted{static_cast<const SpendArguments*>(argument)->nanoseconds};
  for (const auto first = std::chrono::steady_clock::now(); std::chrono::steady_clock::now() - first < wanted;)
    continue;
}

void store(const void* argument, unsigned block, unsigned, unsigned) {
  const auto& a = *static_cast<const StoreArguments*>(argument);
  if (block != 0 || !check(a.word, 8)) return;
  auto* const word = static_cast<std::uint64_t*>(reach(reinterpret_cast<const void*>(a.word)));
  std::atomic_ref<std::uint64_t>{*word}.store(a.value, std::memory_order_release);
}

}  // namespace

const void* small_kernels() {
  static const std::string compiled = [] {
    const char* const path = std::getenv("SMALL_KERNELS");
    if (path == nullptr) return std::string{};
    std::ifstream file{path, std::ios::binary};
    return std::string{std::istreambuf_iterator<char>{file}, {}};
  }();
  return compiled.empty() ? source : compiled.data();
}

bool give_small_kernels() {
  auto* const give = find<decltype(fake_cuda_register_kernel)>("fake_cuda_register_kernel");
  if (give == nullptr) return false;
  reach = find<decltype(fake_cuda_reach)>("fake_cuda_reach");
  can_reach = find<decltype(fake_cuda_can_reach)>("fake_cuda_can_reach");
  fail_kernel = find<decltype(fake_cuda_fail_kernel)>("fake_cuda_fail_kernel");
  give("small_add", sizeof(AddArguments), add);
  give("small_spend", sizeof(SpendArguments), spend);
  give("small_store", sizeof(StoreArguments), store);
  return true;
}

}  // namespace tutti::testing
