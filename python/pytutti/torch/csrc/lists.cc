// Collectives with a list of tensors, one for each rank, on a side. Lists whose tensors lie one after the other in
// memory, such as those that chunk() makes, are used where they are. Others are copied to one piece, or from one; and
// so are those that overlap the other side of the call in a way that the C interface refuses.

#include "backend.h"
#include "launch.h"
#include "tensors.h"

namespace tutti_torch {
namespace {

void check_list(const Tensors& list, int ranks, const char* call, const char* name) {
  TORCH_CHECK_VALUE(list.size() == static_cast<std::size_t>(ranks), "tutti: ", call, ": the ", name, " are ",
                    list.size(), " tensors, but there must be ", ranks, ", one for each rank");
  check_tensors(list, call);
}

const Tensors& one_list(const Lists& lists, int ranks, const char* call, const char* name) {
  TORCH_CHECK_VALUE(lists.size() == 1, "tutti: ", call, ": the ", name, " are ", lists.size(),
                    " lists, but there must be one");
  check_list(lists.front(), ranks, call, name);
  return lists.front();
}

void no_list(const Lists& lists, const char* call, const char* name) {
  TORCH_CHECK_VALUE(lists.empty() || (lists.size() == 1 && lists.front().empty()), "tutti: ", call,
                    ": only the root has a list of ", name);
}

bool is_in_place(const Tensors& list, const at::Tensor& own, int rank) {
  return list[static_cast<std::size_t>(rank)].const_data_ptr() == own.const_data_ptr();
}

/// Tensors for each rank, and the own one on the other side: what a call with such a list needs to know.
struct Parts {
  Parts(const Tensors& list, const at::Tensor& own, int rank, const Element& of, const char* call)
      : element(of),
        memory(is_in_place(list, own, rank) ? Memory::own_if_possible : apart(list, {own})),
        counts(counts_of(list, of)),
        equal(all_equal(counts)) {
    check_same_type(list.front(), own, call);
    const at::Tensor& mine = list[static_cast<std::size_t>(rank)];
    TORCH_CHECK_VALUE(mine.numel() == own.numel(), "tutti: ", call, ": place ", rank, " of the list has ", mine.numel(),
                      " elements, but the tensor of rank ", rank, " has ", own.numel());
  }
  std::uint64_t count() const { return counts.front(); }

  const Element element;
  const Memory memory;  // of the list; it may be in place
  const std::vector<std::uint64_t> counts;
  const bool equal;  // so that the call without counts will do
};

void gather_parts(Launch& launch, const void* in, void* out, const Parts& parts) {
  launch.call([&](const tutti_call_options* how) {
    if (parts.equal) return tutti_all_gather(launch.comm(), in, out, parts.count(), parts.element.type, how);
    return tutti_all_gather_v(launch.comm(), in, out, parts.counts.data(), nullptr, parts.element.type, how);
  });
}

}  // namespace

WorkPtr TuttiBackend::allgather(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  const at::Tensor& input = only(inputs, "all_gather");
  const Tensors& list = one_list(outputs, getSize(), "all_gather", "outputs");
  const Parts parts{list, input, getRank(), element_of(input), "all_gather"};
  Launch launch{*this, c10d::OpType::ALLGATHER, "tutti:all_gather", options, inputs};
  gather_parts(launch, launch.read(input), launch.write_row(list, parts.memory), parts);
  return launch.finish(outputs);
}

WorkPtr TuttiBackend::allgather_coalesced(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == static_cast<std::size_t>(getSize()), "tutti: all_gather_coalesced got ",
                    outputs.size(), " lists of outputs, but there must be ", getSize(), ", one for each rank");
  for (const Tensors& of_rank : outputs)
    TORCH_CHECK_VALUE(of_rank.size() == inputs.size(), "tutti: all_gather_coalesced: a list of outputs has ",
                      of_rank.size(), " tensors, but there are ", inputs.size(), " inputs");
  Launch launch{*this, c10d::OpType::ALLGATHER_COALESCED, "tutti:all_gather", options, inputs};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Tensors list;
    for (const Tensors& of_rank : outputs) list.push_back(of_rank[i]);
    check_tensor(inputs[i], "all_gather_coalesced");
    check_tensors(list, "all_gather_coalesced");
    const Parts parts{list, inputs[i], getRank(), element_of(inputs[i]), "all_gather_coalesced"};
    gather_parts(launch, launch.read(inputs[i]), launch.write_row(list, parts.memory), parts);
  }
  return launch.finish(outputs);
}

WorkPtr TuttiBackend::gather(Lists& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  const at::Tensor& input = only(inputs, "gather");
  const auto root = static_cast<std::int32_t>(options.rootRank);
  const Element element = element_of(input);
  if (getRank() == root)
    one_list(outputs, getSize(), "gather", "outputs");
  else
    no_list(outputs, "gather", "outputs");
  Launch launch{*this, c10d::OpType::GATHER, "tutti:gather", options, inputs};
  const void* const in = launch.read(input);
  void* out = nullptr;
  if (getRank() == root) {
    const Parts parts{outputs.front(), input, getRank(), element, "gather"};
    TORCH_CHECK_VALUE(parts.equal, "tutti: gather: the outputs must have equal sizes");  // other ranks do not know them
    out = launch.write_row(outputs.front(), parts.memory);
  }
  launch.call([&](const tutti_call_options* how) {
    return tutti_gather(launch.comm(), in, out, count_of(input, element), element.type, root, how);
  });
  return getRank() == root ? launch.finish(outputs) : launch.finish(Tensors{});
}

WorkPtr TuttiBackend::scatter(Tensors& outputs, Lists& inputs, const c10d::ScatterOptions& options) {
  const at::Tensor& output = only(outputs, "scatter");
  const auto root = static_cast<std::int32_t>(options.rootRank);
  const Element element = element_of(output);
  if (getRank() == root)
    one_list(inputs, getSize(), "scatter", "inputs");
  else
    no_list(inputs, "scatter", "inputs");
  Launch launch{*this, c10d::OpType::SCATTER, "tutti:scatter", options, getRank() == root ? inputs.front() : outputs};
  const void* in = nullptr;
  if (getRank() == root) {
    const Parts parts{inputs.front(), output, getRank(), element, "scatter"};
    TORCH_CHECK_VALUE(parts.equal, "tutti: scatter: the inputs must have equal sizes");  // other ranks do not know them
    in = launch.read_row(inputs.front(), parts.memory);
  }
  void* const out = launch.write(output);
  launch.call([&](const tutti_call_options* how) {
    return tutti_scatter(launch.comm(), in, out, count_of(output, element), element.type, root, how);
  });
  return launch.finish(outputs);
}

WorkPtr TuttiBackend::reduce_scatter(Tensors& outputs, Lists& inputs, const c10d::ReduceScatterOptions& options) {
  const at::Tensor& output = only(outputs, "reduce_scatter");
  const Tensors& list = one_list(inputs, getSize(), "reduce_scatter", "inputs");
  const Reduction reduction{options.reduceOp, output};
  const Parts parts{list, output, getRank(), reduction.element(), "reduce_scatter"};
  Launch launch{*this, c10d::OpType::REDUCE_SCATTER, "tutti:reduce_scatter", options, list};
  const void* const in = launch.read_row(list, parts.memory);
  void* const out = launch.write(output);
  const tutti_type type = parts.element.type;
  launch.call(
      [&](const tutti_call_options* how) {
        if (parts.equal)
          return tutti_reduce_scatter(launch.comm(), in, out, parts.count(), type, reduction.kind(), how);
        return tutti_reduce_scatter_v(launch.comm(), in, out, parts.counts.data(), nullptr, type, reduction.kind(),
                                      how);
      },
      reduction.made());
  return launch.finish(outputs);
}

WorkPtr TuttiBackend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  check_list(outputs, getSize(), "all_to_all", "outputs");
  check_list(inputs, getSize(), "all_to_all", "inputs");
  check_same_type(inputs.front(), outputs.front(), "all_to_all");
  const Element element = element_of(inputs.front());
  const auto sent = counts_of(inputs, element);
  const auto received = counts_of(outputs, element);
  Launch launch{*this, c10d::OpType::ALLTOALL, "tutti:all_to_all", options, inputs};
  const void* const in = launch.read_row(inputs, Memory::own_if_possible);
  void* const out = launch.write_row(outputs, apart(outputs, inputs));
  launch.call([&](const tutti_call_options* how) {
    return tutti_all_to_all_v(launch.comm(), in, sent.data(), nullptr, out, received.data(), nullptr, element.type,
                              how);
  });
  return launch.finish(outputs);
}

}  // namespace tutti_torch
