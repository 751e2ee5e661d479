"""Libraries that take seconds to import: a process loads them when a test first uses them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jsonschema
    import kubernetes_validate
    import xmlschema
else:

    class LaterModule:
        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            # pytest asks all that a test module has for _mock_name and __wrapped__.
            if name.startswith("_"):
                raise AttributeError(name)
            return getattr(importlib.import_module(self._name), name)

    jsonschema, kubernetes_validate, xmlschema = map(
        LaterModule, ("jsonschema", "kubernetes_validate", "xmlschema")
    )

__all__ = ["jsonschema", "kubernetes_validate", "xmlschema"]
