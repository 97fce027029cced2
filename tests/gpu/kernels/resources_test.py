#!/usr/bin/env python3
"""What the assembler says of the kernels: none spills, none needs a stack, and all have room as they are launched.

    resources_test.py PTXAS.log IMAGE.cc EMBEDDED.ptx ARCHITECTURES
"""

import re
import sys
import unittest

REGISTERS = 64  # of 65,536 in a multiprocessor: room for two blocks of 512 threads
IMAGE_BYTES = 1 << 20


class Resources(unittest.TestCase):
    log = image = kernels = architectures = None

    def entries(self):
        """(kernel, architecture, stack, spill stores, spill loads, registers) of each kernel and architecture."""
        return re.findall(r"Compiling entry function '(\w+)' for 'sm_(\d+)'\n(?:.*\n)*?"
                          r"\s+(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads\n"
                          r".*Used (\d+) registers", self.log)

    def test_every_kernel_is_there_for_every_architecture(self):
        found = {(name, int(architecture)) for name, architecture, *_ in self.entries()}
        self.assertEqual({architecture for _, architecture in found}, set(self.architectures))
        self.assertEqual(len(found), self.kernels * len(self.architectures))

    def test_nothing_spills_and_registers_suffice(self):
        for name, architecture, stack, stores, loads, registers in self.entries():
            with self.subTest(kernel=name, architecture=architecture):
                self.assertEqual((stack, stores, loads), ("0", "0", "0"))
                self.assertLessEqual(int(registers), REGISTERS)

    def test_the_image_is_small(self):
        self.assertLess(int(re.search(r"size = (\d+);", self.image).group(1)), IMAGE_BYTES)


if __name__ == "__main__":
    log, image, kernels, architectures = sys.argv[1:]
    with open(log, encoding="utf-8") as file:
        Resources.log = file.read()
    with open(image, encoding="utf-8") as file:
        Resources.image = file.read()
    with open(kernels, encoding="utf-8") as file:
        Resources.kernels = len(re.findall(r"\.entry ", file.read()))
    Resources.architectures = [int(word) for word in architectures.split()]
    unittest.main(argv=sys.argv[:1], verbosity=1)
