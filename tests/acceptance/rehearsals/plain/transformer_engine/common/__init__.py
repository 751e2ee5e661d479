"""What of Transformer Engine is not torch's."""

from . import recipe

__all__ = ["recipe"]
