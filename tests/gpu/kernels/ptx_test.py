#!/usr/bin/env python3
"""The PTX that nvcc made of the kernels, run by an interpreter (ptx.py), against the CPU's reference.

    ptx_test.py CASES_PROGRAM FILE.ptx...
"""

import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy

import ptx

THREADS = 32
BLOCKS = 2
BASE = 1 << 40  # where the kernels find their memory
ADDRESSES = 32  # inputs and outputs: the first words of the parameter
# Words of the parameter that say whom a kernel meets (Meeting in lib/compute/gpu/arguments.h), and where a rank's words lie.
PEERS, TICKETS, SLOTS, COUNT = 36, 96, 97, 98
TO_CREDIT = 8  # words


def read_cases(program):
    """Cases as (kernel, parameter, memory before, memory after)."""
    with tempfile.TemporaryDirectory() as scratch:
        file = pathlib.Path(scratch, "cases")
        subprocess.run([program, str(file)], check=True, timeout=60)
        content = file.read_bytes()
    at = 0

    def take(size):
        nonlocal at
        at += size
        return content[at - size:at]

    def take_sized():
        return take(struct.unpack("<Q", take(8))[0])

    while at < len(content):
        name, parameter, before = take_sized().decode(), take_sized(), take_sized()
        yield name, parameter, before, take(len(before))


def moved(parameter):
    """The parameter with addresses from BASE on; 0 is an input or output that is not there."""
    words = numpy.frombuffer(parameter, "u8").copy()
    words[:ADDRESSES] += numpy.where(words[:ADDRESSES] != 0, numpy.uint64(BASE), numpy.uint64(0))
    return words.tobytes()


class Ptx(unittest.TestCase):
    cases = []
    files = []

    def test_every_kernel_has_the_references_bits(self):
        for file in self.files:
            kernels = ptx.kernels_of(file.read_text())
            self.assertEqual(set(kernels), {name for name, *_ in self.cases})
            executed = set()
            for number, (name, parameter, before, after) in enumerate(self.cases):
                with self.subTest(file=file.name, kernel=name, case=number):
                    self.assertEqual(kernels[name].parameter_size, len(parameter))
                    memory = numpy.frombuffer(before, "u1").copy()
                    run = ptx.Run(kernels[name], BLOCKS, THREADS, moved(parameter), memory, BASE)
                    executed |= run.executed
                    differs = numpy.nonzero(memory != numpy.frombuffer(after, "u1"))[0]
                    self.assertEqual(len(differs), 0, f"first at byte {differs[:1]}")
            print(f"{file.name}: {len(self.cases)} runs of {len(kernels)} kernels, {len(executed)} forms of instructions")

    def test_products_are_rounded_before_they_are_added(self):
        for file in self.files:
            self.assertIsNone(re.search(r"\b(fma|mad)\.(rn|f)", file.read_text()), file)

    def meet(self, file, arrived, freed, sent, received):
        """Runs a kernel that meets two other ranks, behind whose memory all words lie. Answers whether the result is right,
        the words at the two peers, and the counters of blocks."""
        name, parameter, before, after = next(case for case in self.cases if case[0] == "tutti_sum_i32")
        words = numpy.frombuffer(moved(parameter), "u8").copy()
        begin = (len(before) + 255) // 256 * 256
        memory = numpy.zeros(begin + 4096, "u1")
        memory[:len(before)] = numpy.frombuffer(before, "u1")
        shared = memory[begin:].view("u8")
        for peer in range(2):
            own, at_peer = 32 * peer, 32 * peer + 16
            shared[own], shared[own + TO_CREDIT] = arrived[peer], freed[peer]
            words[PEERS + 4 * peer:PEERS + 4 * peer + 4] = (BASE + begin + 8 * own, BASE + begin + 8 * at_peer, sent, received)
        words[TICKETS], words[SLOTS], words[COUNT] = BASE + begin + 2048, 2, 2
        ptx.Run(ptx.kernels_of(file.read_text())[name], BLOCKS, THREADS, words.tobytes(), memory, BASE)
        return (memory[:len(after)].tobytes() == after, [(shared[16 + 32 * peer], shared[24 + 32 * peer]) for peer in range(2)],
                shared[256])

    def test_kernels_meet(self):
        for file in self.files:
            self.assertEqual(self.meet(file, (7, 8), (5, 5), 5, 7), (True, [(5, 7)] * 2, 0))
            self.assertEqual(self.meet(file, (0, 0), (1, 1), 1, 0), (True, [(1, 0)] * 2, 0))
            self.assertEqual(self.meet(file, (7, 7), (0, 0), 0, 7), (True, [(0, 7)] * 2, 0))
            largest = 2**63 - 1  # ends all waits
            self.assertEqual(self.meet(file, (largest, largest), (largest, largest), 1, 1), (True, [(1, 1)] * 2, 0))
            for arrived, freed in (((7, 6), (5, 5)), ((7, 7), (5, 4)), ((7, 7), (2, 5))):
                with self.assertRaisesRegex(ptx.Fault, "waits indefinitely"):
                    self.meet(file, arrived, freed, 5, 7)

    def test_words_are_for_all_gpus_and_the_host(self):
        for file in self.files:
            text = file.read_text()
            ordered = set(re.findall(r"\b(?:ld|st|atom|red|fence|membar)\.[\w.]*(?:acq|rel|volatile|gpu|gl\b|cta|cluster|sys)[\w.]*", text))
            self.assertEqual({name.rsplit(".", 1)[0] for name in ordered},
                             {"ld.acquire.sys", "st.release.sys", "st.relaxed.sys", "atom.acq_rel.sys.add"}, ordered)
            self.assertNotRegex(text, r"\b(red|fence|membar)\.|\bld\.global\.nc")

    def test_accesses_are_checked(self):
        kernel = ptx.kernels_of(self.files[0].read_text())["tutti_sum_i32"]
        _, parameter, before, _ = next(case for case in self.cases if case[0] == "tutti_sum_i32")
        words = numpy.frombuffer(moved(parameter), "u8").copy()
        for what, shift in (("misaligned", 2), ("outside", len(before)), ("outside", -2 * len(before))):
            wrong = words.copy()
            wrong[0] += numpy.uint64(shift % 2**64)
            with self.assertRaisesRegex(ptx.Fault, what):
                ptx.Run(kernel, BLOCKS, THREADS, wrong.tobytes(), numpy.frombuffer(before, "u1").copy(), BASE)


if __name__ == "__main__":
    Ptx.cases = list(read_cases(sys.argv[1]))
    Ptx.files = [pathlib.Path(name) for name in sys.argv[2:]]
    unittest.main(argv=sys.argv[:1], verbosity=1)
