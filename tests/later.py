"""Libraries that take seconds to import: a process loads them when a test first uses them."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jsonschema
    import mcp
    import xmlschema
else:

    def load_later(name: str) -> ModuleType:
        spec = importlib.util.find_spec(name)
        spec.loader = importlib.util.LazyLoader(spec.loader)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    jsonschema, mcp, xmlschema = map(load_later, ("jsonschema", "mcp", "xmlschema"))

__all__ = ["jsonschema", "mcp", "xmlschema"]
