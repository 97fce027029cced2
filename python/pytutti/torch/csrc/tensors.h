#pragma once

#include <ATen/ATen.h>
#include <tutti/c.h>

#include <cstdint>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

/// What PyTorch's tensors are to the C interface: memory, a count and a type.
namespace tutti_torch {

/// An element of a tensor is `parts` elements of `type`.
struct Element {
  tutti_type type;
  std::uint64_t parts;
};

inline std::uint64_t count_of(const at::Tensor& tensor, const Element& element) {
  return static_cast<std::uint64_t>(tensor.numel()) * element.parts;
}

/// For calls that only move elements: every type that PyTorch has.
Element element_of(const at::Tensor& tensor);

/// How a call combines elements; and elements as it sees them. Throws ValueError if the op does not exist for them.
class Reduction {
 public:
  Reduction(const c10d::ReduceOp& op, const at::Tensor& tensor);
  Reduction(const Reduction&) = delete;
  Reduction& operator=(const Reduction&) = delete;
  ~Reduction() { tutti_op_free(made_); }

  tutti_op_kind kind() const { return kind_; }
  const Element& element() const { return element_; }
  const tutti_op* made() const { return made_; }

 private:
  tutti_op_kind kind_;
  Element element_;
  tutti_op* made_ = nullptr;  // of TUTTI_PREMUL_SUM
};

/// Throws if the tensor is neither one of the CPU nor one of a GPU that tutti can use, or is not dense. `call` is for
/// the error.
void check_tensor(const at::Tensor& tensor, const char* call);
void check_tensors(const std::vector<at::Tensor>& tensors, const char* call);
/// Or if there is not exactly one.
const at::Tensor& only(const std::vector<at::Tensor>& tensors, const char* call);
/// Checks both, and that they have one type.
void check_pair(const at::Tensor& one, const at::Tensor& other, const char* call);
/// Throws if their types differ.
void check_same_type(const at::Tensor& one, const at::Tensor& other, const char* call);

/// Its elements lie one after the other, as they are.
bool is_plain(const at::Tensor& tensor);
/// The tensor itself, or its memory as bytes where tutti does not know the type: PyTorch cannot copy all of these.
at::Tensor copyable(const at::Tensor& tensor);
/// The tensor itself, or a plain copy, perhaps of its bytes.
at::Tensor plain(const at::Tensor& tensor);

/// Tensors that a call uses as one piece of memory: `memory` is a flat tensor of all elements, or of their bytes.
///
/// `is_copy` is false if they lie one after the other in memory already, so that nothing has to be copied.
struct Row {
  at::Tensor memory;
  bool is_copy;
};
/// Whether a row may be the tensors' own memory.
enum class Memory : std::uint8_t { own_if_possible, copy };
/// Holding what the tensors hold.
Row filled_row(const std::vector<at::Tensor>& tensors, Memory memory);
/// To be written.
Row empty_row(const std::vector<at::Tensor>& tensors, Memory memory);
/// A copy, if memory of the tensors may be that of others, too.
Memory apart(const std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& others);

/// The elements of each, times `element.parts`.
std::vector<std::uint64_t> counts_of(const std::vector<at::Tensor>& tensors, const Element& element);
bool all_equal(const std::vector<std::uint64_t>& counts);

}  // namespace tutti_torch
