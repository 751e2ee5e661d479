from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.provision.request_ranges import StackRequest


def wishes(
    catalog: Catalog, megatron: str, framework: str | None = None, *additions: str
) -> dict[str, str]:
    request = StackRequest(megatron=megatron, framework=framework, additions=additions)
    return request.ranges(catalog)
