#!/usr/bin/env python3
"""Compiles kernels of GPUs by nvcc, and writes the library's into a source file, so that it has them wherever it is.

    tools/gpu_image.py image NVCC ROOT ARCHITECTURES SOURCE.cu DEPENDENCIES.d OUTPUT.cc PTXAS.log OLDEST.ptx EMBEDDED.ptx
    tools/gpu_image.py fatbin NVCC ROOT ARCHITECTURES SOURCE.cu DEPENDENCIES.d OUTPUT.fatbin
    tools/gpu_image.py none OUTPUT.cc

ARCHITECTURES is "75 80 90": compute capabilities 7.5, 8.0 and 9.0. The fatbin has machine code for each and, for GPUs that
come later, PTX of the newest that is not above 90. The other files are for tests: what the assembler says of registers
and spills, the PTX of the oldest architecture, and the embedded one. `none` writes an empty image.
"""

import array
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

# -fmad=false: a product is rounded before it is added, as on the CPU.
FLAGS = ["-std=c++20", "--expt-relaxed-constexpr", "-fmad=false", "-Werror", "all-warnings", "-Xptxas", "-v", "-fatbin",
         "-Xfatbin", "-compress-all"]
NEWEST_PTX = 90
PER_LINE = 8


def compile_kernels(nvcc, root, architectures, source, dependencies, output, log=None, oldest=None, embedded=None):
    """Returns the fatbin. `output` is what the dependencies are of."""
    numbers = sorted(int(word) for word in architectures.split())
    if not numbers:
        sys.exit("no architecture: gpu_archs is empty")
    newest = max((number for number in numbers if number <= NEWEST_PTX), default=numbers[0])
    targets = [f"-gencode=arch=compute_{number},code=sm_{number}" for number in numbers]
    targets.append(f"-gencode=arch=compute_{newest},code=compute_{newest}")
    with tempfile.TemporaryDirectory() as scratch:
        fatbin = pathlib.Path(scratch, "fatbin")
        command = [nvcc, *FLAGS, *targets, "--threads", str(os.cpu_count() or 1), "-I", root, "-MD", "-MF", dependencies,
                   "-MT", output, "--keep", "--keep-dir", scratch, "-o", str(fatbin), source]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\n{done.stdout}")
        if log:
            pathlib.Path(log).write_text(done.stdout, encoding="utf-8")
            stem = pathlib.Path(source).stem
            for number, to in ((numbers[0], oldest), (newest, embedded)):
                kept = pathlib.Path(scratch, f"{stem}.compute_{number}.ptx")
                shutil.copyfile(kept if kept.exists() else pathlib.Path(scratch, f"{stem}.ptx"), to)
        return fatbin.read_bytes()


def write_source(output, fatbin, why):
    words = array.array("Q", fatbin + bytes(-len(fatbin) % 8))
    lines = [", ".join(f"{word:#x}" for word in words[at:at + PER_LINE]) for at in range(0, len(words), PER_LINE)]
    content = ",\n    ".join(lines)
    image = f"""// Words, since a fatbin is read as such.
constexpr std::uint64_t words[] = {{
    {content}}};
constexpr std::size_t size = {len(fatbin)};
"""
    pathlib.Path(output).write_text(f"""// Made by tools/gpu_image.py.
#include "lib/compute/gpu/image.h"

#include <cstdint>

namespace tutti::compute::gpu {{
namespace {{

{image if fatbin else ""}constexpr std::string_view why = "{why}";

}}  // namespace

std::span<const std::byte> image() {{ return {"std::as_bytes(std::span{words}).first(size)" if fatbin else "{}"}; }}
std::string_view why_no_image() {{ return why; }}

}}  // namespace tutti::compute::gpu
""", encoding="utf-8")


def main():
    kind, *arguments = sys.argv[1:]
    if kind == "none":
        write_source(*arguments, b"", "this build of tutti has no kernels for GPUs, since there was no nvcc; "
                     "tools/quickstart --gpu installs it and builds with it")
    elif kind == "image":
        write_source(arguments[5], compile_kernels(*arguments), "")
    else:
        pathlib.Path(arguments[5]).write_bytes(compile_kernels(*arguments))


if __name__ == "__main__":
    main()
