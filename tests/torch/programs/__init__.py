"""Programs with torch.distributed, each of which any backend runs with the same result.

A program is a function. When it is called the default group exists, and nothing is left of other programs. It checks
what it can say about its result, and returns the result, which the test compares with that of backend gloo.
"""

import importlib
import pathlib
import sys

import torch.distributed as dist

# Some programs are examples.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "examples" / "python"))

MODULES = ("reductions", "collectives", "waiting", "messages", "groups", "gradients", "training", "objects", "sharded")


class Program:
    def __init__(self, function, ranks, gloo):
        self.function, self.ranks, self.gloo = function, ranks, gloo
        self.name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        self.__doc__ = function.__doc__

    def __call__(self):
        return self.function()


REGISTERED = []


def world():
    """This rank, and how many there are."""
    return dist.get_rank(), dist.get_world_size()


def program(ranks=2, gloo=True):
    """Registers the function: it needs so many ranks, and gloo can run it or not."""

    def register(function):
        REGISTERED.append(Program(function, ranks, gloo))
        return function

    return register


def all_programs():
    for module in MODULES:
        importlib.import_module(f"{__name__}.{module}")
    return REGISTERED
