"""Python entry files: the mistakes that their syntax trees show."""

from pathlib import Path

import pytest
import yaml

from ascend_doctor.findings import Finding
from ascend_doctor.linting.inputs import walk
from tests.linting.judged import judge_text, mistakes

# ENTRY's changes by label: check and line of each report, "" for none.
CASES = yaml.safe_load(Path(__file__).with_name("entry_files.yaml").read_text())
LABELLED = {"entry-adaptor", "entry-import-order", "entry-visible-devices", "entry-cuda-device"}


def reports(path: str, content: bytes) -> list[Finding]:
    return mistakes(judge_text(path, content))


ENTRY = """\
import os

import torch
import torch_npu
import mindspeed.megatron_adaptor
from megatron.core import parallel_state


def main():
    torch.npu.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("hccl")


if __name__ == "__main__":
    main()
"""


def test_a_correct_entry_file_has_no_findings() -> None:
    assert reports("entry.py", ENTRY.encode()) == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["see"] or case["before"][:20])
def test_a_mistake_is_reported_at_its_line_and_nothing_else(case: dict[str, str]) -> None:
    assert case["before"] in ENTRY
    text = ENTRY.replace(case["before"], case["after"], 1)
    reported = [
        f"{each.check} {each.location and each.location.line}"
        for each in reports("entry.py", text.encode())
    ]
    assert reported == [see for see in [case["see"]] if see]


def test_a_rank_is_no_device_of_the_launch() -> None:
    text = ENTRY.replace('set_device(int(os.environ["LOCAL_RANK"]))', "set_device(0)").replace(
        "import torch\n",
        "os.environ['ASCEND_RT_VISIBLE_DEVICES'] = os.environ['LOCAL_RANK']\nimport torch\n",
    )
    findings = reports("entry.py", text.encode())
    assert [(each.check, each.location and each.location.line) for each in findings] == [
        ("entry-one-device", 3)
    ]


def test_a_gpu_is_chosen_only_where_it_means_an_npu() -> None:
    text = ENTRY.replace("torch.npu.set", "torch.cuda.set")
    plain = "\n".join(line for line in text.split("\n") if "mega" not in line)
    assert [each.check for each in reports("entry.py", plain.encode())] == ["entry-cuda-device"]
    assert reports("entry.py", text.encode()) == []
    patched = plain.replace("import torch_npu", "import torch_npu.contrib.transfer_to_npu")
    assert reports("entry.py", patched.encode()) == []


def test_one_device_is_right_for_a_file_without_ranks() -> None:
    alone = "import torch, torch_npu\ntorch.npu.set_device(0)\nprint(torch.ones(1).npu())\n"
    assert reports("try.py", alone.encode()) == []
    several = alone + "import torch.distributed as dist\ndist.init_process_group('hccl')\n"
    findings = reports("try.py", several.encode())
    assert [(each.check, each.location and each.location.line) for each in findings] == [
        ("entry-set-device", 2)
    ]


def test_columns_count_characters() -> None:
    text = ENTRY.replace("    torch.npu.set", '    "\u4e2d\u6587"; torch.npu.set').replace(
        'int(os.environ["LOCAL_RANK"])', "0"
    )
    assert [each.location and each.location.column for each in reports("a.py", text.encode())] == [
        11
    ]


def test_folders_give_what_may_launch(tmp_path: Path) -> None:
    for name, content in {
        "a/train.sh": "torchrun x.py",
        "a/entry.py": ENTRY,
        "a/library.py": "import torch",
        "a/notes.txt": "",
        ".git/hook.sh": "",
        "pod.yaml": "kind: Pod",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    (tmp_path / "link.sh").symlink_to(tmp_path / "a/train.sh")
    names = [str(Path(path).relative_to(tmp_path)) for path in walk([str(tmp_path)])]
    assert names == ["pod.yaml", "a/entry.py", "a/train.sh"]
