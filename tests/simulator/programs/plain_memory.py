"""The runtime without torch: memory, streams, events and copies, for the sanitizers."""
# ruff: noqa: T201 - the test reads what it prints

from __future__ import annotations

import array
import ctypes
import math
import struct

acl = ctypes.CDLL("libascendcl.so")
ops = ctypes.CDLL("libopapi.so")
P, N, L = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64
acl.aclrtMalloc.argtypes = [ctypes.POINTER(P), N, ctypes.c_int]
acl.aclrtFree.argtypes = [P]
acl.aclrtMemcpyAsync.argtypes = [P, N, P, N, ctypes.c_int, P]
acl.aclrtMemcpy.argtypes = [P, N, P, N, ctypes.c_int]
acl.aclrtMemsetAsync.argtypes = [P, N, ctypes.c_int32, N, P]
for name in ("aclrtSynchronizeStream", "aclrtDestroyStream", "aclrtDestroyEvent"):
    getattr(acl, name).argtypes = [P]
acl.aclrtRecordEvent.argtypes = [P, P]
acl.aclrtStreamWaitEvent.argtypes = [P, P]
acl.aclrtUnmapMem.argtypes = acl.aclrtReleaseMemAddress.argtypes = [P]
acl.aclrtFreePhysical.argtypes = [P]
acl.aclrtMapMem.argtypes = [P, N, N, P, ctypes.c_uint64]
acl.aclrtReserveMemAddress.argtypes = [ctypes.POINTER(P), N, N, P, ctypes.c_uint64]
HOST_FUNCTION = ctypes.CFUNCTYPE(None, P)
acl.aclrtLaunchHostFunc.argtypes = [P, HOST_FUNCTION, P]
ops.aclCreateTensor.restype = P
ops.aclCreateTensor.argtypes = [P, N, ctypes.c_int, P, L, ctypes.c_int, P, N, P]
ops.aclnnInplaceCopyGetWorkspaceSize.argtypes = [P, P, P, P]
ops.aclnnInplaceCopy.argtypes = [P, ctypes.c_uint64, P, P]
ops.aclDestroyTensor.argtypes = [P]


def good(code: int) -> None:
    assert code == 0, code


def malloc(size: int) -> ctypes.c_void_p:
    pointer = P()
    good(acl.aclrtMalloc(ctypes.byref(pointer), size, 0))
    return pointer


class Physical(ctypes.Structure):
    _fields_ = [
        ("handle_type", ctypes.c_int),
        ("allocation_type", ctypes.c_int),
        ("attribute", ctypes.c_int),
        ("device", ctypes.c_uint32),
        ("location", ctypes.c_int),
        ("reserve", ctypes.c_uint64),
    ]


def virtual_memory() -> None:
    address, handle = P(), P()
    size = 2 << 20
    good(acl.aclrtReserveMemAddress(ctypes.byref(address), 4 * size, 0, None, 0))
    want = Physical(device=0, location=1)
    good(acl.aclrtMallocPhysical(ctypes.byref(handle), N(size), ctypes.byref(want), 0))
    good(acl.aclrtMapMem(address, size, 0, handle, 0))
    ctypes.memset(address, 5, size)
    good(acl.aclrtUnmapMem(address))
    good(acl.aclrtFreePhysical(handle))
    good(acl.aclrtReleaseMemAddress(address))


def order() -> None:
    """A callback holds one stream back; the other waits for it through an event."""
    first, second, event = P(), P(), P()
    good(acl.aclrtCreateStream(ctypes.byref(first)))
    good(acl.aclrtCreateStream(ctypes.byref(second)))
    good(acl.aclrtCreateEventExWithFlag(ctypes.byref(event), 0))
    seen: list[str] = []
    late = HOST_FUNCTION(lambda _: seen.append("late"))
    last = HOST_FUNCTION(lambda _: seen.append("last"))
    for _ in range(20):
        good(acl.aclrtLaunchHostFunc(first, late, None))
        good(acl.aclrtRecordEvent(event, first))
        good(acl.aclrtStreamWaitEvent(second, event))
        good(acl.aclrtLaunchHostFunc(second, last, None))
        good(acl.aclrtSynchronizeStream(second))
    assert seen == ["late", "last"] * 20, seen
    good(acl.aclrtDestroyEvent(event))
    good(acl.aclrtDestroyStream(first))
    good(acl.aclrtDestroyStream(second))


def tensor(
    pointer: ctypes.c_void_p, sizes: list[int], strides: list[int], kind: int
) -> ctypes.c_void_p:
    shape, step = (L * len(sizes))(*sizes), (L * len(sizes))(*strides)
    return P(ops.aclCreateTensor(shape, len(sizes), kind, step, 0, 2, shape, len(sizes), pointer))


def copy(to: ctypes.c_void_p, origin: ctypes.c_void_p) -> None:
    size, executor = ctypes.c_uint64(), P()
    places = ctypes.byref(size), ctypes.byref(executor)
    good(ops.aclnnInplaceCopyGetWorkspaceSize(to, origin, *places))
    good(ops.aclnnInplaceCopy(None, 0, executor, None))
    ops.aclDestroyTensor(to)
    ops.aclDestroyTensor(origin)
    good(acl.aclrtSynchronizeStream(None))


def convert(data: bytes, kind: int, expected: int, size: int) -> bytes:
    """Elements of one type (aclDataType) as those of another, of ``size`` bytes."""
    count = len(data) // {0: 4, 1: 2, 27: 2}[kind]
    source, target = malloc(len(data)), malloc(count * size)
    good(acl.aclrtMemcpy(source, len(data), data, len(data), 1))
    copy(tensor(target, [count], [1], expected), tensor(source, [count], [1], kind))
    out = ctypes.create_string_buffer(count * size)
    good(acl.aclrtMemcpy(out, count * size, target, count * size, 2))
    good(acl.aclrtFree(source))
    good(acl.aclrtFree(target))
    return out.raw


def half_precision() -> None:
    """Every fp16 number becomes the right float, and comes back; floats round to nearest even."""
    halves = array.array("H", range(1 << 16))
    floats = convert(halves.tobytes(), 1, 0, 4)
    for bits, value in zip(halves, struct.iter_unpack("<f", floats), strict=True):
        (expected,) = struct.unpack("<e", struct.pack("<H", bits))
        assert value[0] == expected or (math.isnan(value[0]) and math.isnan(expected)), hex(bits)
    numbers = [value for (value,) in struct.iter_unpack("<f", floats) if abs(value) < 65504]
    numbers += [value * (1 + step / 4096) for value in numbers[::7] for step in (1, 2, 3, -2)]
    numbers = [value for value in numbers if abs(value) <= 65504]
    back = convert(struct.pack(f"<{len(numbers)}f", *numbers), 0, 1, 2)
    singles = struct.unpack(f"<{len(numbers)}f", struct.pack(f"<{len(numbers)}f", *numbers))
    assert back == struct.pack(f"<{len(numbers)}e", *singles)
    brains = convert(struct.pack("<4f", 1.00390625, 1.01171875, 3.4e38, math.inf), 0, 27, 2)
    assert struct.unpack("<4H", brains) == (0x3F80, 0x3F82, 0x7F80, 0x7F80)


def converting_copy() -> None:
    """A transposed int32 (kind 3) becomes a dense bf16 (27) and then a float (0)."""
    source, middle, target = malloc(24), malloc(12), malloc(24)
    values = array.array("i", range(6))
    good(acl.aclrtMemcpy(source, 24, values.buffer_info()[0], 24, 1))
    copy(tensor(middle, [3, 2], [2, 1], 27), tensor(source, [3, 2], [1, 3], 3))
    copy(tensor(target, [3, 2], [2, 1], 0), tensor(middle, [3, 2], [2, 1], 27))
    out = array.array("f", bytes(24))
    good(acl.aclrtMemcpy(out.buffer_info()[0], 24, target, 24, 2))
    assert list(out) == [0, 3, 1, 4, 2, 5], out
    for pointer in (source, middle, target):
        good(acl.aclrtFree(pointer))


def blocks() -> None:
    held = []
    for size in (1, 511, 512, 513, 1 << 20):
        pointer = malloc(size)
        good(acl.aclrtMemsetAsync(pointer, size, 3, size, None))
        held.append(pointer)
    assert acl.aclrtMalloc(ctypes.byref(P()), 2 << 30, 0) == 207001
    for pointer in held:
        good(acl.aclrtFree(pointer))
        assert acl.aclrtFree(pointer) == 107000


good(acl.aclInit(None))
assert acl.aclrtMalloc(ctypes.byref(P()), 1, 0) == 107002  # no device is set
good(acl.aclrtSetDevice(0))
blocks()
virtual_memory()
order()
converting_copy()
half_precision()
print("ok")
