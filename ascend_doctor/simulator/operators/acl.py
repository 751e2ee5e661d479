"""What MindSpeed asks of CANN's Python module `acl`; anything else is an AttributeError."""

import ctypes
from types import SimpleNamespace

import torch


def get_soc_name() -> str:
    name = ctypes.CDLL("libascendcl.so").aclrtGetSocName
    name.restype = ctypes.c_char_p
    return str(name().decode())


# (free bytes, all bytes, error code)
rt = SimpleNamespace(get_mem_info=lambda _: (*torch.npu.mem_get_info(), 0))
