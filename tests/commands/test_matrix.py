import json
from pathlib import Path

import pytest

from tests.conftest import Command


@pytest.mark.slow
def test_lint_of_the_shipped_matrix_finds_nothing(doctor: Command) -> None:
    done = doctor("matrix", "lint")
    assert (done.returncode, done.stdout) == (0, "")
    assert "0 problems" in done.stderr


@pytest.mark.slow
def test_lint_names_file_and_place_of_a_broken_overlay(doctor: Command, tmp_path: Path) -> None:
    (tmp_path / "components").mkdir()
    (tmp_path / "components" / "cann.yaml").write_text(
        "schema: 1\nid: cann\nreleases: [{version: 9.1}]\n"
    )
    done = doctor("matrix", "lint", "--matrix", str(tmp_path))
    assert done.returncode in {1, 2}
    assert "cann.yaml" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_list_names_the_stacks_and_their_status(doctor: Command) -> None:
    text = doctor("matrix", "list").stdout
    assert "mindspeed-core-0.15.3" in text
    assert "documented" in text
    loaded = json.loads(doctor("matrix", "list", "--format", "json").stdout)
    assert loaded["schema"] == 1
    assert "core_v0.15.3" in loaded["components"]["megatron-lm"]


@pytest.mark.slow
def test_show_gives_a_release_with_its_needs_and_sources(doctor: Command) -> None:
    text = doctor("matrix", "show", "torch-npu==2.7.1.post4").stdout
    assert "needs cann ==9.0.0 (documented together)" in text
    assert "source: Ascend/pytorch@master:COMPATIBILITY.en.md" in text
    assert "use ref core_v0.16.0" in doctor("matrix", "show", "megatron-lm").stdout
    assert "core_v0.15.3" in doctor("matrix", "show", "mindspeed-core-0.15.3").stdout


def test_why_shows_the_rows_that_bind_two(doctor: Command) -> None:
    text = doctor("matrix", "why", "mindspeed==core_r0.15.3", "cann").stdout
    assert "cann ==9.0.0" in text
    assert len(text.splitlines()) <= 10
    assert "source: " in doctor("matrix", "why", "mindspeed==core_r0.15.3", "cann", "-v").stdout
    assert doctor("matrix", "why", "torch_npu=2.9.0", "torch==2.7.1").stdout.startswith("no: ")
    assert "0.18.0 and 0.19.1rc1" in doctor("explain", "vllm-ascend==0.19.0").stdout


@pytest.mark.slow
def test_solve_finds_the_documented_stack(doctor: Command) -> None:
    done = doctor(
        "matrix", "solve", "--megatron", "0.15.3", "--framework", "ms-swift", "--anywhere"
    )
    assert done.returncode == 0
    pairs = " ".join(done.stdout.split()).replace(";", ",").split(", ")
    assert {"megatron-lm core_v0.15.3", "mindspeed core_r0.15.3"} <= {*pairs}
    assert {"torch-npu 2.7.1.post2", "cann 8.5.1"} <= {*pairs}


@pytest.mark.slow
def test_solve_says_what_rules_out_and_what_to_change(doctor: Command) -> None:
    done = doctor(
        *("matrix", "solve", "--megatron", "0.15.3", "--framework", "ms-swift"),
        *("--anywhere", "--on", "cann=8.2.RC1"),
    )
    assert done.returncode == 1
    first = done.stdout.splitlines()[0]
    assert "core_v0.15.3" in first
    assert "cann 8.2.RC1" in first
    assert "would fit: CANN 9.0.0 instead of 8.2.RC1" in done.stdout


@pytest.mark.slow
def test_solve_with_doubts_lists_what_no_document_names(doctor: Command) -> None:
    asked = ("matrix", "solve", "--megatron", "0.15.3", "--anywhere", "--on", "cann=8.2.RC1")
    strict, lenient = doctor(*asked), doctor(*asked, "--doubts")
    assert strict.returncode == 1
    assert lenient.returncode == 0
    doubts = [line for line in lenient.stdout.splitlines() if line.startswith("doubt: ")]
    assert any("is documented with cann ==9.0.0" in line for line in doubts)


def test_a_ref_that_documents_name_and_that_does_not_exist_is_explained(doctor: Command) -> None:
    done = doctor("matrix", "solve", "--megatron", "v0.16.0", "--anywhere")
    assert done.returncode == 2
    assert "use core_v0.16.0" in done.stderr


@pytest.mark.slow
def test_unknown_names_are_one_line_and_exit_2(doctor: Command) -> None:
    for arguments in (
        ("show", "no-such-thing"),
        ("why", "cann", "no-such-thing"),
        ("solve", "--megatron", "99.99", "--anywhere"),
        ("solve", "--megatron", "0.15.3", "--on", "moon=full"),
        ("list", "--matrix", "/no/such/folder"),
    ):
        done = doctor("matrix", *arguments)
        assert done.returncode == 2, arguments
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_an_overlay_adds_a_row(doctor: Command, tmp_path: Path) -> None:
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "our-site.yaml").write_text(
        "schema: 1\nid: our-site\ntitle: What we run\nstatus: verified\n"
        'components: {megatron-lm: "==core_v0.15.3", cann: "==9.0.1"}\n'
        "sources: [{url: https://wiki.example.com/stack, date: '2026-11-01'}]\n"
    )
    text = doctor("matrix", "list", "--matrix", str(tmp_path)).stdout
    assert "our-site" in text
