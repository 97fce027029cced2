#include "tensors.h"

#include <algorithm>
#include <array>
#include <utility>

#include "errors.h"

namespace tutti_torch {
namespace {

struct Known {
  c10d::ReduceOp::RedOpType op;
  tutti_op_kind kind;
  const char* name;
};

constexpr std::array known_ops{
    Known{c10d::ReduceOp::SUM, TUTTI_SUM, "SUM"},
    Known{c10d::ReduceOp::AVG, TUTTI_AVG, "AVG"},
    Known{c10d::ReduceOp::PRODUCT, TUTTI_PRODUCT, "PRODUCT"},
    Known{c10d::ReduceOp::MIN, TUTTI_MIN, "MIN"},
    Known{c10d::ReduceOp::MAX, TUTTI_MAX, "MAX"},
    Known{c10d::ReduceOp::BAND, TUTTI_BAND, "BAND"},
    Known{c10d::ReduceOp::BOR, TUTTI_BOR, "BOR"},
    Known{c10d::ReduceOp::BXOR, TUTTI_BXOR, "BXOR"},
    Known{c10d::ReduceOp::PREMUL_SUM, TUTTI_PREMUL_SUM, "PREMUL_SUM"},
};

const Known& known(const c10d::ReduceOp& op) {
  for (const Known& one : known_ops)
    if (op.op_ == one.op) return one;
  TORCH_CHECK_VALUE(false, "tutti: ReduceOp number ", static_cast<int>(op.op_), " is not one that tutti knows");
}

/// Whether halves of a complex number may be combined by themselves.
bool is_linear(tutti_op_kind kind) { return kind == TUTTI_SUM || kind == TUTTI_AVG || kind == TUTTI_PREMUL_SUM; }

double factor_of(const c10d::ReduceOp& op) {
  const auto* const supplement = dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK_VALUE(supplement,
                    "tutti: PREMUL_SUM needs a factor: make it by torch.distributed._make_nccl_premul_sum(factor)");
  return supplement->tensor_factor.defined() ? supplement->tensor_factor.item<double>() : supplement->double_factor;
}

/// Their elements lie one after the other in one storage.
bool are_a_row(const std::vector<at::Tensor>& tensors) {
  const char* end = nullptr;
  for (const at::Tensor& tensor : tensors) {
    if (!is_plain(tensor)) return false;
    const auto* const begin = static_cast<const char*>(tensor.const_data_ptr());
    const bool is_first = &tensor == &tensors.front();  // it may be empty, and begin nowhere
    if (!is_first && (begin != end || !tensor.storage().is_alias_of(tensors.front().storage()))) return false;
    end = begin + tensor.nbytes();
  }
  return true;
}

/// The memory from the first byte of any to the last, where they are plain; others are copied anyway.
std::pair<const char*, const char*> extent_of(const std::vector<at::Tensor>& tensors) {
  const char* begin = nullptr;
  const char* end = nullptr;
  for (const at::Tensor& tensor : tensors) {
    if (!is_plain(tensor) || tensor.nbytes() == 0) continue;
    const auto* const data = static_cast<const char*>(tensor.const_data_ptr());
    begin = begin == nullptr ? data : std::min(begin, data);
    end = std::max(end, data + tensor.nbytes());
  }
  return {begin, end};
}

std::int64_t elements_in(const std::vector<at::Tensor>& tensors) {
  std::int64_t all = 0;
  for (const at::Tensor& tensor : tensors) all += tensor.numel();
  return all;
}

at::Tensor view_of_row(const std::vector<at::Tensor>& tensors) {
  const at::Tensor& first = tensors.front();
  return first.as_strided({elements_in(tensors)}, {1}, first.storage_offset());
}

}  // namespace

Element element_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kChar:
      return {TUTTI_I8, 1};
    case at::kByte:
      return {TUTTI_U8, 1};
    case at::kShort:
      return {TUTTI_I16, 1};
    case at::kUInt16:
      return {TUTTI_U16, 1};
    case at::kInt:
      return {TUTTI_I32, 1};
    case at::kUInt32:
      return {TUTTI_U32, 1};
    case at::kLong:
      return {TUTTI_I64, 1};
    case at::kUInt64:
      return {TUTTI_U64, 1};
    case at::kBool:
      return {TUTTI_BOOL, 1};
    case at::kHalf:
      return {TUTTI_F16, 1};
    case at::kBFloat16:
      return {TUTTI_BF16, 1};
    case at::kFloat:
      return {TUTTI_F32, 1};
    case at::kDouble:
      return {TUTTI_F64, 1};
    case at::kComplexHalf:
      return {TUTTI_F16, 2};
    case at::kComplexFloat:
      return {TUTTI_C64, 1};
    case at::kComplexDouble:
      return {TUTTI_C128, 1};
    default:
      return {TUTTI_U8, static_cast<std::uint64_t>(tensor.element_size())};
  }
}

Reduction::Reduction(const c10d::ReduceOp& op, const at::Tensor& tensor)
    : kind_(known(op).kind), element_(element_of(tensor)) {
  const at::ScalarType type = tensor.scalar_type();
  const bool exists = element_.type != TUTTI_U8 || type == at::kByte;
  TORCH_CHECK_VALUE(exists && (element_.parts == 1 || is_linear(kind_)), "tutti: there is no ", known(op).name,
                    " of elements of type ", type, ": convert the tensor to another type, such as float32");
  if (kind_ == TUTTI_PREMUL_SUM) check(tutti_op_create_premul_sum(factor_of(op), &made_));
}

void check_tensor(const at::Tensor& tensor, const char* call) {
  TORCH_CHECK_VALUE(tensor.defined(), "tutti: ", call, " got a tensor that is not defined");
  const char* why_not = nullptr;
  TORCH_CHECK_VALUE(tensor.is_cpu() || tensor.is_cuda(), "tutti: ", call, " got a tensor on ", tensor.device(),
                    ", but tutti moves tensors of the CPU and of NVIDIA GPUs only: call it with tensor.cpu()");
  TORCH_CHECK_VALUE(tensor.is_cpu() || tutti_gpu_available(&why_not) != 0, "tutti: ", call, " got a tensor on ",
                    tensor.device(), ", but ", why_not);
  TORCH_CHECK_VALUE(tensor.layout() == at::kStrided, "tutti: ", call, " got a tensor with layout ", tensor.layout(),
                    ", but tutti moves dense tensors only: call it with tensor.to_dense()");
}

void check_tensors(const std::vector<at::Tensor>& tensors, const char* call) {
  for (const at::Tensor& tensor : tensors) {
    check_tensor(tensor, call);
    check_same_type(tensor, tensors.front(), call);
  }
}

const at::Tensor& only(const std::vector<at::Tensor>& tensors, const char* call) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "tutti: ", call, " takes one tensor, but got ", tensors.size());
  check_tensor(tensors.front(), call);
  return tensors.front();
}

void check_pair(const at::Tensor& one, const at::Tensor& other, const char* call) {
  check_tensor(one, call);
  check_tensor(other, call);
  check_same_type(one, other, call);
}

void check_same_type(const at::Tensor& one, const at::Tensor& other, const char* call) {
  TORCH_CHECK_VALUE(one.scalar_type() == other.scalar_type(), "tutti: ", call, " got tensors of type ",
                    one.scalar_type(), " and ", other.scalar_type(), ": they must have one type");
}

bool is_plain(const at::Tensor& tensor) { return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg(); }

at::Tensor copyable(const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  const bool is_known = type == at::kByte || element_of(tensor).type != TUTTI_U8;
  return is_known || tensor.element_size() != 1 || tensor.is_quantized() ? tensor : tensor.view(at::kByte);
}

at::Tensor plain(const at::Tensor& tensor) {
  return is_plain(tensor) ? tensor : copyable(tensor).resolve_conj().resolve_neg().contiguous();
}

Memory apart(const std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& others) {
  const auto [begin, end] = extent_of(tensors);
  const auto [others_begin, others_end] = extent_of(others);
  return begin < others_end && others_begin < end ? Memory::copy : Memory::own_if_possible;
}

Row filled_row(const std::vector<at::Tensor>& tensors, Memory memory) {
  if (memory == Memory::own_if_possible && are_a_row(tensors)) return {view_of_row(tensors), false};
  std::vector<at::Tensor> flat;
  flat.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) flat.push_back(copyable(tensor).reshape(-1));
  return {plain(at::cat(flat)), true};
}

Row empty_row(const std::vector<at::Tensor>& tensors, Memory memory) {
  if (memory == Memory::own_if_possible && are_a_row(tensors)) return {view_of_row(tensors), false};
  return {at::empty({elements_in(tensors)}, copyable(tensors.front()).options()), true};
}

std::vector<std::uint64_t> counts_of(const std::vector<at::Tensor>& tensors, const Element& element) {
  std::vector<std::uint64_t> counts;
  counts.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) counts.push_back(count_of(tensor, element));
  return counts;
}

bool all_equal(const std::vector<std::uint64_t>& counts) {
  return std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>{}) == counts.end();
}

}  // namespace tutti_torch
