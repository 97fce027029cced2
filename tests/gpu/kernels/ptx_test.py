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
