"""Device memory seen from the host: on the simulated NPU both are the same bytes.

A host tensor made here owns nothing: it reads and writes the memory of the device tensor it was
made from, with that tensor's sizes, strides and offset.
"""

import ctypes
import mmap
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch_npu

from . import factories

CPU = torch.device("cpu")
KEPT_VIEWS = 4096
_views: dict[tuple[Any, ...], torch.Tensor] = {}
_storage_at = torch._C._construct_storage_from_data_pointer
_drain_queue = torch_npu._C._npu_getCurrentRawStream
_settle = ctypes.CDLL("libascendcl.so").sim_settle
_settle.argtypes = [ctypes.c_void_p]
_query_stream = ctypes.CDLL("libascendcl.so").aclrtStreamQuery
_query_stream.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
_COMPLETE = 0  # ACL_STREAM_STATUS_COMPLETE of acl_rt.h
_madvise = ctypes.CDLL(None).madvise
_madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_WORTH_RELEASING = 1 << 20  # bytes


def wait_for(device_index: int) -> None:
    """Return when all work queued on the device's current stream has run.

    torch_npu launches its own C++ operators and collectives from a second thread. Asking for the
    raw handle of a stream empties that thread's queue (NPUStream::stream() calls
    MakeSureQueueEmpty, torch_npu/csrc/core/npu/NPUStream.cpp); what it handed to the stream is
    then awaited. A stream in error raises what torch_npu raises when it synchronises.
    """
    if _settle(_drain_queue(device_index)):
        torch.npu.current_stream(device_index).synchronize()


def release(tensor: torch.Tensor) -> None:
    """Give back the pages under a new tensor that has no values, where nothing still reads them.

    Torch_npu's allocator hands out places that were written before. Work of other streams on them
    has ended by then; where that of the current stream has not, they are kept.
    """
    first = -(-tensor.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
    size = tensor.data_ptr() + tensor.untyped_storage().nbytes() - first
    if size < _WORTH_RELEASING:
        return
    status = ctypes.c_int(-1)
    asked = _query_stream(_drain_queue(tensor.get_device()), ctypes.byref(status))
    if not asked and status.value == _COMPLETE:
        _madvise(first, size, mmap.MADV_DONTNEED)


def host(tensor: torch.Tensor) -> torch.Tensor:
    """The CPU tensor over the memory of a device tensor.

    It is kept and handed out again for the same place and shape, as torch_npu's allocator hands
    out the same places step after step; nothing that runs on it may change its sizes.
    """
    storage = tensor.untyped_storage()
    address = (
        storage.data_ptr(), storage.nbytes(), tensor.storage_offset(), tensor.size(),
        tensor.stride(), tensor.dtype,
    )  # fmt: skip
    result = _views.get(address)
    if result is None:
        result = _view(*address)
    if tensor.is_neg():
        result = torch._neg_view(result)
    return result.conj() if tensor.is_conj() else result


def _view(
    pointer: int, size_in_bytes: int, offset: int, size: torch.Size, stride: Any, dtype: torch.dtype
) -> torch.Tensor:
    if torch.is_inference_mode_enabled():  # a view made here serves outside of it, too
        with torch.inference_mode(mode=False):
            return _view(pointer, size_in_bytes, offset, size, stride, dtype)
    if not pointer:
        return torch.empty_strided(size, stride, dtype=dtype)
    storage = _storage_at(pointer, CPU, size_in_bytes)
    view = factories.empty(0, dtype=dtype).set_(storage, offset, size, stride)
    if len(_views) >= KEPT_VIEWS:
        forget_views()
    _views[pointer, size_in_bytes, offset, size, stride, dtype] = view
    return view


def forget_views() -> None:
    _views.clear()


def upload(value: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A new device tensor with the values and, where they are dense, the strides of a CPU one."""
    plain = value.is_contiguous() and not (value.is_neg() or value.is_conj())
    if plain:
        result = factories.empty(value.size(), dtype=value.dtype, device=device)
    else:
        result = torch.empty_like(value, device=device)
    if size_in_bytes := value.nbytes:
        wait_for(result.get_device())  # the place may be one that queued work still reads or writes
        if plain:
            ctypes.memmove(result.data_ptr(), value.data_ptr(), size_in_bytes)
        else:
            host(result).copy_(value)
    return result


def make_written(
    size: Sequence[int],
    dtype: torch.dtype,
    device: torch.device,
    write: Callable[[torch.Tensor], object],
) -> torch.Tensor:
    """A new device tensor whose values ``write`` puts in place, which spares large ones a copy."""
    result = factories.empty(size, dtype=dtype, device=device)
    wait_for(result.get_device())
    write(host(result))
    return result
