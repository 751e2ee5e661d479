"""What MindSpeed asks of CANN's Python module `acl`; anything else is an AttributeError."""

import ctypes
from types import SimpleNamespace

import torch


def get_soc_name() -> str:
    name = ctypes.CDLL("libascendcl.so").aclrtGetSocName
    name.restype = ctypes.c_char_p
    return str(name().decode())


def _mem_info(_kind: int) -> tuple[int, int, int]:
    """(free bytes, all bytes, error code)."""
    return (*torch.npu.mem_get_info(), 0)


rt = SimpleNamespace(get_mem_info=_mem_info)
