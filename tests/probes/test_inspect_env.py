from pathlib import Path

import pytest

from ascend_doctor.findings import Level
from tests.checks.levels import remedy_of
from tests.probes.judged import judge_probes
from tests.probes.standins import ran, write_files

# What mcore-bridge has at its first line of code (src/mcore_bridge/model/modules/mtp_layer.py).
BRIDGE = {"mcore_bridge/__init__.py": "import transformer_engine\n__version__ = '1.6.1'\n"}
TORCH = {
    "torch/version.py": "cuda = None\n",
    "torch/__init__.py": "from torch import version\n"
    "class npu:\n    device_count = staticmethod(lambda: 1)\n",
}
ADAPTOR = "mindspeed/megatron_adaptor.py"


@pytest.mark.slow
def test_the_bridge_is_imported_behind_the_adaptor(tmp_path: Path) -> None:
    """The adaptor stands in for Transformer Engine; nobody needs to install NVIDIA's."""
    run = ran("inspect-env", write_files(tmp_path, {**TORCH, **BRIDGE}))
    (rank,) = run.ranks
    assert rank.values["modules"]["mcore_bridge"]["ok"] is True
    assert rank.values["modules"]["mcore_bridge"]["version"] == "1.6.1"
    assert [finding.level for finding in judge_probes(run, check="inspect-env")] == [Level.OK]


@pytest.mark.slow
def test_without_the_adaptor_nothing_advises_the_engine_of_nvidia(tmp_path: Path) -> None:
    broken = {ADAPTOR: "raise ImportError('odd')\n"}
    run = ran("inspect-env", write_files(tmp_path, {**TORCH, **BRIDGE, **broken}))
    by_title = {
        finding.title: finding
        for finding in judge_probes(run, check="inspect-env")
        if finding.level is Level.ERROR
    }
    finding = by_title["`import mcore_bridge` fails: the module transformer_engine is missing"]
    assert "mindspeed.megatron_adaptor first" in remedy_of(finding).summary
    assert remedy_of(finding).commands == ()
