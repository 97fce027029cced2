#!/usr/bin/env python3
"""python/core.py C-FILE C.H...: writes the C of the extension module pytutti._core, which calls what these headers of
tutti declare.

What it declares to cffi is the headers themselves, without what only a preprocessor understands. So it cannot differ from
the library, and a function that is added there can be called here.
"""

import pathlib
import re
import sys

import cffi

# Called from C. The interpreter's lock is taken around each.
CALLBACKS = """
extern "Python" int32_t pytutti_question(void* context);
extern "Python" void pytutti_combine(void* accumulated, const void* operand, uint64_t count, void* context);
extern "Python" int32_t pytutti_all_gather(const void* mine, void* all, uint64_t bytes, void* context);
extern "Python" void pytutti_done(void* context);
"""

# What a call needs of a tensor of DLPack, and what finds it there (capsule.c).
TENSOR = """
typedef struct pytutti_tensor {
  void* data;
  int32_t device;
  int32_t dimensions;
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
  int32_t read_only;
  int32_t contiguous;
  uint64_t count;
} pytutti_tensor;
"""
READER = "int32_t pytutti_read_capsule(uintptr_t capsule, pytutti_tensor* tensor);\n"

SOURCE = pathlib.Path(__file__).with_name("capsule.c")


def declarations(header):
    """The header as a C parser without a preprocessor reads it."""
    text = pathlib.Path(header).read_text()
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"#ifdef __cplusplus.*?#endif", "", text, flags=re.S)
    text = re.sub(r"^#[^\n]*", "", text, flags=re.M)
    return re.sub(r"\bTUTTI_C_API\b", "", text)


def main(output, *headers):
    ffi = cffi.FFI()
    ffi.cdef("".join(map(declarations, headers)) + TENSOR + READER + CALLBACKS)
    ffi.set_source("pytutti._core", "".join(f"#include <tutti/{pathlib.Path(header).name}>\n" for header in headers) + TENSOR + SOURCE.read_text())
    ffi.emit_c_code(output)


if __name__ == "__main__":
    main(*sys.argv[1:])
