"""Groups that have members and move nothing, for any rank of any world in one process."""

from __future__ import annotations

from typing import Any

BACKEND = "members"


def pretend(torch: Any, rank: int, world_size: int) -> None:
    """Make this process that rank; every group of torch.distributed then only knows its members."""
    from torch.testing._internal.distributed.fake_pg import FakeProcessGroup, FakeStore

    dist = torch.distributed
    # torch 2.10 took the constructor away and gave this instead.
    create = getattr(FakeProcessGroup, "_create_internal", FakeProcessGroup)
    if BACKEND not in dist.Backend.backend_list:
        # MindSpeed gives every group the options of HCCL; torch's own fake backend refuses them.
        dist.Backend.register_backend(
            BACKEND,
            lambda common, _: create(common.group_rank, common.group_size),
            extended_api=True,
            devices=["cpu", "cuda", *(["npu"] if hasattr(torch, "npu") else [])],
        )
    dist.init_process_group(BACKEND, rank=rank, world_size=world_size, store=FakeStore())
