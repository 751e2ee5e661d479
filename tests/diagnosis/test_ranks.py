"""The rank that failed, as launchers and programs spell it."""

import pytest

from tests.diagnosis.logs import of_text

OOM = "RuntimeError: NPU out of memory. Tried to allocate 3.47 GiB (NPU 0; 60 GiB total capacity)"
WORKER = "(RayTrainWorker pid={pid}, ip=10.0.0.{node}) "
DRIVER = "(TorchTrainer pid=9, ip=10.0.0.1) "
FILLER = "loading a shard of the data\n" * 60_000

SPELLINGS = {
    "Ray Train, rank 0's own": WORKER.format(pid=7, node=1)
    + f"Setting up process group for: env:// [rank=3, world_size=4]\n{FILLER}"
    + f"{WORKER.format(pid=7, node=1)}{OOM}\n",
    "Ray Train, the driver's": f"{DRIVER}Started distributed worker processes: \n"
    f"{DRIVER}- (node_id=ab, ip=10.0.0.1, pid=7) world_rank=0, local_rank=0, node_rank=0\n"
    f"{DRIVER}- (node_id=ab, ip=10.0.0.2, pid=7) world_rank=3, local_rank=0, node_rank=1\n"
    f"{FILLER}{WORKER.format(pid=7, node=2)}{OOM}\n",
    "Ray Train, beside the driver": "(TorchTrainer pid=9) - (ip=10.0.0.1, pid=7) world_rank=3, "
    f"local_rank=3, node_rank=0\n(RayTrainWorker pid=7) {OOM}\n",
    "Ray, a task": f"(train pid=7) starting with rank=3 world_size=4\n(train pid=7) {OOM}\n",
    "ms-swift": "(run pid=7) [INFO:swift] rank: 3, local_rank: 3, world_size: 4\n"
    f"(run pid=7) {OOM}\n",
    "Lightning in Ray": "(run pid=7) Initializing distributed: GLOBAL_RANK: 3, MEMBER: 4/4\n"
    f"(run pid=7) {OOM}\n",
    "Lightning": f"[rank: 3] {OOM}\n",
    "in front": f"[rank 3] {OOM}\n",
    "capitals in front": f"[RANK 3] {OOM}\n",
    "a word in front": f"rank 3: {OOM}\n",
}
OTHERS = {
    "a group": f"(run pid=7) dp rank=1, world_size=2\n(run pid=7) {OOM}\n",
    "another group": f"(run pid=7) tp_rank=1, world_size=2\n(run pid=7) {OOM}\n",
    "code": f"(run pid=7) init(ds, world_size=8, rank=0)\n(run pid=7) {OOM}\n",
    "another process": f"{DRIVER}- (ip=10.0.0.1, pid=8) world_rank=3, local_rank=3\n"
    f"{WORKER.format(pid=7, node=1)}{OOM}\n",
    "the driver": f"{DRIVER}- (ip=10.0.0.1, pid=8) world_rank=3, local_rank=3\n{DRIVER}{OOM}\n",
}


@pytest.mark.parametrize("text", SPELLINGS.values(), ids=SPELLINGS)
def test_the_rank_is_told(text: str) -> None:
    seen = of_text(text)
    assert seen.causes[0].ranks == (3,)
    assert seen.causes[0].evidence[0].rank == 3


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
def test_a_number_of_something_else_is_no_rank(text: str) -> None:
    assert of_text(text).causes[0].ranks == ()


def test_ranks_that_speak_only_at_the_start_are_counted() -> None:
    log = f"start\n[Rank 8] (after 1 iterations) memory (MB)\n{FILLER}{OOM}\n"
    assert of_text(log).ranks == (8,)
