"""Calls two operators of libopapi.so as torch_npu's C++ does, on memory of the simulated device."""
# ruff: noqa: T201 - the test reads what it prints

from __future__ import annotations

import ctypes
from typing import Any

import torch
import torch_npu  # noqa: F401 - loads the library

FLOAT, INT64, BOOL = 0, 9, 12
ND = 2
lib = ctypes.CDLL("libopapi.so")
lib.aclCreateTensor.restype = ctypes.c_void_p


def tensor(values: Any, sizes: tuple[int, ...], strides: tuple[int, ...], kind: int) -> Any:
    dims = [(ctypes.c_int64 * len(sizes))(*numbers) for numbers in (sizes, strides)]
    count = ctypes.c_uint64(len(sizes))
    made = lib.aclCreateTensor(
        *(dims[0], count, kind, dims[1], ctypes.c_int64(0), ND, dims[0], count, values)
    )
    return ctypes.c_void_p(made)


def call(name: str, *arguments: Any) -> int:
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    prepare = getattr(lib, f"{name}GetWorkspaceSize")
    code = prepare(*arguments, ctypes.byref(size), ctypes.byref(executor))
    return int(code or getattr(lib, name)(None, size, executor, None))


torch.npu.set_device(0)
source, result = (ctypes.c_float * 12)(*range(1, 13)), (ctypes.c_float * 12)()
rows = tensor(source, (3, 4), (4, 1), FLOAT)
for diagonal in (0, 1, -1, 9):
    # The result stands the other way round in memory.
    target = tensor(result, (3, 4), (1, 3), FLOAT)
    code = call("aclnnTriu", rows, ctypes.c_int64(diagonal), target)
    print(code, [[int(result[3 * j + i]) for j in range(4)] for i in range(3)])
line = tensor(source, (12,), (1,), FLOAT)
print(call("aclnnTriu", line, ctypes.c_int64(0), line))
numbers, truth = (ctypes.c_int64 * 4)(0, 256, -1, 0), (ctypes.c_bool * 4)()
square = tensor(numbers, (2, 2), (2, 1), INT64)
print(call("aclnnLogicalNot", square, tensor(truth, (2, 2), (1, 2), BOOL)), [*truth])
