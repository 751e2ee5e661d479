"""The variables that training with a stack needs, each with why."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ascend_doctor.errors import DoctorError
from ascend_doctor.machine.live import exists, is_directory
from ascend_doctor.provision.cann_env import CannHost, fronts, homes, is_foreign, stub
from ascend_doctor.provision.env_format import Change
from ascend_doctor.provision.lock import Lock, environment_of

_WHY = {
    "PATH": "the stack's Python and the programs of CANN first",
    "LD_LIBRARY_PATH": "the libraries of one CANN only, then those of the driver",
    "PYTHONPATH": "Megatron-LM and MindSpeed first and alone: megatron is a namespace package, "
    "and two trees of it mix; then the modules of CANN that compile operators",
    "CMAKE_PREFIX_PATH": "where builds of operators find CANN",
}
_TREES = ("megatron", "mindspeed")
_GDN = "megatron/core/ssm/gated_delta_net.py"


class StackPaths(NamedTuple):
    """What to import: checkouts by component, and the first entries of PYTHONPATH.

    ``environment`` is its Python environment's folder, None for the active one. ``settings``
    are the stack's and override the variables computed here.
    """

    checkouts: Mapping[str, str] = {}
    modules: tuple[str, ...] = ()
    environment: str | None = None
    settings: tuple[Change, ...] = ()


def stack_of(folder: Path, lock: Lock) -> StackPaths:
    def whole(path: str) -> str:
        return os.path.normpath(folder / path)

    return StackPaths(
        checkouts={checkout.name: whole(checkout.path) for checkout in lock.checkouts},
        modules=tuple(map(whole, lock.pythonpath)),
        environment=os.path.normpath(environment_of(folder, lock)),
        settings=tuple(
            Change(setting.name, setting.value, setting.why) for setting in lock.settings
        ),
    )


def variables(base: Mapping[str, str], stack: StackPaths, host: CannHost) -> list[Change]:
    """What to set, given an environment ``base`` before ``env``.

    The user's own values stay for a site's matters: time-outs, and settings of ATB. Raises
    DoctorError for a folder that a list of folders cannot hold.
    """
    settings = {
        change.name: change
        for part in (
            _lists(base, stack, host),
            _of_stack(base, stack, host),
            homes(base, host),
            _training(base, stack, host),
        )
        for change in part
    }
    for setting in stack.settings:
        if setting.name not in settings or settings[setting.name].value != setting.value:
            settings[setting.name] = setting
    return list(settings.values())


def _lists(base: Mapping[str, str], stack: StackPaths, host: CannHost) -> Iterator[Change]:
    front = {name: list(entries) for name, entries in fronts(host).items()}
    front["PYTHONPATH"] = [*stack.modules, *front.get("PYTHONPATH", ())]
    if stack.environment:
        front["PATH"] = [f"{stack.environment}/bin", *front.get("PATH", ())]
    for name, entries in front.items():
        for entry in entries:
            if ":" in entry:
                raise DoctorError(f"{entry}: {name} cannot hold a path with a colon")
        if entries:
            old = _entries_to_keep(base.get(name, ""), host)
            if name == "PYTHONPATH" and stack.modules:
                old = [entry for entry in old if not _is_tree(entry, host)]
            end = stub(host) if name == "LD_LIBRARY_PATH" else []
            once = dict.fromkeys([*entries, *old, *end])
            # Only PATH keeps an empty entry, the current folder.
            value = ":".join(entry for entry in once if entry or name == "PATH")
            yield Change(name, value, _WHY[name])


def _entries_to_keep(value: str, host: CannHost) -> list[str]:
    entries: Sequence[str] = value.split(":") if value else ()
    return [entry for entry in entries if not is_foreign(entry, host)]


def _is_tree(entry: str, host: CannHost) -> bool:
    return bool(entry) and any(is_directory(host.machine, f"{entry}/{tree}") for tree in _TREES)


def _of_stack(base: Mapping[str, str], stack: StackPaths, host: CannHost) -> Iterator[Change]:
    if stack.environment:
        if exists(host.machine, f"{stack.environment}/pyvenv.cfg"):
            yield Change("VIRTUAL_ENV", stack.environment, "the stack's Python environment")
        if "PYTHONHOME" in base:
            yield Change("PYTHONHOME", None, "it leads Python away from its environment")
    if tree := stack.checkouts.get("megatron-lm"):
        yield Change("MEGATRON_LM_PATH", tree, "ms-swift and twinkle take Megatron-LM from here")
    if twinkle := stack.checkouts.get("twinkle"):
        yield Change("TWINKLE_SRC_PATH", twinkle, "scripts around twinkle take it from here")


def _training(base: Mapping[str, str], stack: StackPaths, host: CannHost) -> Iterator[Change]:
    if tree := stack.checkouts.get("megatron-lm"):
        if not exists(host.machine, f"{tree}/{_GDN}"):
            why = "this megatron-core has no gated delta net; 1, the default, needs it"
            yield Change("USE_MCORE_GDN", "0", why)
        elif "USE_MCORE_GDN" not in base:
            why = "gated delta nets of megatron-core, the default; 0 takes those of transformers"
            yield Change("USE_MCORE_GDN", "1", why)
        why = "Megatron wants 1 for tensor and sequence parallelism; with FSDP it must not be 1"
        yield Change("CUDA_DEVICE_MAX_CONNECTIONS", "1", why)
    if host.cann is None:
        why = "there is no CANN, without which torch fails where it loads torch_npu by itself"
        yield Change("TORCH_DEVICE_BACKEND_AUTOLOAD", "0", why)
    else:
        why = "torch loads torch_npu by itself; with a 0 left in a profile there is no torch.npu"
        yield Change("TORCH_DEVICE_BACKEND_AUTOLOAD", "1", why)
    yield from _timeouts(base)


def _timeouts(base: Mapping[str, str]) -> Iterator[Change]:
    """Seconds, equal on all nodes; an existing one is the site's.

    1200 is the least of published training scripts; the others are the defaults of HCCL and
    torch_npu, of which the second must be larger
    (hicann/hccl@09300b70:docs/zh/user_guide/hccl_env,
    Ascend/pytorch@9e73e708:docs/zh/api/environment_variable).
    """
    if "HCCL_CONNECT_TIMEOUT" not in base:
        why = "seconds that ranks wait for each other at the start; training scripts use no less"
        yield Change("HCCL_CONNECT_TIMEOUT", "1200", why)
    if "HCCL_EXEC_TIMEOUT" not in base:
        why = "seconds that a collective waits for a rank; the default, for all nodes alike"
        yield Change("HCCL_EXEC_TIMEOUT", "1836", why)
    if "HCCL_EVENT_TIMEOUT" not in base:
        execute = base.get("HCCL_EXEC_TIMEOUT", "")
        # The defaults are as far apart: 1836 and 1868.
        event = int(execute) + 32 if execute.isascii() and execute.isdecimal() else 0
        why = "above HCCL_EXEC_TIMEOUT, so that the message of HCCL, which names ranks, comes first"
        yield Change("HCCL_EVENT_TIMEOUT", str(max(event, 1868)), why)
