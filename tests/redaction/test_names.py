import functools
import os
import pathlib
import re

import click
import pytest
from click.testing import CliRunner

from ascend_doctor.commands.options import output
from ascend_doctor.facts import Environment, Host, Snapshot
from ascend_doctor.redact import Redactor, local_key, ours, redactor
from ascend_doctor.redact.shapes import SHAPES, TOKENS, Shape, fold
from ascend_doctor.render.hidden import render
from tests import samples
from tests.diagnosis.labelled import VARIABLE
from tests.redaction import drawn, forms
from tests.redaction.corpus import hidden

KEY = b"k" * 16
# Of the logs, containers and machines of users.
HOSTS = {"c77308a14bfc", "bms-aiserver-118", "n0008.dori0", "baidu-nlp.bj.bcebos.com"}
ROOT = pathlib.Path(__file__).parents[2]


def test_a_host_is_one_with_its_domain_and_without() -> None:
    text = Redactor(host="trainer-17.dc3.acme.net", key=KEY).text(
        "trainer-17 TRAINER-17 trainer-17.dc3.acme.net other.dc3.acme.net trainer-170 mytrainer-17"
    )
    names = text.split()
    assert names[0] == names[1] == names[2]
    assert names[3].startswith("host-")
    assert names[3] != names[0]
    assert names[4:] == ["trainer-170", "mytrainer-17"]


@pytest.mark.parametrize("name", ["ascend", "train", "localhost", "node", "root", "a", "77"])
def test_words_of_the_field_are_no_names(name: str) -> None:
    text = f"{name} in /usr/local/{name}/x at {name}"
    assert Redactor(host=name, logins=[name], key=KEY).text(text) == text


def test_a_login_is_found_in_paths_and_alone_but_not_inside_of_words() -> None:
    text = Redactor(logins=["chen"], key=KEY).text("/data/chen/x chen chen_tmp kitchen chens")
    assert re.fullmatch(r"/data/(user-\w{8})/x \1 \1_tmp kitchen chens", text)


def test_pseudonyms_are_stable_for_a_machine_and_differ_between_machines() -> None:
    facts = Snapshot(host=Host(name="node-7"))
    names = {redactor(facts, home="", key=key).text("node-7") for key in (KEY, KEY, b"x" * 16)}
    assert len(names) == 2
    local_key.cache_clear()
    first = local_key()
    local_key.cache_clear()
    assert local_key() == first


def test_the_key_is_not_what_it_is_made_of(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "machine-id"
    file.write_text("0123456789abcdef0123456789abcdef\n")
    monkeypatch.setattr("ascend_doctor.redact.local._IDS", (str(tmp_path / "none"), str(file)))
    local_key.cache_clear()
    first_key = local_key()
    assert first_key.hex() not in file.read_text()
    file.write_text("uninitialized\n")
    local_key.cache_clear()
    assert local_key() != first_key, "a machine without an id has a key for one process"
    local_key.cache_clear()


def test_the_examined_environment_names_its_user_and_its_machine() -> None:
    facts = Snapshot(environment=Environment(variables={"MASTER_ADDR": "headnode:29500"}))
    env = {"USER": "lchen", "SLURMD_NODENAME": "gpu0017", "HOME": "/home/lchen"}
    text = redactor(facts, home="/home/lchen", env=env, key=KEY).text(
        "lchen waits for headnode on gpu0017"
    )
    assert re.fullmatch(r"user-\w+ waits for host-\w+ on host-\w+", text)


def test_nodes_that_are_the_answer_keep_their_names() -> None:
    hidden_here = ours(visible=["node-7", "10.0.0.7"])
    text = "node-7 and 10.0.0.7; MASTER_ADDR=node-7"
    assert hidden_here.text(text) == text


@pytest.mark.parametrize(
    "shape", [*SHAPES, *TOKENS], ids=lambda shape: f"{shape.kind} {shape.pattern[:30]}"
)
def test_a_shape_is_tried_for_every_text_that_it_matches(shape: Shape) -> None:
    """A trigger that is missing would hide nothing, without a word."""
    lines = [line for line in _lines() if shape.compile_shape().search(line)]
    assert lines, "no row of the corpus has this shape"
    for line in lines:
        assert any(word in fold(line) for word in shape.triggers), line


@functools.cache
def _lines() -> tuple[str, ...]:
    files = ("hidden.yaml", "held_out.yaml")
    rows = [row.line for file in files for row in hidden(file)]
    pairs = [*forms.pairs("secrets"), *forms.pairs("identities")]
    filled = [forms.written(*pair, number) for number, pair in enumerate(pairs)]
    items = [*drawn.items("first").values()]
    listed = [text.text for texts in items for text in texts]
    return (*rows, *(text for texts in filled for text in texts), *forms.lines(), *listed)


@pytest.mark.slow
def test_real_lines_of_tools_lose_addresses_and_serial_numbers_alone() -> None:
    """What npu-smi, hccn_tool, HCCL and users' logs print, and our own rows."""
    redactor = Redactor(key=KEY)
    files = [
        *pathlib.Path(os.environ.get(VARIABLE, ROOT), "threads").glob("*.yaml"),
        *(ROOT / "matrices").rglob("*.yaml"),
    ]
    texts = [file.read_text("utf-8", "replace") for file in files if file.is_file()]
    texts += [samples.read(name) for name in samples.names()]
    lines = [line for text in texts for line in text.splitlines()]
    assert len(lines) > 10_000
    changed = [line for line in lines if redactor.text(line) != line]
    kinds = {kind for kind, _, _ in redactor.hidden}
    assert kinds <= {"address", "serial", "MAC address", "host", "user"}
    hosts = {was for kind, was, _ in redactor.hidden if kind == "host"}
    assert hosts <= {"ma-job-worker-0", "dn360", "node-0", "node-1", "word", "text", *HOSTS}
    assert len(changed) < len(lines) / 100


def test_what_was_hidden_is_listed_with_secrets_cut_short() -> None:
    redactor = Redactor(host="node-7", key=KEY)
    redactor.text("node-7 node-7 password=hunter2hunter2 10.1.2.3")
    page = render(redactor.hidden, color=False, width=100, ascii_only=True)
    assert page.startswith("3 texts hidden:\n")
    assert re.search(r"host +node-7 -> host-\w{8} \(2 x\)", page)
    assert "hunt... (14 characters) -> [redacted]" in page
    assert "hunter2hunter2" not in page
    assert re.search(r"address +10\.1\.2\.3 -> 10\.", page)


@click.command()
@output.output_options
def _show(*, output: output.Output) -> None:
    redactor = Redactor(host="node-7", key=KEY)
    redactor.text("node-7")
    output.show_hidden(redactor)


def test_the_list_needs_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = CliRunner().invoke(_show, ["--show-redacted"])
    assert refused.exit_code == 2
    assert "needs a terminal" in refused.output
    terminal = "click.testing._NamedTextIOWrapper.isatty"
    monkeypatch.setattr(terminal, lambda _: True, raising=False)
    shown = CliRunner().invoke(_show, ["--show-redacted"])
    assert shown.exit_code == 0
    assert "node-7 -> host-" in shown.output
    assert "node-7" not in CliRunner().invoke(_show, []).output
