"""What typing a command of a remedy does to a recorded machine: on paper, nothing is started.

``EFFECTS`` is the whole table. A command that no row knows, or whose files the machine does not
have, raises ``CannotTypeError``, as a shell would complain. What a row puts in place is what the
machine's healthy base has recorded there, or what the command itself says.
"""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.machines.compose import compose, merge

Machine = dict[str, Any]
Effect = Callable[[Machine, Machine, re.Match[str]], Machine]

_SITE = "/opt/venv/lib/python3.10/site-packages"
_HERE = "/workspace"  # where the commands are typed


class CannotTypeError(AssertionError):
    """A shell or the machine would refuse this."""


def write(machine: Machine, folder: Path) -> Path:
    """A recording for ``--replay``."""
    recording, files = compose(machine)
    for path, text in files.items():
        file = folder / "root" / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    (folder / "machine.yaml").write_text(yaml.safe_dump(recording, sort_keys=False), "utf-8")
    return folder


def type_command(machine: Machine, base: Machine, command: str) -> Machine:
    """The machine after a command. Raises CannotTypeError."""
    for pattern, effect in EFFECTS:
        if match := re.fullmatch(pattern, command, re.DOTALL):
            return effect(machine, base, match)
    raise CannotTypeError(f"no effect of this is known: {command}")


def _look(machine: Machine, _: Machine, match: re.Match[str]) -> Machine:
    """Changes nothing."""
    del match
    return machine


def _answers(base: Machine) -> Machine:
    return {
        name: answer
        for name, answer in base["commands"].items()
        if name.startswith(("npu-smi", "hccn_tool"))
    }


def _put(machine: Machine, base: Machine, key: str, start: str) -> Machine:
    """The healthy machine's entries replace these."""
    gone = dict.fromkeys(name for name in machine[key] if name.startswith(start))
    return {**gone, **{name: v for name, v in base[key].items() if name.startswith(start)}}


def _source(machine: Machine, base: Machine, match: re.Match[str]) -> Machine:
    """CANN's set_env.sh: host-interfaces 2.6."""
    root = match["root"]
    root = machine["links"].get(root, root)
    if f"{root}/set_env.sh" not in machine["files"]:
        raise CannotTypeError(f"bash: {root}/set_env.sh: No such file or directory")
    paths = [f"{root}/python/site-packages", f"{root}/opp/built-in/op_impl/ai_core/tbe"]
    env = machine["env"]
    old = [part for part in env.get("PYTHONPATH", "").split(":") if part and part not in paths]
    libraries = [f"{root}/lib64", f"{root}/lib64/plugin/opskernel", f"{root}/lib64/plugin/nnengine"]
    libraries += ["/usr/local/Ascend/driver/lib64" + part for part in ("", "/common", "/driver")]
    libraries += [part for part in env.get("LD_LIBRARY_PATH", "").split(":") if part]
    interpreter = machine["interpreter"]
    rest = [part for part in interpreter["sys_path"] if part not in {*old, *paths}]
    changed = merge(
        machine,
        {
            "env": {
                **dict.fromkeys(("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"), root),
                "ASCEND_AICPU_PATH": root,
                "ASCEND_OPP_PATH": f"{root}/opp",
                "LD_LIBRARY_PATH": ":".join(libraries),
                "PYTHONPATH": ":".join([*paths, *old]),
            },
            "interpreter": {
                "sys_path": [*paths, *old, *rest],
                "importable": base["interpreter"]["importable"],
            },
        },
    )
    for name in ("te", "hccl"):
        changed["interpreter"]["packages"][name] = base["interpreter"]["packages"][name]
    return changed


def _source_nnal(machine: Machine, _: Machine, match: re.Match[str]) -> Machine:
    """NNAL's set_env.sh takes the installed torch's C++ ABI: host-interfaces 2.6."""
    if f"{match['root']}/set_env.sh" not in machine["files"]:
        raise CannotTypeError(f"bash: {match['root']}/set_env.sh: No such file or directory")
    home = f"{match['root']}/latest/atb/cxx_abi_1"
    libraries = f"{home}/lib:{machine['env'].get('LD_LIBRARY_PATH', '')}"
    return merge(machine, {"env": {"ATB_HOME_PATH": home, "LD_LIBRARY_PATH": libraries}})


def _unset(machine: Machine, _: Machine, match: re.Match[str]) -> Machine:
    names = match["names"].split()
    own = {
        part
        for name in names
        if name == "PYTHONPATH"
        for part in machine["env"].get(name, "").split(":")
    }
    paths = [part for part in machine["interpreter"]["sys_path"] if part not in own]
    return merge(machine, {"env": dict.fromkeys(names), "interpreter": {"sys_path": paths}})


def _export(machine: Machine, _: Machine, match: re.Match[str]) -> Machine:
    """``NAME=VALUE``, also before the variable's value."""
    name, before = match["name"], machine["env"].get(match["name"], "")
    value = match["value"].replace(f"${{{name}:+:${name}}}", f":{before}" if before else "")
    if "$" in value:
        raise CannotTypeError(f"what {value} becomes is not known on paper")
    (value,) = shlex.split(value) or [""]
    change: Machine = {"env": {name: value}}
    if name == "PYTHONPATH":
        new = [part for part in value.split(":") if part not in machine["interpreter"]["sys_path"]]
        change["interpreter"] = {"sys_path": [*new, *machine["interpreter"]["sys_path"]]}
    return merge(machine, change)


def _uninstall(machine: Machine, _: Machine, match: re.Match[str]) -> Machine:
    """pip removes the package and its files; of an editable one, the finder."""
    packages = machine["interpreter"]["packages"]
    change: Machine = {"files": {}, "interpreter": {"packages": {}}}
    for name in match["names"].split():
        if name not in packages:
            raise CannotTypeError(f"WARNING: Skipping {name} as it is not installed.")
        change["interpreter"]["packages"][name] = None
        module = {"megatron-core": "megatron/core"}.get(name, name.replace("-", "_"))
        change["files"] |= {f"{_SITE}/{module}/*": None, f"{_SITE}/__editable___{module}_*": None}
    return merge(machine, change)


def _install(machine: Machine, base: Machine, match: re.Match[str]) -> Machine:
    """From an index; torch's files and symbols are the healthy machine's."""
    packages = {}
    change: Machine = {"files": {}, "values": {}}
    for word in shlex.split(match["requirements"]):
        if word.startswith("-"):
            continue
        name, _, version = word.partition("==")
        known = base["interpreter"]["packages"].get(name)
        if not version and known is None:
            raise CannotTypeError(f"which {name} an index has is not known on paper")
        packages[name] = version or known
        if name == "torch":
            change["files"] = _put(machine, base, "files", f"{_SITE}/torch/")
            change["values"] = _put(machine, base, "values", f"symbols:{_SITE}/torch_npu")
    change["interpreter"] = {"packages": packages, "importable": dict.fromkeys(packages, True)}
    return merge(machine, change)


def _checkout(machine: Machine, base: Machine, match: re.Match[str]) -> Machine:
    """git has the healthy machine's folder at that branch."""
    folder = f"{_HERE}/{match['name']}"
    head = base["files"].get(f"{folder}/.git/HEAD", "")
    packed = base["files"].get(f"{folder}/.git/packed-refs", "")
    if match["ref"] not in head + packed:
        raise CannotTypeError(f"{folder} at {match['ref']} is not recorded")
    return merge(
        machine,
        {
            "files": _put(machine, base, "files", f"{folder}/"),
            "commands": {f"git status {folder}": base["commands"][f"git status {folder}"]},
        },
    )


def _editable(machine: Machine, base: Machine, match: re.Match[str]) -> Machine:
    """pip install -e: the healthy machine's finder."""
    name = match["name"].lower()
    if not any(path.startswith(f"{_HERE}/{match['name']}/") for path in machine["files"]):
        raise CannotTypeError(f"ERROR: ./{match['name']} is not a valid editable requirement.")
    package = base["interpreter"]["packages"][name]
    return merge(
        machine,
        {
            "files": _put(machine, base, "files", f"{_SITE}/__editable___{name}_"),
            "interpreter": {
                "packages": {name: package},
                "sys_path": base["interpreter"]["sys_path"],
            },
        },
    )


def _join(machine: Machine, base: Machine, match: re.Match[str]) -> Machine:
    """After the next login the group opens the devices; npu-smi answers."""
    user = machine["values"]["user"]
    group = next(
        node["gid"] for name, node in machine["nodes"].items() if name.startswith("/dev/davinci")
    )
    user = {**user, "gids": [*user["gids"], group], "groups": [*user["groups"], match["group"]]}
    tools = {name: v for name, v in _answers(base).items() if name.startswith("npu-smi")}
    devices = _put(machine, base, "nodes", "/dev/")
    return merge(machine, {"values": {"user": user}, "nodes": devices, "commands": tools})


def _by_root(machine: Machine, base: Machine, match: re.Match[str]) -> Machine:
    """Root sees the healthy machine's answers; only what is known changes."""
    only = match["only"]
    change: Machine = {"commands": {}, "values": {}}
    if "hccn-tool" in only:
        tools = {name: v for name, v in _answers(base).items() if name.startswith("hccn_tool")}
        change["commands"] = tools
    if "npu-free" in only:
        change["values"] = {"holders": {"processes": [], "complete": True}}
    return merge(machine, change)


def _reboot(machine: Machine, base: Machine, match: re.Match[str]) -> Machine:
    """The driver is loaded anew and finds every card, the remedy says; processes have ended."""
    del match
    change: Machine = {key: _put(machine, base, key, "/dev/") for key in ("nodes",)}
    change["folders"] = _put(machine, base, "folders", "/sys/bus/pci/")
    change["files"] = {
        **_put(machine, base, "files", "/sys/bus/pci/"),
        "/proc/modules": base["files"]["/proc/modules"],
    }
    gone = dict.fromkeys(name for name in machine["commands"] if name.startswith(("npu", "hccn")))
    change["commands"] = {**gone, **_answers(base)}
    return merge(machine, change)


def _kill(machine: Machine, base: Machine, match: re.Match[str]) -> Machine:
    ended = {int(pid) for pid in match["pids"].split()}
    held = machine["values"]["holders"]
    rest = [process for process in held["processes"] if process["pid"] not in ended]
    if len(rest) == len(held["processes"]):
        raise CannotTypeError("kill: no such process")
    change: Machine = {"values": {"holders": {**held, "processes": rest}}}
    if not rest:
        change["commands"] = {"npu-smi info": base["commands"]["npu-smi info"]}
    return merge(machine, change)


def _set_address(machine: Machine, base: Machine, match: re.Match[str]) -> Machine:
    """hccn_tool -s changes the device and /etc/hccn.conf."""
    name = f"hccn_tool -i {match['device']} -ip -g"
    sample = base["commands"][name]
    (recorded,) = sample["replace"].values()
    answer = {**sample, "replace": {"192.0.2.10": match["address"]}}
    if match["address"] != recorded and match["address"] not in machine["files"]["/etc/hccn.conf"]:
        raise CannotTypeError(f"{match['address']} is an address that nobody gave this device")
    return merge(machine, {"commands": {name: answer}})


def _docker_run(machine: Machine, base: Machine, match: re.Match[str]) -> Machine:  # noqa: C901
    """A container with the options' parts of the host, and the rest from the image."""
    words = shlex.split(match[0].replace("\\\n", " "))
    image = words[-1]
    if match["set"] is None and "IMAGE" in image:
        raise CannotTypeError(image)
    text = match[0]
    change: Machine = {"files": {}, "nodes": {}, "commands": {}, "values": {}}
    for option in words:
        mounted = re.fullmatch(r"(?P<path>/[^:]+):(?P=path)(?::ro)?", option)
        if mounted:
            for key in ("files", "nodes"):
                change[key] |= _put(machine, base, key, mounted["path"])
        if device := re.fullmatch(r"--device=(/dev/[\w*]+)", option):
            change["nodes"] |= _put(machine, base, "nodes", device[1])
    if "/dev/davinci[0-9]*" in text:
        change["nodes"] |= _put(machine, base, "nodes", "/dev/davinci")
    if "/usr/local/bin/npu-smi" in text:
        change["commands"] |= _answers(base)
    if "/usr/local/Ascend/driver/lib64" in text:
        change["files"] |= _put(machine, base, "files", "/etc/ld.so.conf.d/")
    if size := re.search(r"--shm-size=(\d+)g", text):
        free = int(size[1]) * 1024**3
        change["values"]["statvfs:/dev/shm"] = {"size": free, "free": free}
    if "memlock=-1" in text and "limits" in machine["values"]:
        change["values"]["limits"] = {**machine["values"]["limits"], "memlock": [-1, -1]}
    if match["set"] is None:  # an image of the matrix, with CANN and operators of its own
        cann = machine["env"]["ASCEND_HOME_PATH"]
        assert f"{cann.rpartition('-')[2]}-" in image, f"{image} has another CANN"
        change["folders"] = _put(machine, base, "folders", cann)
        change["files"] |= _put(machine, base, "files", cann)
    return merge(machine, change)


def _acknowledge(_: Machine, __: Machine, match: re.Match[str]) -> Machine:
    raise CannotTypeError(f"this hides a finding and repairs nothing: {match[0]}")


_DOCTOR = r'sudo "\$\(command -v ascend-doctor\)" check -l 0'
EFFECTS: tuple[tuple[str, Effect], ...] = (
    (r"(npu-smi info|lspci|lsmod|ls|ps|id|sudo dmesg|sudo fuser|docker ps)\b.*", _look),
    (r"sudo /usr/local/Ascend/driver/tools/hccn_tool -i \d+ -ip -g", _look),
    (r"ascend-doctor (matrix|explain|check|plan)\b[^;&|]*", _look),
    (rf"{_DOCTOR} (?P<only>(--only [\w-]+ ?)+)", _by_root),
    (r"source (?P<root>/[\w./-]+/nnal/atb)/set_env\.sh", _source_nnal),
    (r"source (?P<root>/[\w./-]+)/set_env\.sh", _source),
    (r"unset (?P<names>\w+( \w+)*)", _unset),
    (r"export (?P<name>\w+)=(?P<value>\S*)", _export),
    (r"/opt/venv/bin/python -m pip uninstall -y (?P<names>[\w -]+)", _uninstall),
    (r"/opt/venv/bin/python -m pip install -e \./(?P<name>\w+)", _editable),
    (r"/opt/venv/bin/python -m pip install (?P<requirements>[^;&|]+)", _install),
    (r"git clone --branch (?P<ref>\S+) https://\S+/(?P<name>\w+)\.git", _checkout),
    (r'sudo usermod -aG (?P<group>[\w-]+) "\$USER"', _join),
    (r"sudo reboot", _reboot),
    (r"kill (?P<pids>\d+( \d+)*)", _kill),
    (
        (
            r"sudo /usr/local/Ascend/driver/tools/hccn_tool -i (?P<device>\d+) -ip -s "
            r"address (?P<address>[\d.]+) netmask [\d.]+"
        ),
        _set_address,
    ),
    (r"(?P<set>IMAGE=\S+ )?docker run .*", _docker_run),
    (r"\[ -e ascend-doctor\.yaml \].*", _acknowledge),
)
