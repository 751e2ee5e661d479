"""``ascend-doctor fleet manifest``: the check of many nodes by Kubernetes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from typing import Any

import click
import yaml

from ascend_doctor import __version__
from ascend_doctor.commands.options.node_check import (
    OnNodes,
    doctor_words,
    gang_option,
    on_nodes_options,
)
from ascend_doctor.commands.options.output import file_option, put
from ascend_doctor.fleet.manifest import (
    ManifestOptions,
    Toleration,
    ascend_job,
    chip_resources,
    init_container,
    volcano,
)

_KINDS: dict[str, Callable[[ManifestOptions], dict[str, Any]]] = {
    "volcano": volcano,
    "ascendjob": ascend_job,
    "initcontainer": init_container,
}
# RFC 1035 labels, as services want them; Volcano makes a service of a job's name.
_NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,38}[a-z0-9])?")
# Keys of annotations as Kubernetes has them: a prefix of a domain, a slash and a name.
_PAIR = re.compile(r"(?P<key>[A-Za-z0-9._/-]+)=(?P<value>[^\s=]*)")
# As `kubectl describe node` prints them; a toleration without a value or effect takes any.
_TAINT = re.compile(
    r"(?P<key>[A-Za-z0-9._/-]+)(?:=(?P<value>[A-Za-z0-9._-]*))?"
    r"(?::(?P<effect>NoSchedule|PreferNoSchedule|NoExecute))?"
)


def _pairs(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> Any:
    matches = [_PAIR.fullmatch(text) for text in texts]
    if None in matches:
        raise click.BadParameter("give KEY=VALUE")
    return tuple((match["key"], match["value"]) for match in matches if match)


def _taints(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> Any:
    matches = [_TAINT.fullmatch(text) for text in texts]
    if None in matches:
        raise click.BadParameter("give KEY[=VALUE][:EFFECT], as `kubectl describe node` shows it")
    return tuple(
        Toleration(key=match["key"], value=match["value"] or "", effect=match["effect"] or "")
        for match in matches
        if match
    )


def _name(_: click.Context, __: click.Parameter, text: str) -> str:
    if text and not _NAME.fullmatch(text):
        raise click.BadParameter(f"{text!r} is no name; small letters, digits and dashes are")
    return text


@click.command("manifest")
@click.option("--volcano", "kind", flag_value="volcano", help="A Job of Volcano, a pod a node.")
@click.option("--ascendjob", "kind", flag_value="ascendjob", help="An AscendJob of MindCluster.")
@click.option(
    "--initcontainer",
    "kind",
    flag_value="initcontainer",
    help="A pod with the gate `check --preset init` before its own work.",
)
@click.option("--image", required=True, help="Of training, with ascend-doctor in it.")
@click.option("--nodes", type=click.IntRange(1, 10_000), default=1, show_default=True, metavar="N")
@click.option("--npus", type=click.IntRange(1, 64), metavar="N", help="Of each node.")
@click.option(
    "--family",
    type=click.Choice(list(chip_resources())),
    default="ascend910b",
    show_default=True,
    help="Of the chips; decides on resource, label, NPUs and mounts.",
)
@click.option("--resource", metavar="NAME", help="Where the device plugin has another one.")
@click.option("--name", default="ascend-doctor", show_default=True, callback=_name)
@click.option("--namespace", default="", callback=_name)
@click.option("--queue", default="default", show_default=True, help="Of Volcano.")
@click.option(
    "--claim",
    default="",
    callback=_name,
    help="Volume claim for the reports.  [default: they are the pods' logs]",
)
@click.option(
    "--toleration", "tolerations", multiple=True, callback=_taints, metavar="KEY[=VALUE][:EFFECT]"
)
@click.option("--node-selector", "selectors", multiple=True, callback=_pairs, metavar="KEY=VALUE")
@click.option(
    "--annotation",
    "annotations",
    multiple=True,
    callback=_pairs,
    metavar="KEY=VALUE",
    help="Of the job, as sp-block and huawei.com/schedule_policy.",
)
@gang_option
@click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="FILE",
    help="What training sources in the image, as CANN's set_env.sh; repeatable.",
)
@click.option("--doctor", default="ascend-doctor", show_default=True, metavar="COMMAND")
@on_nodes_options
@file_option("The manifest.  [default: standard output]")
def command(  # noqa: PLR0913 - the options of the command
    *,
    kind: str | None,
    npus: int | None,
    family: str,
    resource: str | None,
    doctor: str,
    sources: tuple[str, ...],
    on_nodes: OnNodes,
    file: str | None,
    **options: Any,
) -> None:
    """Write a manifest that checks every node.

    What it names is what upstream's examples name; the comments on top say where, and how to fetch
    and merge the reports.
    """
    if kind is None:
        raise click.UsageError("give --volcano, --ascendjob or --initcontainer")
    gate = kind == "initcontainer"
    if gate and (options["nodes"] > 1 or options["gang"] or options["claim"] or _is_given("level")):
        raise click.UsageError("--initcontainer is a gate: no --nodes, --gang, --claim or --level")
    chips = chip_resources()[family]
    count = npus or chips.npus
    manifest_options = ManifestOptions(
        command=(
            *_source_lines(sources),
            *doctor_words(doctor),
            *_check(on_nodes, gate=count if gate else 0, gang=options["gang"]),
        ),
        npus=count,
        family=family,
        resource=resource or chips.resource,
        label=chips.label,
        **options,
    )
    shape = yaml.dump(_KINDS[kind](manifest_options), Dumper=_Dumper, sort_keys=False, width=100)
    text = (
        "".join(
            f"# {line}\n".replace(" \n", "\n") for line in _header_lines(kind, manifest_options)
        )
        + shape
    )
    put(file, text)


class _Dumper(yaml.SafeDumper):
    """Writes a value twice where it is there twice; anchors are for programs."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True


def _is_given(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _source_lines(files: tuple[str, ...]) -> tuple[str, ...]:
    """What stands before a command that needs the variables of files; a pod reads no profile."""
    if not files:
        return ()
    first = "".join(f"source {shlex.quote(file)} && " for file in files)
    # The command itself follows as words of the shell's, so that nothing in it is quoted again.
    return ("bash", "-c", f'{first}exec "$@"', "bash")


def _check(on_nodes: OnNodes, *, gate: int, gang: bool) -> tuple[str, ...]:
    """Of ``check`` in a pod; a gate expects as many NPUs as its pod asks for."""
    if gate:
        return ("check", "--preset", "init", "--expect", f"npus>={gate}", *on_nodes.narrowed)
    return (
        *("check", *on_nodes.words, *(("--gang",) if gang else ())),
        *("--no-redact", "--quiet", "--format", "json"),
    )


def _header_lines(kind: str, options: ManifestOptions) -> Iterator[str]:
    """What stands on top."""
    space = f" -n {options.namespace}" if options.namespace else ""
    yield f"Written by ascend-doctor {__version__}."
    yield "Shape, label, resource, ASCEND_VISIBLE_DEVICES: Ascend/mind-cluster@22bb3d98"
    yield "  docs/en/scheduling/api/ascend_job.md and docs/en/scheduling/usage/basic_scheduling/"
    yield "  03_full_npu_scheduling_and_static_vnpu_scheduling_training.md. Take the variable away"
    yield "  for virtual NPUs, and where Volcano lacks the plugin for Ascend."
    yield "Mounts: what a container needs beside what Ascend Docker Runtime gives it"
    yield "  (component/ascend-docker-runtime/build/scripts/base.list). A path that a host lacks"
    yield "  keeps its pod waiting, and `kubectl describe pod` names it: take it away where right."
    yield "Tolerations: no source names a taint of NPU nodes; --toleration adds yours."
    yield ""
    if kind == "initcontainer":
        yield "Copy initContainers and volumes into the pod of your launch, or put that into train."
        return
    label = "volcano.sh/job-name" if kind == "volcano" else "job-name"
    yield f"kubectl{space} create -f FILE"
    if options.claim:
        yield f"When every pod has ended, where the claim {options.claim} is mounted as reports:"
        yield "ascend-doctor merge reports --by-file --lists ."
        return
    yield "When every pod has ended:"
    yield "mkdir -p reports"
    yield f"for pod in $(kubectl{space} get pods -l {label}={options.name} -o name); do"
    yield f'  kubectl{space} logs "$pod" >"reports/${{pod#pod/}}.json"'
    yield "done"
    yield "ascend-doctor merge reports --lists ."
