// Collectives of one tensor on each side.

#include "backend.h"
#include "launch.h"
#include "tensors.h"

namespace tutti_torch {
namespace {

/// One tensor has the part of a rank, and the other the parts of all.
void check_sizes(const at::Tensor& part, const at::Tensor& all, int ranks, const char* call) {
  check_pair(part, all, call);
  TORCH_CHECK_VALUE(all.numel() == part.numel() * ranks, "tutti: ", call, " got ", part.numel(),
                    " elements for one rank and ", all.numel(), " for all ", ranks, ": there must be ",
                    part.numel() * ranks);
}

/// Few bytes are sent as one call, though that copies them.
constexpr std::size_t most_flattened = std::size_t{1} << 18;

bool is_worth_flattening(const Tensors& tensors) {
  std::size_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += tensor.nbytes();
  return tensors.size() > 1 && bytes <= most_flattened;
}

/// The parts of a side of all_to_all_single, in elements: rows of the tensor for each rank.
std::vector<std::uint64_t> parts_of(const at::Tensor& tensor, const std::vector<std::int64_t>& rows, int ranks,
                                    const Element& element, const char* side) {
  const std::int64_t all_rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  const std::uint64_t per_row =
      all_rows == 0 ? 0 : static_cast<std::uint64_t>(tensor.numel() / all_rows) * element.parts;
  const auto parts = static_cast<std::size_t>(ranks);
  if (rows.empty()) {
    TORCH_CHECK_VALUE(all_rows % ranks == 0, "tutti: all_to_all_single: the ", side, " has ", all_rows, " rows, which ",
                      ranks, " ranks cannot share: give split sizes");
    return std::vector<std::uint64_t>(parts, static_cast<std::uint64_t>(all_rows / ranks) * per_row);
  }
  TORCH_CHECK_VALUE(rows.size() == parts, "tutti: all_to_all_single: ", rows.size(), " split sizes of the ", side,
                    " for ", ranks, " ranks");
  std::vector<std::uint64_t> counts;
  std::int64_t sum = 0;
  for (const std::int64_t number : rows) {
    TORCH_CHECK_VALUE(number >= 0, "tutti: all_to_all_single: a split size of the ", side, " is ", number);
    counts.push_back(static_cast<std::uint64_t>(number) * per_row);
    sum += number;
  }
  TORCH_CHECK_VALUE(sum == all_rows, "tutti: all_to_all_single: the split sizes of the ", side, " add up to ", sum,
                    ", but it has ", all_rows, " rows");
  return counts;
}

}  // namespace

WorkPtr TuttiBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const at::Tensor& tensor = only(tensors, "broadcast");
  Launch launch{*this, c10d::OpType::BROADCAST, "tutti:broadcast", options, tensors};
  const Element element = element_of(tensor);
  const auto root = static_cast<std::int32_t>(options.rootRank);
  void* const data = getRank() == root ? const_cast<void*>(launch.read(tensor)) : launch.write(tensor);
  launch.call([&](const tutti_call_options* how) {
    return tutti_broadcast(launch.comm(), data, count_of(tensor, element), element.type, root, how);
  });
  return launch.finish(tensors);
}

WorkPtr TuttiBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const at::Tensor& tensor = only(tensors, "all_reduce");
  const Reduction reduction{options.reduceOp, tensor};
  Launch launch{*this, c10d::OpType::ALLREDUCE, "tutti:all_reduce", options, tensors};
  void* const data = launch.update(tensor);
  launch.call(
      [&](const tutti_call_options* how) {
        return tutti_all_reduce(launch.comm(), data, data, count_of(tensor, reduction.element()),
                                reduction.element().type, reduction.kind(), how);
      },
      reduction.made());
  return launch.finish(tensors);
}

WorkPtr TuttiBackend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  TORCH_CHECK_VALUE(!tensors.empty(), "tutti: all_reduce_coalesced takes at least one tensor");
  check_tensors(tensors, "all_reduce_coalesced");
  const Reduction reduction{options.reduceOp, tensors.front()};
  Launch launch{*this, c10d::OpType::ALLREDUCE_COALESCED, "tutti:all_reduce", options, tensors};
  const auto reduce = [&](void* data, std::uint64_t count) {
    launch.call(
        [&](const tutti_call_options* how) {
          return tutti_all_reduce(launch.comm(), data, data, count, reduction.element().type, reduction.kind(), how);
        },
        reduction.made());
  };
  if (is_worth_flattening(tensors)) {
    std::uint64_t count = 0;
    for (const at::Tensor& tensor : tensors) count += count_of(tensor, reduction.element());
    reduce(launch.update_row(tensors), count);
  } else {
    for (const at::Tensor& tensor : tensors) reduce(launch.update(tensor), count_of(tensor, reduction.element()));
  }
  return launch.finish(tensors);
}

WorkPtr TuttiBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const at::Tensor& tensor = only(tensors, "reduce");
  const Reduction reduction{options.reduceOp, tensor};
  Launch launch{*this, c10d::OpType::REDUCE, "tutti:reduce", options, tensors};
  const auto root = static_cast<std::int32_t>(options.rootRank);
  void* const out = getRank() == root ? launch.update(tensor) : nullptr;
  const void* const in = out ? out : launch.read(tensor);
  launch.call(
      [&](const tutti_call_options* how) {
        return tutti_reduce(launch.comm(), in, out, count_of(tensor, reduction.element()), reduction.element().type,
                            reduction.kind(), root, how);
      },
      reduction.made());
  return launch.finish(tensors);
}

WorkPtr TuttiBackend::_allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  Tensors outputs{output}, inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

WorkPtr TuttiBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                      const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(inputs.size() == outputs.size(), "tutti: all_gather_into_tensor got ", inputs.size(),
                    " inputs and ", outputs.size(), " outputs");
  for (std::size_t i = 0; i < inputs.size(); ++i)
    check_sizes(inputs[i], outputs[i], getSize(), "all_gather_into_tensor");
  Launch launch{*this, c10d::OpType::_ALLGATHER_BASE, "tutti:_all_gather_base", options, inputs};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Element element = element_of(inputs[i]);
    const void* const in = launch.read(inputs[i]);
    void* const out = launch.write(outputs[i]);
    launch.call([&](const tutti_call_options* how) {
      return tutti_all_gather(launch.comm(), in, out, count_of(inputs[i], element), element.type, how);
    });
  }
  return launch.finish(outputs);
}

WorkPtr TuttiBackend::gather_into_tensor(at::Tensor& output, at::Tensor& input, const c10d::GatherOptions& options) {
  const auto root = static_cast<std::int32_t>(options.rootRank);
  check_tensor(input, "gather_into_tensor");
  if (getRank() == root) check_sizes(input, output, getSize(), "gather_into_tensor");
  Launch launch{*this, c10d::OpType::GATHER, "tutti:gather", options, {input}};
  const Element element = element_of(input);
  const void* const in = launch.read(input);
  void* const out = getRank() == root ? launch.write(output) : nullptr;
  launch.call([&](const tutti_call_options* how) {
    return tutti_gather(launch.comm(), in, out, count_of(input, element), element.type, root, how);
  });
  return launch.finish(getRank() == root ? Tensors{output} : Tensors{});
}

WorkPtr TuttiBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                           const c10d::ReduceScatterOptions& options) {
  Tensors outputs{output}, inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

WorkPtr TuttiBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                      const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK_VALUE(inputs.size() == outputs.size(), "tutti: reduce_scatter_tensor got ", inputs.size(), " inputs and ",
                    outputs.size(), " outputs");
  for (std::size_t i = 0; i < inputs.size(); ++i)
    check_sizes(outputs[i], inputs[i], getSize(), "reduce_scatter_tensor");
  Launch launch{*this, c10d::OpType::_REDUCE_SCATTER_BASE, "tutti:_reduce_scatter_base", options, inputs};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Reduction reduction{options.reduceOp, inputs[i]};
    const void* const in = launch.read(inputs[i]);
    void* const out = launch.write(outputs[i]);
    launch.call(
        [&](const tutti_call_options* how) {
          return tutti_reduce_scatter(launch.comm(), in, out, count_of(outputs[i], reduction.element()),
                                      reduction.element().type, reduction.kind(), how);
        },
        reduction.made());
  }
  return launch.finish(outputs);
}

WorkPtr TuttiBackend::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_splits,
                                    std::vector<std::int64_t>& input_splits, const c10d::AllToAllOptions& options) {
  check_pair(input, output, "all_to_all_single");
  const Element element = element_of(input);
  const auto sent = parts_of(input, input_splits, getSize(), element, "input");
  const auto received = parts_of(output, output_splits, getSize(), element, "output");
  const bool equal = input_splits.empty() && output_splits.empty();  // split sizes may be equal on some ranks only
  TORCH_CHECK_VALUE(!equal || input.numel() == output.numel(), "tutti: all_to_all_single: the input has ",
                    input.numel(), " elements and the output ", output.numel());
  Launch launch{*this, c10d::OpType::ALLTOALL_BASE, "tutti:all_to_all", options, {input}};
  const void* const in = equal ? launch.read(input) : launch.read_row({input}, apart({input}, {output}));
  void* const out = launch.write(output);
  launch.call([&](const tutti_call_options* how) {
    if (equal) return tutti_all_to_all(launch.comm(), in, out, sent.front(), element.type, how);
    return tutti_all_to_all_v(launch.comm(), in, sent.data(), nullptr, out, received.data(), nullptr, element.type,
                              how);
  });
  return launch.finish(Tensors{output});
}

WorkPtr TuttiBackend::barrier(const c10d::BarrierOptions& options) {
  streams_.synchronize(options.device_ids);
  Launch launch{*this, c10d::OpType::BARRIER, "tutti:barrier", options, {}};
  launch.call([&](const tutti_call_options* how) { return tutti_barrier(launch.comm(), how); });
  return launch.finish(Tensors{});
}

}  // namespace tutti_torch
