#!/usr/bin/env python3
"""The backend `tutti` of torch.distributed: every call, with every type, and the ends of process groups."""

import os
import re
import unittest

from backend_cases import asynchronous, data, ends, forms, groups, users  # noqa: F401, their cases
from world import World


class Backend(World):
    def test_data(self):
        self.world("reductions", "booleans", "halves_of_complex_numbers", "averages", "moves")

    def test_forms(self):
        self.world("non_contiguous", "not_copied_by_pytorch", "lists_in_one_piece", "lists_over_the_other_side", "barrier_of_devices", "unequal", "empty", "coalesced", "left_region", "objects",
                   "messages")

    def test_asynchronous(self):
        self.world("futures", "callbacks_that_call", "callbacks_that_wait", "dropped", "from_threads", "wait_with_limit")

    def test_groups(self):
        self.world("sub_groups", "several_worlds", "timeouts_below_a_millisecond", "not_reconfigured", "monitored", "monitored_by_some", "wrong_calls", "information")

    def test_wrong_variable_of_one(self):
        self.world("wrong_variable_of_one")

    def test_bound_to_a_device(self):
        self.world("bound_to_a_device")

    def test_beside_accelerators(self):
        self.world("beside_accelerators")

    def test_users(self):
        self.world("profiler", "functional", "data_parallel")

    def test_detail(self):
        self.world("futures", "messages", "unequal", "objects", "callbacks_that_call",
                   environment={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"})

    def test_over_tcp(self):
        self.world("reductions", "non_contiguous", "messages", "dropped", environment={"TUTTI_TRANSPORT": "tcp"})

    def test_killed(self):
        """Soon; something else may delay a process, so that there are several attempts."""
        for _ in range(5):
            said = self.world("killed", killed=2)[:2]
            times = [float(re.search("after ([0-9.]+) s", text).group(1)) for text in said]
            busy = os.getloadavg()[0] > os.cpu_count()  # then a rank that spins may learn late
            if max(times) < (10 if busy else 1):
                return
        self.fail(f"it took the survivors {times} s to learn of the kill, in each attempt")

    def test_killed_amid_futures(self):
        self.world("killed_amid_futures", killed=2)

    def test_ends(self):
        for name in ("too_slow", "aborted", "shut_down_in_a_call", "without_end", "begun_again", "begun_in_vain", "forked", "begun_in_a_child",
                     "destroyed_by_a_handler"):
            with self.subTest(name):
                self.world(name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
