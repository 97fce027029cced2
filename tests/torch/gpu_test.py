#!/usr/bin/env python3
"""The backend with tensors of a GPU: PyTorch's part is cuda_double.cc, and the driver is tests/support/fake_cuda,
which gets the library's kernels from the same build.

    gpu_test.py FAKE_CUDA_FOLDER LIBRARY     the second is libtutti.a, of which the double uses the driver's functions
"""

import importlib.util
import os
import pathlib
import subprocess
import sys
import sysconfig
import unittest

import torch
from backend_cases import gpu, gpu_ends  # noqa: F401, their cases
from world import World

FOLDER, LIBRARY = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
KERNELS = FOLDER.parent.parent / "gpu" / "libkernels_on_fake.so"
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def build_double():
    from torch.utils import cpp_extension

    output = pathlib.Path(os.environ["PYTUTTI_CACHE"]) / "cuda_double.so"
    flags = [f"-isystem{folder}" for folder in [*cpp_extension.include_paths(), sysconfig.get_path("include")]]
    flags += [f"-L{folder}" for folder in cpp_extension.library_paths()]
    subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-O1", "-fPIC", "-shared", "-fvisibility=hidden",
                    "-DTORCH_EXTENSION_NAME=cuda_double", "-DTORCH_API_INCLUDE_EXTENSION_H", f"-I{ROOT}",
                    f"-I{ROOT}/lib/include", str(pathlib.Path(__file__).with_name("cuda_double.cc")), "-o", str(output),
                    *flags, str(LIBRARY), "-lfmt", "-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"], check=True)
    spec = importlib.util.spec_from_file_location("cuda_double", output)
    double = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(double)
    torch.cuda.get_device_capability = lambda device=None: (8, 0)  # PyTorch asks in broadcast(); this one has no CUDA
    return double


class Gpu(World):
    """The schedule is when the GPU does what it was given: late, or at random."""

    def on_gpu(self, *names, mode="staged", schedule="lazy", queues=8, **how):
        environment = {"FAKE_CUDA_SCHEDULE": schedule, "TUTTI_GPU_MODE": mode, "LD_LIBRARY_PATH": str(FOLDER),
                       "CUDA_DEVICE_MAX_CONNECTIONS": str(queues)}  # streams that share a queue hold back each other
        return self.world(*names, environment=environment, **how)

    def test_calls(self):
        for mode in ("staged", "streams"):
            for schedule in ("lazy", "random:1"):
                with self.subTest(mode=mode, schedule=schedule):
                    self.on_gpu("gpu_collectives", "gpu_views", "gpu_memory_is_kept", "gpu_wait_does_not_block",
                                "gpu_streams", "gpu_sharded", "gpu_scaled", "gpu_futures", "gpu_messages",
                                "gpu_barrier", "gpu_wrong_calls", mode=mode, schedule=schedule)

    def test_two(self):
        self.on_gpu("gpu_collectives", "gpu_messages", "gpu_barrier", size=2)

    def test_lanes(self):
        for mode in ("staged", "streams"):
            with self.subTest(mode):
                self.on_gpu("gpu_lanes", mode=mode, size=2, queues=64)

    def test_graphs(self):
        for schedule in ("lazy", "eager", "random:2"):
            with self.subTest(schedule):
                self.on_gpu("gpu_graphs", mode="streams", schedule=schedule)

    def test_ends(self):
        for mode in ("staged", "streams"):
            for schedule in ("lazy", "eager"):
                with self.subTest(mode=mode, schedule=schedule):
                    how = {"mode": mode, "schedule": schedule, "size": 2}
                    self.on_gpu("gpu_destroyed_after_wait", "gpu_destroying_is_interrupted", "gpu_ends_after_wait", **how)
                    self.on_gpu("gpu_fails_after_wait", **how)
                    self.on_gpu("gpu_ends_after_wait_in_split_group", **how)

    def test_killed(self):
        for mode in ("staged", "streams"):
            with self.subTest(mode=mode):
                self.on_gpu("gpu_killed", mode=mode, killed=2)

    def test_none(self):
        self.world("gpu_none", size=1, environment={"CUDA_VISIBLE_DEVICES": ""})


if __name__ == "__main__":
    loaded = {"LD_LIBRARY_PATH": str(FOLDER), "LD_PRELOAD": str(KERNELS)}  # which are read when a process begins
    if not loaded.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **loaded})
    gpu.double = build_double()
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
