from pathlib import Path

import pytest

from ascend_doctor.checks import all_checks
from ascend_doctor.findings import Level
from ascend_doctor.probe_results import ProbeRun
from tests.probes.judged import judge_probes
from tests.probes.standins import FILES, ran, write_files

pytestmark = pytest.mark.slow

PROBE = "mindspeed-patches"
CHECKS = [check.id for check in all_checks() if check.probe == PROBE]
ADAPTOR = "mindspeed/megatron_adaptor.py"
ARGS = "mindspeed/args_utils.py"
PATCHES = "mindspeed/patch_utils.py"


def run_mutant(folder: Path, file: str, old: str, new: str) -> ProbeRun:
    assert old in FILES[file]
    return ran(PROBE, write_files(folder, {file: FILES[file].replace(old, new)}))


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> ProbeRun:
    return ran(PROBE, write_files(tmp_path_factory.mktemp("good")))


@pytest.mark.parametrize("check", CHECKS)
def test_a_sound_mindspeed_has_no_complaint(good: ProbeRun, check: str) -> None:
    (finding,) = judge_probes(good, check=check)
    assert finding.level is Level.OK, finding


def test_what_is_measured(good: ProbeRun) -> None:
    (rank,) = good.ranks
    cases = rank.values["cases"]
    assert rank.values["line"] == "0.15"
    assert (cases["import"]["patches"], cases["import"]["applied"]) == (1, 1)
    assert cases["import"]["order"]["after_adaptor"] is True
    assert cases["repatch"]["changed"] == ["megatron.core.parallel_state.initialize"]
    assert cases["argv"]["taken"] == {
        "tensor_model_parallel_size": "'2'",
        "ascend_doctor_flag": "True",
    }


@pytest.mark.parametrize(
    ("check", "file", "old", "new", "observed"),
    [
        # A wrong pair: only newer Megatrons have the name.
        (
            "stack-pair",
            ADAPTOR,
            "import megatron.core.softmax,",
            (
                "from megatron.core.softmax import ProcessGroupCollection;"
                "import megatron.core.softmax,"
            ),
            "cannot import name 'ProcessGroupCollection'",
        ),
        # A wrong pair that imports.
        ("stack-pair", "megatron/core/__init__.py", "0.15.3", "0.16.1", "megatron.core 0.16.1"),
        ("stack-pair", PATCHES, "self.is_applied = True", "...", "0 of 1"),
        (
            "mindspeed-args",
            ARGS,
            "return get_mindspeed_args()",
            (
                "given = get_mindspeed_args()\n"
                "            vars(given).pop('num_experts', None)\n"
                "            return given"
            ),
            "num_experts absent",
        ),
        (
            "mindspeed-args",
            ARGS,
            "optimization_level=2",
            "optimization_level=0",
            "optimization_level 0",
        ),
        # The first call is taken for one that changes nothing.
        (
            "first-repatch",
            ADAPTOR,
            "def repatch(values):\n",
            (
                "def repatch(values):\n            return vars(args_utils.get_full_args())"
                ".update(values)\n"
            ),
            ("parallel_state.initialize: not patched, was mindspeed.megatron_adaptor.initialize"),
        ),
        # A patched method is removed and not restored.
        (
            "repatch-keeps-patches",
            ADAPTOR,
            "            patch(given)\n\n        sys",
            "            vars(given).pop('lost', None)\n\n        sys",
            (
                "Softmax.forward: megatron.core.softmax.Softmax.forward, "
                "was mindspeed.megatron_adaptor.forward"
            ),
        ),
        ("argv-leak", ARGS, "sys.argv[1:]", "sys.orig_argv[1:]", "run_cases"),
    ],
)
def test_a_mutation_is_found(
    tmp_path: Path, check: str, file: str, old: str, new: str, observed: str
) -> None:
    (finding,) = judge_probes(run_mutant(tmp_path, file, old, new), check=check)
    assert finding.level >= Level.WARNING
    assert finding.level is not Level.UNKNOWN, finding
    assert observed in finding.observed


@pytest.mark.parametrize("level", [0, 2])
def test_twinkle_that_leaves_out_patches_is_found(tmp_path: Path, level: int) -> None:
    runtime = f"""
        import argparse

        def build_mindspeed_runtime_args(config):
            return argparse.Namespace(**{{**vars(config), "optimization_level": {level}}})
        """
    line = '            yield "megatron.core.softmax'
    adaptor = FILES[ADAPTOR].replace(line, f"            if given.optimization_level:\n    {line}")
    files = {f"twinkle/{folder}__init__.py": "" for folder in ("", "model/", "model/megatron/")}
    files |= {"twinkle/model/megatron/_mindspeed_runtime.py": runtime, ADAPTOR: adaptor}
    run = ran(PROBE, write_files(tmp_path, files))
    (finding,) = judge_probes(run, check="mindspeed-args")
    assert finding.level is (Level.OK if level else Level.WARNING), finding
    assert level or finding.observed == "plain Megatron's: Softmax.forward"
    assert "twinkle" in run.ranks[0].values["cases"]


def test_twinkle_whose_arguments_cannot_be_built(tmp_path: Path) -> None:
    path = "twinkle/model/megatron/_mindspeed_runtime.py"
    (finding,) = judge_probes(ran(PROBE, write_files(tmp_path, {path: ""})), check="mindspeed-args")
    assert finding.level is Level.UNKNOWN
    assert "build_mindspeed_runtime_args" in finding.reason


@pytest.mark.parametrize("early", ["megatron.core", "megatron.core.optimizer"])
def test_an_early_import_of_megatron_is_found(tmp_path: Path, early: str) -> None:
    run = ran(PROBE, write_files(tmp_path, {"torch_npu/__init__.py": f"import {early}\n"}))
    # Every patch still counts as applied.
    assert judge_probes(run, check="stack-pair")[0].level is Level.OK
    (finding,) = judge_probes(run, check="import-order")
    assert finding.level is Level.ERROR
    assert "megatron.core was imported first at" in finding.observed
    assert "torch_npu/__init__.py:1" in finding.observed
    late = "optimizer.Adam is torch.optim.AdamW" in finding.observed
    assert late is (early == "megatron.core.optimizer")


def test_a_crash_in_one_case_leaves_the_others(tmp_path: Path) -> None:
    run = ran(PROBE, write_files(tmp_path), fault="rank=0,stage=inside again,do=segv")
    (finding,) = judge_probes(run, check="repatch-keeps-patches")
    assert "SIGSEGV" in finding.observed
    assert judge_probes(run, check="stack-pair")[0].level is Level.OK
    assert judge_probes(run, check="first-repatch")[0].level is Level.OK


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("raise ImportError('no such name\\nmore')", "ImportError: no such name"),
        ("raise SystemExit('an argument')", "SystemExit: an argument"),
    ],
)
def test_nobody_follows_where_mindspeed_cannot_be_imported(
    tmp_path: Path, text: str, reason: str
) -> None:
    run = ran(PROBE, write_files(tmp_path, {ADAPTOR: text}))
    assert run.blocks == f"MindSpeed cannot be imported: {reason}"
    (finding,) = judge_probes(run, check="stack-pair")
    assert finding.level is Level.ERROR


def test_a_failure_that_is_not_the_import_stops_nobody(tmp_path: Path) -> None:
    run = ran(PROBE, write_files(tmp_path), fault="rank=0,stage=inside import,do=raise")
    assert run.ranks[0].values["cases"]["import"]["error"]
    assert run.blocks == ""


def test_a_mindspeed_that_cannot_patch_again(tmp_path: Path) -> None:
    folder = write_files(tmp_path)
    # As in 2.1.0, whose adaptor parses the command line.
    text = (folder / ARGS).read_text() + (folder / ADAPTOR).read_text()
    (folder / ARGS).unlink()
    text = text.replace("import mindspeed.args_utils as args_utils", "")
    (folder / ADAPTOR).write_text(text.replace("args_utils.get", "get"))
    run = ran(PROBE, folder)
    assert list(run.ranks[0].values["cases"]) == ["import", "argv"]
    assert judge_probes(run, check="stack-pair")[0].level is Level.OK
    assert judge_probes(run, check="first-repatch")[0].level is Level.SKIPPED


def test_without_mindspeed_and_on_other_devices_it_is_skipped(tmp_path: Path) -> None:
    run = ran(PROBE, write_files(tmp_path), device="cpu")
    assert run.ranks[0].skipped == "MindSpeed is for NPUs; the device is cpu"
    (tmp_path / "bare" / "megatron").mkdir(parents=True)
    assert ran(PROBE, tmp_path / "bare").ranks[0].skipped == "MindSpeed is not installed"


@pytest.mark.parametrize(
    ("marks", "line"),
    [
        ({"features_manager/npu_enhancement/__init__.py": ""}, "0.17 or newer"),
        ({"core/ssm/gated_delta_net.py": ""}, "0.16"),
        ({"patch_utils.py": "import inspect  # ModelCommProcessGroups"}, "0.14"),
        ({"patch_utils.py": "inspect.isclass"}, "0.12"),
        ({"patch_utils.py": ""}, "0.12"),
    ],
)
def test_the_line_of_a_mindspeed_is_told_by_what_it_has(
    tmp_path: Path, marks: dict[str, str], line: str
) -> None:
    files = {f"mindspeed/{name}": text for name, text in marks.items()}
    assert ran(PROBE, write_files(tmp_path, files)).ranks[0].values["line"] == line
