# %% [markdown]
# # Your own ring all-reduce, beside the built-in one
#
# Four ranks hold a list of numbers each, and all four want the sum of the lists. In a *ring* every rank sends to the
# next one only. The lists are cut into four blocks. Each block goes around the ring twice: the first time it
# collects, as each rank adds its own numbers and passes it on; the second time the complete block spreads. [Lesson
# 3](../../docs/learn/03-the-ring-step-by-step.md) has the long version.
#
# Here you write this ring as a *plan*: a list of steps for each rank. A checker proves it, you see it beside the ring
# that tutti has, and the engine of tutti runs both. This needs `pytutti` and numpy.

# %%
import time

import numpy
import pytutti

# %% [markdown]
# ## Ten lines
#
# The function writes down what rank `p.rank` does, step by step. Ranks and blocks are counted around the circle: rank
# 4 is rank 0, and block -1 is block 3.


# %%
@pytutti.algorithm("all_reduce")
def my_ring(p):
    me, n = p.rank, p.ranks
    p.send(me + 1, p.input[me - 1])
    for k in range(2, n + 1):  # collect: what comes is added to mine, and goes on
        p.recv_reduce(me - 1, p.output[me - k], p.input[me - k])
        p.send(me + 1, p.output[me - k])
    for k in range(1, n):  # spread: what comes is complete, and goes on
        p.recv(me - 1, p.output[me - k])
        if k < n - 1:
            p.send(me + 1, p.output[me - k])


mine = my_ring(ranks=4)
for step in mine.steps[0]:
    print(step)

# %% [markdown]
# Nothing here says what may overlap. That is derived: step 2 sends block 2 after step 1 has added to it, so it waits
# for it.

# %%
mine.steps[0][2]

# %% [markdown]
# ## Is it right?
#
# The checker runs the steps of all ranks with *sets of ranks* in place of numbers. It proves that each contribution
# arrives exactly once, that no two steps race for a block, and that nobody waits forever. The proof holds for lists
# of any length.

# %%
print("proved:", mine.check())

# %% [markdown]
# This one has a mistake. The last rank that a block meets on its first trip should add its numbers, too, and only
# receives:


# %%
@pytutti.algorithm("all_reduce")
def forgetful_ring(p):
    me, n = p.rank, p.ranks
    p.send(me + 1, p.input[me - 1])
    for k in range(2, n + 1):
        if k < n:
            p.recv_reduce(me - 1, p.output[me - k], p.input[me - k])
        else:
            p.recv(me - 1, p.output[me - k])
        p.send(me + 1, p.output[me - k])
    for k in range(1, n):
        p.recv(me - 1, p.output[me - k])
        if k < n - 1:
            p.send(me + 1, p.output[me - k])


try:
    forgetful_ring(ranks=4).check()
except pytutti.PlanError as error:
    print(error.problems[0])

# %% [markdown]
# ## Beside the built-in one
#
# On top, who sends to whom. In the middle, time runs to the right, and an arrow is a message. Below is what each rank
# has after each step: a stripe for each rank whose numbers are in a block. Your ring is on the left.

# %%
ring = pytutti.plan("all_reduce", "ring", ranks=4)
pytutti.side_by_side(mine.draw(), ring.draw())

# %%
print("the same steps:", mine.steps == ring.steps)
print("yours:         ", mine.cost)
print("at least:      ", mine.bound)

# %% [markdown]
# What the busiest rank sends, 1.5 lists, is the least that is possible. Six steps are not: `doubling` takes two, and
# sends more.
#
# ## On a network that you do not have
#
# The same plan over 64 ranks, on hosts that 100 Gb/s connect. For 8 bytes only the number of steps counts, and the
# tree wins. For 16 MiB only the bytes count.

# %%
print("   bytes  algorithm        time")
for one in my_ring(ranks=64).simulate(["8", "64K", "16M"], network="100g", beside=["tree"]):
    print(f"{one.bytes:8}  {one.algorithm:9} {1e6 * one.seconds:10.1f} us")

# %% [markdown]
# ## Run it
#
# Now for real: four ranks, as threads of this notebook, sum an array of numpy by your plan.


# %%
def sum_of(comm):
    numbers = numpy.random.default_rng(comm.rank).integers(0, 100, 1_000_000)
    return comm.all_reduce(numbers, algorithm="my_ring")


sums = pytutti.run_threads(4, sum_of, plan_file=mine.save("my_ring.plan"))
expected = sum(numpy.random.default_rng(rank).integers(0, 100, 1_000_000) for rank in range(4))
print("all four have numpy's sum:", all(numpy.array_equal(found, expected) for found in sums))

# %% [markdown]
# ## How fast is it?
#
# The engine runs both rings alike, so they should take the same time. They take turns, and the fastest of 50 counts,
# since this machine may have other things to do.


# %%
def fastest(comm):
    numbers = numpy.ones(1_000_000, "f4")
    times = {"my_ring": [], "ring": []}
    for _ in range(50):
        for algorithm, taken in times.items():
            comm.barrier()
            begin = time.perf_counter()
            comm.all_reduce(numbers, out=numbers, op="max", algorithm=algorithm)
            taken.append(1000 * (time.perf_counter() - begin))
    return {algorithm: min(taken) for algorithm, taken in times.items()}


of_rank_0 = pytutti.run_threads(4, fastest, plan_file="my_ring.plan")[0]
for algorithm, milliseconds in of_rank_0.items():
    print(f"{algorithm:8} {milliseconds:6.2f} ms for 4 MB")

# %% [markdown]
# ## On from here
#
# - Change the ring: let the blocks run the other way, or half of them each way. The checker tells you when you are
# done.
# - `my_ring.plan` serves any program of tutti, in Python, C or C++: `TUTTI_PLAN_FILE=my_ring.plan tutti run -n 4 ...`
# - [python-plans.md](../../docs/python-plans.md) describes all that plans can do in Python.
