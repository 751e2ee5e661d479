"""MindSpeed-MM: the files of --mm-model that its own scripts name."""

from __future__ import annotations

from pathlib import Path

from tests.acceptance.clones import clone, git
from tests.linting.test_rl import judged, spots

COMMIT = "57069cd55a8ab16d5affe379a2e2c5f0a4d962b9"


def test_what_is_shipped_has_one_mistake(tmp_path: Path) -> None:
    """PP 2 in a script whose file lists layers of eight stages."""
    place = clone("Ascend/MindSpeed-MM")
    listed = git(place, "ls-tree", "-r", "--name-only", COMMIT).decode().split("\n")
    paths = [path for path in listed if path.endswith((".sh", ".json"))]
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(git(place, "show", f"{COMMIT}:{path}"))
    wrong: list[tuple[str, str]] = []
    unread = total = 0
    for path in paths:
        if path.endswith(".sh"):
            found = judged(tmp_path / path)
            wrong += [spot for spot in spots(found) if spot[1] == "run-mm-model"]
            total += b"--mm-model" in (tmp_path / path).read_bytes()
            unread += any("--mm-model" in one.observed for one in found)
    assert wrong == [("finetune_qwen2_5_vl_72b_lora.sh:36", "run-mm-model")]
    assert (total, unread) == (77, 8)
