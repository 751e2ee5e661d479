"""What differs between releases of torch, from 2.6 on: told by what is there, not by numbers."""

import inspect
from typing import Any

import torch


def override(library: Any, name: str, kernel: Any) -> None:
    """Register a kernel over another one, also one that was registered from Python.

    Up to torch 2.7 `Library.impl` has no `allow_override`; it refuses what `torch.library._impls`
    holds, and nothing else (torch/library.py of 2.7.1).
    """
    if "allow_override" in inspect.signature(library.impl).parameters:
        library.impl(name, kernel, allow_override=True)
        return
    taken = torch.library._impls  # type: ignore[attr-defined]
    taken.discard(f"{library.ns}/{name}/{library.dispatch_key}")
    library.impl(name, kernel)
