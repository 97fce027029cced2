#include "tests/gpu/kernels/cases.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "lib/compute/kernels.h"

namespace tutti::testing {

using compute::gpu::FoldArguments;
using compute::gpu::Step;

namespace {

using Bytes = std::vector<unsigned char>;

constexpr std::size_t alignment = 256;
constexpr std::size_t guard = 64;

const compute::Kernels& reference(DataType type) { return compute::kernels(compute::reference_table(), type); }

bool averages(const Computation& c) { return c.op == OpKind::avg; }
std::size_t sum_size(const Computation& c) { return averages(c) ? reference(c.type).average.size : size_of(c.type); }
bool first_is_sum(Step step) { return step == Step::contribute || step == Step::combine || step == Step::finish; }
bool others_are_sums(Step step) { return step == Step::combine || step == Step::finish; }
bool result_is_sum(Step step) { return step == Step::begin || step == Step::contribute || step == Step::combine; }

/// Random bits; every fourth number has an extreme exponent, so that NaNs, infinities and zeros are among them.
Bytes random_elements(DataType type, std::uint64_t count, std::mt19937& random) {
  const std::size_t size = size_of(type);
  const bool is_complex = type == DataType::c64 || type == DataType::c128;
  const std::size_t part = is_complex ? size / 2 : size;
  Bytes bytes(count * size);
  for (auto& byte : bytes) byte = static_cast<unsigned char>(random());
  for (std::size_t i = 0; i + part <= bytes.size(); i += part) {
    const auto lot = random() % 8;
    if (lot > 1) continue;
    bytes[i + part - 1] = random() % 2 == 0 ? 0x7f : 0x80;
    if (part > 1) bytes[i + part - 2] = random() % 2 == 0 ? 0x80 : 0x00;
    if (lot == 0) std::fill_n(&bytes[i], part > 1 ? part - 2 : 0, static_cast<unsigned char>(0));  // infinity or zero
  }
  return bytes;
}

/// The CPU keeps the payload of a NaN among the sums of f16, the GPU has one NaN.
void settle_sums(const Computation& c, Bytes& sums) {
  if (!averages(c) || c.type != DataType::f16) return;
  for (std::size_t i = 0; i < sums.size(); i += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, &sums[i], sizeof value);
    if (value != value) std::fill_n(&sums[i], sizeof value, static_cast<unsigned char>(0xff));
  }
}

Bytes random_sums(const Computation& c, std::uint64_t count, double factor, std::mt19937& random) {
  if (!averages(c)) return random_elements(c.type, count, random);
  Bytes sums(count * sum_size(c));
  reference(c.type).average.begin(sums.data(), random_elements(c.type, count, random).data(), count, factor);
  for (int i = 0; i < 3; ++i) {
    const Bytes elements = random_elements(c.type, count, random);
    reference(c.type).average.contribute(sums.data(), sums.data(), elements.data(), count, factor);
  }
  settle_sums(c, sums);
  return sums;
}

/// What the CPU's reference makes of the inputs.
class Expected {
 public:
  Expected(const Computation& computation, std::uint64_t count, double factor, double divisor)
      : c_(computation), count_(count), factor_(factor), divisor_(divisor) {}

  Bytes of(const std::vector<Bytes>& inputs) const {
    Bytes total = first_is_sum(c_.step) || is_plain() ? inputs.front() : part(inputs.front());
    for (std::size_t i = 1; i < inputs.size(); ++i) add(total, inputs[i]);
    if (averages(c_) && !result_is_sum(c_.step)) return finished(total);
    settle_sums(c_, total);
    return total;
  }

 private:
  bool is_plain() const { return c_.op != OpKind::avg && c_.op != OpKind::premul_sum; }

  Bytes part(const Bytes& elements) const {
    Bytes result(count_ * sum_size(c_));
    const auto begin = averages(c_) ? reference(c_.type).average.begin : reference(c_.type).scale;
    begin(result.data(), elements.data(), count_, factor_);
    return result;
  }

  void add(Bytes& total, const Bytes& input) const {
    const compute::Average& average = reference(c_.type).average;
    if (averages(c_) && others_are_sums(c_.step))
      average.add(total.data(), total.data(), input.data(), count_);
    else if (averages(c_))
      average.contribute(total.data(), total.data(), input.data(), count_, factor_);
    else
      compute::combine(compute::reference_table(), c_.type, c_.op)(
          total.data(), total.data(), (is_plain() || others_are_sums(c_.step) ? input : part(input)).data(), count_);
  }

  Bytes finished(const Bytes& sums) const {
    Bytes result(count_ * size_of(c_.type));
    reference(c_.type).average.finish(result.data(), sums.data(), count_, divisor_);
    return result;
  }

  Computation c_;
  std::uint64_t count_;
  double factor_, divisor_;
};

const char* name_of(Step step) {
  switch (step) {
    case Step::begin:
      return "begin";
    case Step::contribute:
      return "contribute";
    case Step::combine:
      return "combine";
    case Step::finish:
      return "finish";
    case Step::whole:
      return "whole";
  }
  return "";
}

}  // namespace

std::string Computation::text() const {
  return std::string{tutti::name_of(type)} + " " + tutti::name_of(op) + " " + name_of(step);
}

std::string Form::text() const {
  return std::to_string(inputs) + " to " + std::to_string(outputs) + ", " + std::to_string(count) +
         " elements, shift " + std::to_string(shift) + (in_place ? ", in place" : "");
}

std::vector<Computation> all_computations() {
  std::vector<Computation> all;
  for (int t = 0; t < data_type_count; ++t) {
    for (int k = 0; k < compute::op_count; ++k) {
      for (int s = 0; s < compute::gpu::step_count; ++s) {
        const Computation c{static_cast<DataType>(t), static_cast<OpKind>(k), static_cast<Step>(s)};
        const bool has_steps = c.op == OpKind::avg || c.op == OpKind::premul_sum;
        if (!has_steps && c.step != Step::whole) continue;
        if (choose(c.type, c.op, c.step).kernel != nullptr) all.push_back(c);
      }
    }
  }
  return all;
}

Case make_case(const Computation& computation, const Form& form, std::mt19937& random) {
  const auto choice = choose(computation.type, computation.op, computation.step);
  const std::size_t element = size_of(computation.type), sum = sum_size(computation);
  const std::size_t result = result_is_sum(computation.step) ? sum : element;
  const bool is_wide = averages(computation) && sum != element;
  const int ranks = computation.step == Step::whole ? form.inputs : 4 + static_cast<int>(random() % 13);
  const double power = std::bit_ceil(static_cast<unsigned>(ranks));
  constexpr double factors[] = {0.37, -1.5, 1.0, 1e-30, 3e38};
  const double factor = !averages(computation) ? factors[random() % 5] : is_wide ? 1 : 1 / power;
  const double divisor = is_wide ? ranks : ranks / power;

  Case made;
  made.kernel = choice.kernel;
  made.arguments.input_count = form.inputs;
  made.arguments.output_count = form.outputs;
  made.arguments.count = form.count * choice.parts;
  made.arguments.factor = factor;
  made.arguments.divisor = divisor;

  std::size_t end = alignment;
  const auto place = [&](std::size_t size) {
    const std::size_t start = end + form.shift * size;
    end = (start + form.count * size + guard + alignment - 1) / alignment * alignment;
    return start;
  };
  std::vector<Bytes> inputs;
  std::size_t last = 0;
  for (int i = 0; i < form.inputs; ++i) {
    const bool is_sum = i == 0 ? first_is_sum(computation.step) : others_are_sums(computation.step);
    inputs.push_back(is_sum ? random_sums(computation, form.count, factor, random)
                            : random_elements(computation.type, form.count, random));
    made.arguments.inputs[i] = place(last = is_sum ? sum : element);
  }
  for (int i = 0; i < form.outputs; ++i) {
    const bool same = form.in_place && i == form.outputs - 1 && last == result;
    made.arguments.outputs[i] = same ? made.arguments.inputs[form.inputs - 1] : place(result);
  }

  made.before.resize(end);
  for (auto& byte : made.before) byte = static_cast<unsigned char>(random());
  const auto put = [](Bytes& memory, std::uint64_t address, const Bytes& bytes) {
    std::copy(bytes.begin(), bytes.end(), memory.begin() + static_cast<std::ptrdiff_t>(address));
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) put(made.before, made.arguments.inputs[i], inputs[i]);
  made.after = made.before;
  const Bytes expected = Expected{computation, form.count, factor, divisor}.of(inputs);
  for (int i = 0; i < form.outputs; ++i) put(made.after, made.arguments.outputs[i], expected);
  return made;
}

FoldArguments at(FoldArguments arguments, std::uint64_t base) {
  for (int i = 0; i < arguments.input_count; ++i) arguments.inputs[i] += base;
  for (int i = 0; i < arguments.output_count; ++i) arguments.outputs[i] += base;
  return arguments;
}

}  // namespace tutti::testing
