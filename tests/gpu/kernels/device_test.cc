// The kernels on a GPU: all of them against the CPU's reference, every bit pattern of the conversions of f16 and bf16,
// and with --speed how fast they are beside the GPU's own copies.
//
//   gpu_kernels_test CONVERSIONS.fatbin [--speed]
//
// Ends with 77 and the reason where no GPU can be used, else with a line that counts.

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "lib/base/gpu/commands.h"
#include "lib/base/gpu/kernel_image.h"
#include "lib/base/gpu/memory.h"
#include "lib/base/half.h"
#include "lib/compute/gpu/image.h"
#include "tests/gpu/host_memory.h"
#include "tests/gpu/kernels/cases.h"
#include "tests/gpu/kernels/conversions.h"
#include "tutti/error.h"

using namespace tutti;
using compute::gpu::FoldArguments;
using compute::gpu::Kernel;
using compute::gpu::Step;
using testing::Case;
using testing::Computation;
using testing::ConversionArguments;
using testing::Form;

namespace {

int passed = 0, failed = 0;

void count(bool good, const std::string& what) {
  ++(good ? passed : failed);
  if (!good && failed <= 20) std::printf("FAILED: %s\n", what.c_str());
}

/// One device, one stream, and the kernels.
class Gpu {
 public:
  Gpu() : image_(compute::gpu::image().data()) {
    for (const Kernel& kernel : compute::gpu::kernels()) {
      kernels_.push_back(image_.kernel(kernel.name));
      cuda::KernelImage::load(kernels_.back());
    }
  }

  const cuda::DeviceFacts& facts() const { return facts_; }
  void copy(cuda::Address to, cuda::Address from, std::size_t bytes) { commands_.copy(to, from, bytes); }
  /// `blocks`: 0 for as many as usual.
  void fold(const Kernel& kernel, const FoldArguments& arguments, unsigned blocks = 0) {
    const auto usual = blocks_for(kernel, arguments.count, facts_.multiprocessors);
    commands_.launch(kernels_[static_cast<std::size_t>(kernel.index)], {blocks ? blocks : usual.blocks, usual.threads},
                     arguments);
  }
  void convert(cuda::Kernel kernel, const ConversionArguments& arguments) {
    commands_.launch(kernel, {static_cast<unsigned>(8 * facts_.multiprocessors), 256}, arguments);
  }
  void wait() {
    commands_.flush();
    cuda::driver().cuStreamSynchronize(stream_.get());
  }

  /// Milliseconds of one `work`, of `times` in a row.
  template <class Work>
  float time(int times, Work work) {
    const cuda::Driver& call = cuda::driver();
    cuda::Event from = nullptr, to = nullptr;
    call.cuEventCreate(&from, 0);
    call.cuEventCreate(&to, 0);
    commands_.record(from);
    for (int i = 0; i < times; ++i) work();
    commands_.record(to);
    wait();
    float milliseconds = 0;
    call.cuEventElapsedTime(&milliseconds, from, to);
    call.cuEventDestroy(from);
    call.cuEventDestroy(to);
    return milliseconds / static_cast<float>(times);
  }

 private:
  cuda::PrimaryContext context_{0};
  cuda::Current current_{context_.get()};
  cuda::DeviceFacts facts_ = cuda::facts_of(0);
  cuda::OwnStream stream_{context_.get()};
  cuda::Commands commands_{context_.get(), stream_.get()};
  cuda::KernelImage image_;
  std::vector<cuda::Kernel> kernels_;
};

// ---- All kernels

void check_case(Gpu& gpu, const cuda::DeviceMemory& memory, const Computation& computation, const Form& form,
                std::mt19937& random, unsigned blocks = 0) {
  const Case one = make_case(computation, form, random);
  if (one.before.size() > memory.size()) return count(false, "the case is larger than the memory");
  std::vector<unsigned char> result(one.before.size());
  gpu.copy(memory.address(), cuda::address_of(one.before.data()), one.before.size());
  gpu.fold(*one.kernel, testing::at(one.arguments, memory.address()), blocks);
  gpu.copy(cuda::address_of(result.data()), memory.address(), result.size());
  gpu.wait();
  count(result == one.after, computation.text() + ", " + form.text());
}

void check_kernels(Gpu& gpu) {
  const cuda::DeviceMemory memory{std::size_t{64} << 20};
  std::mt19937 random{4};
  for (const Computation& computation : testing::all_computations()) {
    for (const int inputs : {1, 2, 3, 8, 16})
      for (const int outputs : {1, 2, 8})
        for (const unsigned shift : {0u, 1u})
          check_case(gpu, memory, computation, {inputs, outputs, 257 + random() % 700, shift, random() % 2 == 0},
                     random);
    // In several turns of each thread.
    check_case(gpu, memory, computation, {2, 1, 40001, 0, true}, random, 2);
  }
}

// ---- Conversions

std::vector<char> read(const char* path) {
  std::ifstream file{path, std::ios::binary};
  std::vector<char> bytes{std::istreambuf_iterator<char>{file}, {}};
  if (bytes.empty()) throw Error{ErrorCode::invalid_argument, std::string{path} + " cannot be read"};
  return bytes;
}

/// Calls part(from, to) for parts of [0, count), on all processors.
template <class Part>
void in_parallel(std::uint64_t count, Part part) {
  const std::uint64_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::jthread> running;
  for (std::uint64_t i = 0; i < threads; ++i)
    running.emplace_back([=] { part(count * i / threads, count * (i + 1) / threads); });
}

void check_narrowing(Gpu& gpu, const cuda::KernelImage& image) {
  constexpr std::uint64_t all = std::uint64_t{1} << 32, piece = std::uint64_t{1} << 26;
  const cuda::DeviceMemory device{piece * 4};
  const testing::HostMemory host{piece * 4};
  const cuda::Kernel kernel = image.kernel("narrow");
  std::atomic<std::uint64_t> wrong_f16{0}, wrong_bf16{0};
  for (std::uint64_t first = 0; first < all; first += piece) {
    gpu.convert(kernel, {first, piece, device.address(), device.address() + piece * 2});
    gpu.copy(host.address(), device.address(), device.size());
    gpu.wait();
    const auto* const f16s = reinterpret_cast<const std::uint16_t*>(host.data());
    in_parallel(piece, [&](std::uint64_t from, std::uint64_t to) {
      std::uint64_t f16_differs = 0, bf16_differs = 0;
      for (std::uint64_t i = from; i < to; ++i) {
        const float value = half::float_of(static_cast<std::uint32_t>(first + i));
        const bool nan = value != value;
        f16_differs += f16s[i] != (nan ? 0xffff : half::narrow_f16(value));
        bf16_differs += f16s[piece + i] != (nan ? 0xffff : half::narrow_bf16(value));
      }
      wrong_f16 += f16_differs;
      wrong_bf16 += bf16_differs;
    });
  }
  std::printf("float to f16: %llu of 2^32 differ; to bf16: %llu\n", static_cast<unsigned long long>(wrong_f16),
              static_cast<unsigned long long>(wrong_bf16));
  count(wrong_f16 == 0, "float to f16");
  count(wrong_bf16 == 0, "float to bf16");
}

/// A NaN may have another payload, since every result with one becomes the same NaN.
bool same(float a, float b) { return (a != a && b != b) || half::bits_of(a) == half::bits_of(b); }

void check_widening(Gpu& gpu, const cuda::KernelImage& image) {
  constexpr std::size_t all = 65536;
  const cuda::DeviceMemory device{all * 8};
  std::vector<float> floats(2 * all);
  gpu.convert(image.kernel("widen"), {0, all, device.address(), device.address() + all * 4});
  gpu.copy(cuda::address_of(floats.data()), device.address(), all * 8);
  gpu.wait();
  int wrong = 0;
  for (std::size_t i = 0; i < all; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    wrong += same(floats[i], half::widen_f16(bits)) && same(floats[all + i], half::widen_bf16(bits)) ? 0 : 1;
  }
  std::printf("f16 and bf16 to float: %d of 2^16 differ\n", wrong);
  count(wrong == 0, "f16 and bf16 to float");
}

// ---- Speed

constexpr std::size_t speed_bytes = std::size_t{256} << 20;

template <class Work>
double median_rate(Gpu& gpu, double bytes, Work work) {
  gpu.time(3, work);
  std::vector<float> times;
  for (int i = 0; i < 7; ++i) times.push_back(gpu.time(3, work));
  std::nth_element(times.begin(), times.begin() + 3, times.end());
  return bytes / static_cast<double>(times[3]) / 1e6;
}

FoldArguments arguments_of(const Computation& c, int inputs, int outputs, cuda::Address base) {
  FoldArguments a{};
  a.input_count = inputs;
  a.output_count = outputs;
  a.count = speed_bytes / size_of(c.type) * choose(c.type, c.op, c.step).parts;
  a.factor = 1;
  a.divisor = inputs;
  for (int i = 0; i < inputs; ++i) a.inputs[i] = base + static_cast<unsigned>(i) * speed_bytes;
  for (int i = 0; i < outputs; ++i) a.outputs[i] = base + static_cast<unsigned>(inputs + i) * speed_bytes;
  return a;
}

void measure(Gpu& gpu) {
  const cuda::DeviceMemory memory{16 * speed_bytes};
  const double copied = median_rate(gpu, 2.0 * speed_bytes,
                                    [&] { gpu.copy(memory.address() + speed_bytes, memory.address(), speed_bytes); });
  std::printf("\nGB/s read and written, vectors of 256 MiB. The driver's copy: %.0f\n", copied);
  const auto rate = [&](const Computation& c, int inputs, int outputs, unsigned blocks) {
    const FoldArguments a = arguments_of(c, inputs, outputs, memory.address());
    const Kernel& kernel = *choose(c.type, c.op, c.step).kernel;
    return median_rate(gpu, static_cast<double>(inputs + outputs) * speed_bytes, [&] { gpu.fold(kernel, a, blocks); });
  };
  const auto processors = static_cast<unsigned>(gpu.facts().multiprocessors);
  std::printf("%-16s %8s", "", "usual");
  for (const unsigned per : {1u, 2u, 4u, 8u, 16u}) std::printf(" %5u/SM", per);
  std::printf("   (blocks of %u threads)\n", compute::gpu::threads_per_block);
  for (const DataType type : {DataType::f32, DataType::f16, DataType::bf16}) {
    for (const auto& [inputs, outputs] : {std::pair{2, 1}, {2, 2}, {2, 8}, {8, 1}, {8, 8}}) {
      const Computation c{type, OpKind::sum, Step::whole};
      std::printf("%-5s sum %d to %d  %8.0f", name_of(type), inputs, outputs, rate(c, inputs, outputs, 0));
      for (const unsigned per : {1u, 2u, 4u, 8u, 16u})
        std::printf(" %8.0f", rate(c, inputs, outputs, per * processors));
      std::printf("\n");
    }
  }
  std::printf("\nAll, 8 to 1:");
  int column = 0;
  for (const Computation& c : testing::all_computations())
    if (c.step == Step::whole)
      std::printf("%s%-5s %-10s %5.0f", column++ % 4 == 0 ? "\n" : "   ", name_of(c.type), name_of(c.op),
                  rate(c, 8, 1, 0));
  std::printf("\n\n");
}

int run(int argc, char** argv) {
  const bool speed = argc == 3 && std::string_view{argv[2]} == "--speed";
  if (argc != 2 && !speed) {
    std::fprintf(stderr, "usage: %s CONVERSIONS.fatbin [--speed]\n", argv[0]);
    return 2;
  }
  const std::string_view no_image = compute::gpu::why_no_image();
  if (!no_image.empty() || !cuda::available()) {
    std::printf("skipped: %s\n", no_image.empty() ? cuda::why_not().c_str() : std::string{no_image}.c_str());
    return 77;
  }
  Gpu gpu;
  std::printf("%s, compute capability %d, %d multiprocessors, driver %d, image of %zu bytes\n",
              gpu.facts().name.c_str(), gpu.facts().capability, gpu.facts().multiprocessors, cuda::driver().version,
              compute::gpu::image().size());
  check_kernels(gpu);
  std::printf("%zu kernels: %d cases, %d differ\n", compute::gpu::kernels().size(), passed + failed, failed);
  const std::vector<char> fatbin = read(argv[1]);
  const cuda::KernelImage conversions{fatbin.data()};
  check_widening(gpu, conversions);
  check_narrowing(gpu, conversions);
  if (speed) measure(gpu);
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 && passed > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::printf("%s\n%d passed, %d failed\n", error.what(), passed, failed + 1);
    return 1;
  }
}
