"""A wrong kind of file is recognised by each command that reads files, with the command for it."""

import json
import shlex
import tarfile
import zipfile
from pathlib import Path

import pytest

from ascend_doctor import cli
from ascend_doctor.machine.kinds import recognise_content
from tests.machines.compose import build

ROOT = Path(__file__).parent.parent
STORED = ROOT / "tests/stored/38bf611c"
LOG = (
    '[rank0]: Traceback (most recent call last):\n[rank0]:   File "train.py", line 1\n'
    "RuntimeError: NPU out of memory. Tried to allocate 3 GiB (NPU 0; 60 GiB)\n"
)
MODEL = {
    "model_type": "qwen3",
    "hidden_size": 1024,
    "num_attention_heads": 16,
    "vocab_size": 1000,
    "num_hidden_layers": 4,
    "intermediate_size": 3072,
}
TEXTS = {
    "train.log": LOG,
    "plog.log": "[INFO] HCCL(7,python):2026-03-01-10:00:00.000.001 [op_base.cc:1]Entry\n",
    "train.sh": "#!/bin/bash\nexport HCCL_BUFFSIZE=200\ntorchrun --nproc_per_node 8 train.py\n",
    "bare.sh": "export HCCL_BUFFSIZE=200\ntorchrun --nproc_per_node 8 train.py\n",
    "entry.py": "import torch\nimport torch_npu\n\ndist.init_process_group('hccl')\n",
    "pod.yaml": "apiVersion: v1\nkind: Pod\nspec:\n  containers: [{command: [torchrun]}]\n",
    "verl.yaml": "actor_rollout_ref:\n  model: {path: Qwen3-8B}\ntrainer:\n  n_gpus_per_node: 8\n",
    "config.json": json.dumps(MODEL),
    "site.yaml": "expect:\n- npus=8\n",
    "rank-0.jsonl": '{"format":"ascend-doctor-dump","schema":1,"rank":0}\n',
}
# What to type for each file; COMMANDS lists who takes it.
TYPED = {
    **dict.fromkeys(("report.json", "sorted.json", "cut.json", "snapshot.json"), "judge {}"),
    "fleet.json": "merge DIR",
    "diagnosis.json": "diagnose LOG --history {}",
    **dict.fromkeys(("report.sarif", "report.xml", "report.html"), "check --format json -o FILE"),
    "ascend-doctor.lock": "check --lock {}",
    "row.yaml": "matrix lint --matrix DIR",
    **dict.fromkeys(("train.log", "plog.log", "logs.tar", "logs.zip"), "diagnose {}"),
    **dict.fromkeys(("train.sh", "bare.sh", "entry.py", "pod.yaml", "verl.yaml"), "lint {}"),
    "config.json": "plan --model {}",
    "site.yaml": "check --config {}",
    "rank-0.jsonl": "compare DIR DIR",
}
SAMPLES = {"snapshot": "snapshot.json", "report": "report.json", "log": "train.log"}
LOGS = ("train.log", "plog.log", "logs.tar", "logs.zip")
LAUNCHES = ("train.sh", "bare.sh", "entry.py", "pod.yaml", "verl.yaml")
REPORTS = ("report.json", "sorted.json", "cut.json")
LOCK = ("ascend-doctor.lock",)
COMMANDS: dict[str, tuple[str, ...]] = {
    "judge {}": (*REPORTS, "snapshot.json"),
    "diff {snapshot} {}": (*REPORTS, "snapshot.json"),
    "diff {} {snapshot}": (*REPORTS, "snapshot.json"),
    "merge {}": REPORTS,
    "merge {report} --expect {}": (),
    "diagnose {}": LOGS,
    "diagnose {log} --history {}": ("diagnosis.json",),
    "lint {}": LAUNCHES,
    "plan --npus 8 --model {}": ("config.json",),
    "check -l 0 {}": ("train.sh", "bare.sh", "entry.py"),
    "check -l 0 --lock {}": LOCK,
    "check -l 0 --config {}": ("site.yaml",),
    "check -l 0 --matrix {}": (),
    "check -l 0 --replay {}": (),
    "setup --dry-run --megatron 0.15.3 --locked --lock {}": LOCK,
    "matrix upgrade --to cann=9.0.0 --lock {}": LOCK,
    "matrix show {}": (),
    "compare {} {}": (),
    "explain {}": (),
    "env --prefix {}": (),
    "run {}": ("train.sh", "bare.sh", "entry.py"),
    "fix {}": (),
    "setup {}": (),
    "snapshot {}": (),
    "{}": (),
}


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kinds")
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    report = (STORED / "report.json").read_text("utf-8")
    for name in ("report.json", "snapshot.json", "ascend-doctor.lock"):
        (folder / name).write_bytes((STORED / name).read_bytes())
    (folder / "sorted.json").write_text(json.dumps(json.loads(report), indent=1, sort_keys=True))
    (folder / "cut.json").write_text(report[:3000])
    row = next((ROOT / "matrices/stacks").iterdir())
    (folder / "row.yaml").write_bytes(row.read_bytes())
    with tarfile.open(folder / "logs.tar", "w") as tar:
        tar.add(folder / "train.log", "train.log")
    with zipfile.ZipFile(folder / "logs.zip", "w") as packed:
        packed.write(folder / "train.log", "train.log")
    source = str(folder / "report.json")
    for shape, name in (
        ("sarif", "report.sarif"),
        ("junit", "report.xml"),
        ("html", "report.html"),
    ):
        cli.run(["judge", source, "--format", shape, "-o", str(folder / name)])
    cli.run(["merge", source, "--format", "json", "-o", str(folder / "fleet.json")])
    log = str(folder / "train.log")
    cli.run(["diagnose", log, "--format", "json", "-o", str(folder / "diagnosis.json")])
    return folder


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, marks=pytest.mark.slow if "check -l" in command else ())
        for command in COMMANDS
    ],
)
def test_a_file_of_another_kind_is_refused_with_the_command_for_it(
    command: str, files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    wrong = []
    for name, typed in TYPED.items():
        if name in COMMANDS[command]:
            continue
        words = command.replace("{}", name).format(**SAMPLES)
        monkeypatch.setattr("sys.argv", ["ascend-doctor", *words.split()])
        code = cli.run(words.split())
        out, err = capsys.readouterr()
        remedy = f"`ascend-doctor {typed.format(name)}`"
        spoken = out and not command.startswith("env")  # a shell sources what env prints
        if code != 2 or spoken or err.count("\n") != 1 or remedy not in err:
            wrong.append((name, code, out[:200], err[:300]))
    assert not wrong, wrong


@pytest.mark.parametrize("command", [name for name, kinds in COMMANDS.items() if kinds])
def test_a_file_of_the_right_kind_is_not_refused(
    command: str, files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    for name in COMMANDS[command]:
        words = command.replace("{}", name).format(**SAMPLES)
        monkeypatch.setattr("sys.argv", ["ascend-doctor", *words.split()])
        cli.run(words.split())
        assert f"`ascend-doctor {TYPED[name].format(name)}`" not in capsys.readouterr().err, name


def test_a_folder_of_another_kind_is_refused_with_the_command_for_it(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = build("healthy-a2", tmp_path / "machine")
    dump = tmp_path / "dump"
    dump.mkdir()
    (dump / "rank-0.jsonl").write_bytes((files / "rank-0.jsonl").read_bytes())
    typed = {machine: f"check -l 0 --replay {machine}", dump: "compare DIR DIR"}
    for folder, remedy in typed.items():
        for command in ("judge", "merge", "diagnose", "lint"):
            assert cli.run([command, str(folder)]) == 2
            assert f"`ascend-doctor {remedy}`" in capsys.readouterr().err, command


def test_names_in_remedies_are_quoted(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = tmp_path / "a b;$(id).log"
    odd.write_bytes((files / "train.log").read_bytes())
    assert cli.run(["judge", str(odd)]) == 2
    assert f"`ascend-doctor diagnose {shlex.quote(str(odd))}`" in capsys.readouterr().err


def test_the_log_of_a_build_is_no_script() -> None:
    log = b"#6 [2/9] RUN python train.py\n#6 0.451 export X=1\n#6 DONE 20.1s\n"
    assert recognise_content(log) is None
