"""Images with CANN that containers are built on: ``matrices/images.yaml``."""

from typing import Annotated, Literal

import msgspec

from ascend_doctor.matrix.schema import Row, Sources

System = Literal["openeuler", "ubuntu"]


class BaseImage(Row, frozen=True, kw_only=True):
    """An image by its full name. ``family`` is the chip whose kernels it has."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9._/-]*:[A-Za-z0-9._-]+$")]
    cann: str
    family: str
    os: System
    python: str
    sources: Sources


class BaseImages(Row, frozen=True, kw_only=True):
    schema: int
    note: str = ""
    sources: Sources
    images: tuple[BaseImage, ...]

    def nearest(self, *, cann: str, family: str, python: str, system: str) -> BaseImage | None:
        """An image with this CANN for a chip, with this Python and system if present."""
        fitting = (image for image in self.images if (image.cann, image.family) == (cann, family))
        return max(
            fitting, key=lambda image: (image.python == python, image.os == system), default=None
        )
