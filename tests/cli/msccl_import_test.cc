// Programs of MSCCL as others write them: fused instructions, scratch that is used again, input that is written.

#include "cli/plan/interchange/msccl_import.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "algorithms/describe.h"
#include "cli/plan/interchange/msccl.h"
#include "tutti/error.h"

namespace tutti::cli::interchange {
namespace {

struct At {
  char buffer = 'i';
  int chunk = -1;
};

MscclStep step(const char* type, At src, At dst, int cnt = 1) {
  return {
      .type = type, .srcbuf = src.buffer, .srcoff = src.chunk, .dstbuf = dst.buffer, .dstoff = dst.chunk, .cnt = cnt};
}
MscclStep after(MscclStep step, int block, int of_it) {
  step.depid = block;
  step.deps = of_it;
  return step;
}
MscclStep awaited(MscclStep step) {
  step.hasdep = true;
  return step;
}

MscclProgram program(const char* coll, int ranks, int chunks, bool inplace, bool outofplace) {
  MscclProgram made{.name = "made", .coll = coll};
  made.nchunksperloop = chunks;
  made.inplace = inplace;
  made.outofplace = outofplace;
  for (int rank = 0; rank < ranks; ++rank) made.gpus.push_back({.id = rank, .s_chunks = chunks});
  return made;
}

MscclBlock block(int id, int send, int recv, std::vector<MscclStep> steps, int chan = 0) {
  return {.id = id, .send = send, .recv = recv, .chan = chan, .steps = std::move(steps)};
}

std::string problems(const algorithms::CheckedPlans& imported) {
  std::string text;
  for (const std::string& problem : imported.verdict.problems) text += problem + "\n";
  return text;
}

std::string refusal(const MscclProgram& made) {
  try {
    return problems(import_program(made));
  } catch (const Error& error) {
    return error.what();
  }
}

void check_refused(const MscclProgram& made, const std::string& words) {
  CHECK_MESSAGE(refusal(made).find(words) != std::string::npos, "expected \"", words, "\" in: ", refusal(made));
}

std::size_t steps_named(const algorithms::CheckedPlans& imported, int rank, const std::string& name) {
  const auto& names = imported.names[static_cast<std::size_t>(rank)];
  return static_cast<std::size_t>(std::count(names.begin(), names.end(), name));
}

/// The classic: one thread block per rank whose instructions add, store and pass on at once.
MscclProgram fused_ring(int ranks) {
  MscclProgram made = program("allreduce", ranks, ranks, true, false);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto chunk = [&](int behind) { return At{'i', (rank - behind + 2 * ranks) % ranks}; };
    std::vector<MscclStep> steps{step("s", chunk(0), {})};
    for (int k = 1; k < ranks - 1; ++k) steps.push_back(step("rrs", chunk(k), {}));
    steps.push_back(step("rrcs", chunk(ranks - 1), chunk(ranks - 1)));
    for (int k = 0; k < ranks - 2; ++k) steps.push_back(step("rcs", {}, chunk(k)));
    steps.push_back(step("r", {}, chunk(ranks - 2)));
    made.gpus[static_cast<std::size_t>(rank)].blocks = {
        block(0, (rank + 1) % ranks, (rank + ranks - 1) % ranks, std::move(steps))};
  }
  return made;
}

TEST_CASE("fused instructions are taken apart") {
  for (int ranks = 2; ranks <= 9; ++ranks) {
    CAPTURE(ranks);
    const algorithms::CheckedPlans imported = import_program(fused_ring(ranks));
    CHECK_MESSAGE(imported.verdict.ok(), problems(imported));
    CHECK(imported.verdict.messages == static_cast<std::size_t>(ranks * (2 * ranks - 2)));
    CHECK(imported.verdict.scratch_blocks == static_cast<std::size_t>(ranks - 2));  // what rrs passes on
    CHECK(imported.given.name == "made");
  }
  MscclProgram wrong = fused_ring(4);
  wrong.gpus[2].blocks[0].steps[1].type = "rcs";
  wrong.gpus[2].blocks[0].steps[1].dstbuf = 'i';
  wrong.gpus[2].blocks[0].steps[1].dstoff = 1;
  check_refused(wrong, "lacking rank 2");
}

/// Each of two ranks gets the other's chunks one by one into one scratch chunk.
MscclProgram one_scratch_chunk(int chunks) {
  MscclProgram made = program("allreduce", 2, chunks, true, false);
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<MscclStep> steps;
    for (int chunk = 0; chunk < chunks; ++chunk) {
      steps.push_back(step("s", {'i', chunk}, {}));
      steps.push_back(step("r", {}, {'s', 0}));
      steps.push_back(step("re", {'s', 0}, {'i', chunk}));
    }
    made.gpus[static_cast<std::size_t>(rank)].blocks = {block(0, 1 - rank, 1 - rank, std::move(steps))};
  }
  return made;
}

TEST_CASE("a scratch chunk may hold blocks of any size in turn, and chunks need not fall to ranks evenly") {
  for (const int chunks : {1, 2, 3}) {
    CAPTURE(chunks);
    const algorithms::CheckedPlans imported = import_program(one_scratch_chunk(chunks));
    CHECK_MESSAGE(imported.verdict.ok(), problems(imported));
    CHECK(imported.given.plans[0].shape.pipeline == (chunks % 2 == 0 ? chunks / 2 : chunks));
    CHECK(imported.verdict.messages == 2 * static_cast<std::size_t>(chunks));
    CHECK(imported.given.rank_order == false);
  }
}

TEST_CASE("a message whose chunks lie apart here travels in pieces") {
  MscclProgram made = program("broadcast", 2, 2, false, true);
  made.gpus[0].blocks = {block(0, 1, -1, {step("s", {'i', 1}, {}), step("s", {'i', 0}, {}, 2)}),
                         block(1, -1, -1, {step("cpy", {'i', 0}, {'o', 0}, 2)})};
  made.gpus[1].blocks = {block(0, -1, 0,
                               {step("r", {}, {'s', 0}), step("cpy", {'s', 0}, {'o', 1}), step("r", {}, {'s', 0}, 2),
                                step("cpy", {'s', 0}, {'o', 0})})};
  const algorithms::CheckedPlans imported = import_program(made);
  CHECK_MESSAGE(imported.verdict.ok(), problems(imported));
  CHECK(imported.verdict.messages == 3);
  made.root = 1;
  check_refused(made, "rank 0 thread block 1 step 0 (cpy): touches input[0], but this rank has 0 chunks");
}

/// The other's contribution goes to the output, then the own one is added from the input.
MscclProgram into_output(bool inplace) {
  MscclProgram made = program("allreduce", 2, 2, inplace, true);
  for (int rank = 0; rank < 2; ++rank)
    made.gpus[static_cast<std::size_t>(rank)].blocks = {
        block(0, 1 - rank, -1, {step("s", {'i', 0}, {}, 2)}),
        block(1, -1, 1 - rank, {step("r", {}, {'o', 0}, 2), step("re", {'i', 0}, {'o', 0}, 2)})};
  return made;
}

TEST_CASE("a program for separate buffers is made right for calls in place, one that claims both must be right") {
  const algorithms::CheckedPlans imported = import_program(into_output(false));
  CHECK_MESSAGE(imported.verdict.ok(), problems(imported));
  CHECK(steps_named(imported, 0, "copy of input put aside") == 1);
  CHECK(imported.verdict.messages == 2);
  check_refused(into_output(true),
                "rank 0 thread block 1 step 1 (reduce): writes output[0..1] while it reads input[0..1]");
}

TEST_CASE("input that a program writes becomes output or scratch") {
  MscclProgram scatter = program("reduce_scatter", 2, 2, true, false);
  MscclProgram gather = program("allgather", 2, 2, true, false);
  for (int rank = 0; rank < 2; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    const int peer = 1 - rank;
    scatter.gpus[index].blocks = {
        block(0, peer, peer,
              {step("s", {'i', peer}, {}), step("rrc", {'i', rank}, {'i', rank}),
               step("cpy", {'i', rank}, {'i', peer})})};  // of no use, but allowed: the input is its own
    gather.gpus[index].blocks = {block(0, peer, peer, {step("s", {'o', rank}, {}), step("r", {}, {'o', peer})})};
  }
  check_refused(scatter, "combines blocks of different sizes");
  for (MscclGpu& gpu : scatter.gpus) gpu.blocks[0].steps.back().srcoff = 1 - gpu.id;
  CHECK(refusal(scatter) == "");
  const algorithms::CheckedPlans gathered = import_program(gather);
  CHECK_MESSAGE(gathered.verdict.ok(), problems(gathered));
  CHECK(steps_named(gathered, 1, "copy of what stays in place") == 1);
}

TEST_CASE("messages of two channels are put in one order, unless the ends insist on different ones") {
  MscclProgram made = program("broadcast", 2, 2, true, false);
  made.gpus[0].blocks = {block(0, 1, -1, {awaited(step("s", {'o', 0}, {}))}, 0),
                         block(1, 1, -1, {step("s", {'o', 1}, {})}, 1)};
  made.gpus[1].blocks = {block(0, -1, 0, {after(step("r", {}, {'o', 0}), 1, 0)}, 0),
                         block(1, -1, 0, {awaited(step("r", {}, {'o', 1}))}, 1)};
  CHECK(refusal(made) == "");
  made.gpus[0].blocks[1].steps[0] = after(made.gpus[0].blocks[1].steps[0], 0, 0);
  check_refused(made, "rank 1 thread block 1 step 0 (r): deadlock: rank 0 thread block 0 step 0 stands before");
}

TEST_CASE("a send that waits for one that runs ahead passes once") {
  MscclProgram made = program("allgather", 2, 4, true, false);
  made.gpus[0].blocks = {block(0, 1, 1, {step("s", {'o', 0}, {}), step("r", {}, {'o', 2}, 2)}, 0),
                         block(1, 1, -1, {step("s", {'o', 1}, {})}, 1)};
  made.gpus[1].blocks = {block(0, 0, 0, {step("s", {'o', 2}, {}, 2), awaited(step("r", {}, {'o', 0}))}, 0),
                         block(1, -1, 0, {after(step("r", {}, {'o', 1}), 0, 1)}, 1)};
  const algorithms::CheckedPlans imported = import_program(made);
  CHECK_MESSAGE(imported.verdict.ok(), problems(imported));
  CHECK(imported.verdict.messages == 3);
}

TEST_CASE("a nop hands on what it waits for") {
  MscclProgram made = program("allreduce", 3, 1, true, false);
  for (int rank = 0; rank < 3; ++rank) {
    const int one = (rank + 1) % 3;
    const int two = (rank + 2) % 3;
    const char sum = rank == 2 ? 's' : 'i';
    const int at = rank == 2 ? 1 : 0;
    made.gpus[static_cast<std::size_t>(rank)].blocks = {
        block(0, one, one, {awaited(step("s", {'i', 0}, {})), awaited(step("r", {}, {'s', one % 3}))}),
        block(1, two, two, {awaited(step("s", {'i', 0}, {})), awaited(step("r", {}, {'s', two % 3}))}),
        // (0 + 1) + 2 on all ranks
        block(2, -1, -1,
              {after(step("nop", {}, {}, 0), 0, 1), after(step("re", {'s', rank == 0 ? 1 : 0}, {sum, at}), 1, 1),
               step("re", {'s', rank == 2 ? 1 : 2}, {'i', 0})})};
    made.gpus[static_cast<std::size_t>(rank)].s_chunks = 3;
  }
  CHECK(refusal(made) == "");
  for (MscclGpu& gpu : made.gpus) gpu.blocks[2].steps[0] = step("nop", {}, {}, 0);
  check_refused(made, "rank 1 thread block 2 step 2 (re): reads scratch[2] before it is written");
}

}  // namespace
}  // namespace tutti::cli::interchange
