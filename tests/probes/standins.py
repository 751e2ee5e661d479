"""Small packages that bind as Megatron, MindSpeed and torch do, and what the probes say of them."""

import functools
import os
import sys
import tempfile
import textwrap
import venv
from collections.abc import Mapping
from pathlib import Path

from ascend_doctor.probe_results import ProbeRun
from ascend_doctor.probing.schedule import plan
from tests.probes.started import launch

# megatron.core decides at import on Transformer Engine and Adam; others bind its functions by
# value. MindSpeed always patches one function, and another if a size asks for it.
FILES = {
    "torch/__init__.py": "def compile(f): return f\n",
    "torch/optim.py": "class AdamW: ...\nAdamW.__module__ = 'torch.optim'\n",
    "torch_npu/__init__.py": "",
    "megatron/core/__init__.py": "__version__ = '0.15.3'\n",
    "megatron/core/optimizer.py": """
        try:
            from apex import Adam
            USING_PYTORCH_OPTIMIZER = False
        except ImportError:
            from torch.optim import AdamW as Adam
            USING_PYTORCH_OPTIMIZER = True
        """,
    "megatron/core/jit.py": """
        import sys
        jit_fuser = getattr(sys, "fuser", None) or __import__("torch").compile
        """,
    "megatron/core/models/gpt/gpt_layer_specs.py": """
        try:
            import transformer_engine
            HAVE_TE = True
        except ImportError:
            HAVE_TE = False
        """,
    "megatron/core/parallel_state.py": "def initialize(): ...\n",
    "megatron/core/softmax.py": "class Softmax:\n    def forward(self): ...\n",
    "megatron/training/__init__.py": "",
    "mindspeed/__init__.py": "",
    "mindspeed/patch_utils.py": """
        # ModelCommProcessGroups, isclass: marks of a line
        import importlib

        class Patch:
            def __init__(self, path, new):
                self.path, self.new, self.is_applied, self.old = path, new, False, None

            def place(self):
                parts = self.path.split(".")
                for end in range(len(parts) - 1, 0, -1):
                    try:
                        owner = importlib.import_module(".".join(parts[:end]))
                    except ModuleNotFoundError:
                        continue
                    for part in parts[end:-1]:
                        owner = getattr(owner, part)
                    return owner, parts[-1]

            def apply(self):
                owner, name = self.place()
                self.old = getattr(owner, name)
                setattr(owner, name, self.new)
                self.is_applied = True

            def remove(self):
                if self.is_applied:
                    setattr(*self.place(), self.old)
                self.is_applied = False

        class MindSpeedPatchesManager:
            patches_info = {}
        """,
    "mindspeed/args_utils.py": """
        import argparse, sys
        _MINDSPEED_ARGS = None

        def get_mindspeed_args(get_defaults=False):
            global _MINDSPEED_ARGS
            if not get_defaults and _MINDSPEED_ARGS is not None:
                return _MINDSPEED_ARGS
            given = argparse.Namespace(optimization_level=2)
            words = [] if get_defaults else sys.argv[1:]
            for number, word in enumerate(words):
                if word.startswith("--"):
                    after = words[number + 1 : number + 2]
                    value = after[0] if after and not after[0].startswith("--") else True
                    setattr(given, word[2:].replace("-", "_"), value)
            if not get_defaults:
                _MINDSPEED_ARGS = given
            return given

        def get_full_args():
            return get_mindspeed_args()
        """,
    "mindspeed/megatron_adaptor.py": """
        import sys, types
        import mindspeed.args_utils as args_utils
        from mindspeed.patch_utils import MindSpeedPatchesManager, Patch

        def forward(self): ...
        def initialize(): ...
        class Adam: ...
        Adam.__module__ = "mindspeed.optimizer"

        def wanted(given):
            yield "megatron.core.softmax.Softmax.forward", forward
            if getattr(given, "context_parallel_size", 1) > 1:
                yield "megatron.core.parallel_state.initialize", initialize

        def patch(given):
            for path, new in wanted(given):
                MindSpeedPatchesManager.patches_info[path] = Patch(path, new)
                MindSpeedPatchesManager.patches_info[path].apply()

        def repatch(values):
            for one in MindSpeedPatchesManager.patches_info.values():
                one.remove()
            given = args_utils.get_full_args()
            vars(given).update(values)
            patch(given)

        sys.fuser = initialize
        sys.modules["transformer_engine"] = types.ModuleType("transformer_engine")
        sys.modules["apex"] = types.ModuleType("apex")
        sys.modules["apex"].Adam = Adam
        import megatron.core.softmax, megatron.core.parallel_state, megatron.training
        patch(args_utils.get_mindspeed_args())
        """,
}


def write_files(folder: Path, files: Mapping[str, str] = {}) -> Path:
    for name, text in {**FILES, **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), "utf-8")
    return folder


@functools.cache
def bare() -> tempfile.TemporaryDirectory[str]:
    directory = tempfile.TemporaryDirectory()
    venv.create(directory.name, with_pip=False)
    return directory


def ran(
    probe: str, *folders: Path, device: str = "npu", python: str = sys.executable, fault: str = ""
) -> ProbeRun:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    if "LD_LIBRARY_PATH" not in env:
        env["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    env["ASCEND_DOCTOR_PROBE_FAULT"] = fault
    if probe == "megatron-tree":  # it reads what is installed, and imports nothing
        python = f"{bare().name}/bin/python"
    requests = plan(3, device=device, nproc=1, python=python, env=env)
    return launch(next(request for request in requests if request.probe == probe))
