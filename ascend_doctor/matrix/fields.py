"""What objects that allocate are made of: ``matrices/fields.yaml``."""

from ascend_doctor.matrix.schema import Row, Sources


class Fields(Row, frozen=True, kw_only=True):
    """Keys of objects, by the kind of the file and two keys above (*: any), and options of sbatch.

    Their values are text, int, bool, or choices as in ``Options``.
    """

    schema: int
    objects: dict[str, dict[str, str | None]]
    sources: Sources
