"""Images with CANN that containers are built on: ``matrices/images.yaml``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec

from ascend_doctor.matrix.schema import Row, Sources

System = Literal["openeuler", "ubuntu"]
_Word = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9.+-]*$")]


class BaseImage(Row, frozen=True, kw_only=True):
    """An image by its full name. ``family`` is the chip whose kernels it has."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9._/-]*:[A-Za-z0-9._-]+$")]
    cann: str
    family: str
    os: System
    python: str
    sources: Sources


class BaseImages(Row, frozen=True, kw_only=True):
    """``packages`` are what checkouts are fetched and compiled with, by system."""

    schema: int
    note: str = ""
    packages: dict[System, tuple[_Word, ...]]
    sources: Sources
    images: tuple[BaseImage, ...]

    def of(self, system: System, *, cann: str, python: str, family: str) -> BaseImage | None:
        """The image for a stack on a chip."""
        subject = (system, cann, python, family)
        return next((image for image in self.images if _subject(image) == subject), None)

    def nearest(self, *, cann: str, family: str, python: str, system: str) -> BaseImage | None:
        """An image with this CANN for a chip, of this Python and system where there is one."""
        fitting = (image for image in self.images if (image.cann, image.family) == (cann, family))
        return max(
            fitting, key=lambda image: (image.python == python, image.os == system), default=None
        )

    def near(self, system: System, family: str) -> Iterator[str]:
        """What there is for a chip: CANN and Python of each image."""
        for image in self.images:
            if (image.os, image.family) == (system, family):
                yield f"CANN {image.cann} with Python {image.python}"


def _subject(image: BaseImage) -> tuple[str, ...]:
    return (image.os, image.cann, image.python, image.family)
