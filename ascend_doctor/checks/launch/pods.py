"""Pods of Kubernetes that train on NPUs: resources, shared memory, images and ranks."""

import re
from collections.abc import Iterator

from ascend_doctor.facts import ContainerSpec, Pods
from ascend_doctor.judging import Case, Finding, NotApplicable, Place, Texts, quantity
from ascend_doctor.patterns import patterns_of

TEXTS = Texts("pods")

_DRIVER = "/usr/local/Ascend/driver"
_NPU, _GPU = patterns_of(__file__)
_OFFERED = (
    "huawei.com/Ascend910",
    "huawei.com/Ascend310P",
    "huawei.com/Ascend310",
    "huawei.com/npu",
)
_SHARED = "/dev/shm"  # noqa: S108 - a path in a pod


def _containers(case: Case) -> tuple[ContainerSpec, ...]:
    pods = case.facts.pods
    if pods is None:
        raise NotApplicable("no file for Kubernetes was given; `ascend-doctor lint FILE` reads one")
    return case.need(Pods).containers


def _resource(container: ContainerSpec, pattern: re.Pattern[str]) -> tuple[str, str, str]:
    """The name of a resource, its limit and its request; "" if absent."""
    paths = (path.split("/", 2) for path in sorted(container.texts))
    names = (path[2] for path in paths if path[0] == "resources" and pattern.fullmatch(path[-1]))
    name = next(names, "")
    limit, request = (
        container.texts.get(f"resources/{kind}/{name}", "") for kind in ("limits", "requests")
    )
    return name, limit, request


def _at(container: ContainerSpec, *names: str) -> Place | None:
    places = container.places
    return next((places[name] for name in (*names, "container") if name in places), None)


def _at_resource(container: ContainerSpec, name: str) -> Place | None:
    return _at(container, f"resources/limits/{name}", f"resources/requests/{name}")


def _mounts(container: ContainerSpec) -> Iterator[tuple[str, str, str]]:
    """The path of each mount, its volume, and its place without the last part."""
    for path, text in container.texts.items():
        mount, _, last = path.rpartition("/")
        if last == "mountPath":
            yield text, container.texts.get(f"{mount}/name", ""), mount


@TEXTS.check("pod-devices")
def _pod_devices(case: Case) -> Iterator[Finding]:
    for container in _containers(case):
        name, limit, request = _resource(container, _NPU)
        if name and request and limit != request:
            title = f"Requests and limits of {name} differ" if limit else f"{name} has no limit"
            where = _at(container, f"resources/requests/{name}")
            yield TEXTS.finding(
                "unequal", where, title=title, request=request, limit=limit or "none"
            )
        plugin = next((each for each in _OFFERED if name.lower() == each.lower()), name)
        if plugin != name:
            where = _at_resource(container, name)
            yield TEXTS.finding("no-plugin", where, name=name, plugin=plugin)
        gpu, limit, request = _resource(container, _GPU)
        if gpu:
            where = _at_resource(container, gpu)
            yield TEXTS.finding("gpu", where, gpu=gpu, count=limit or request)


@TEXTS.check("pod-shared-memory")
def _pod_shared_memory(case: Case) -> Iterator[Finding]:
    for container in _containers(case):
        _, limit, request = _resource(container, _NPU)
        count = limit or request
        mounted = any(path.rstrip("/") == _SHARED for path, *_ in _mounts(container))
        if count.isdecimal() and int(count[:6]) > 1 and not (mounted or container.host_ipc):
            npus = quantity(int(count[:6]), "NPU")
            yield TEXTS.finding("little-shared-memory", _at(container), npus=npus)


@TEXTS.check("pod-image")
def _pod_image(case: Case) -> Iterator[Finding]:
    for container in _containers(case):
        image = container.texts.get("image", "")
        wrong = re.search(r"[^\x21-\x7e]", image)
        if wrong:
            where, right = _at(container, "image"), image.replace("\uff1a", ":").strip()
            yield TEXTS.finding("odd-image", where, wrong=wrong[0], image_name=image, right=right)


@TEXTS.check("pod-fields")
def _pod_fields(case: Case) -> Iterator[Finding]:
    _containers(case)
    for mark in case.need(Pods).marks:
        yield TEXTS.finding(mark.rule, mark.location, text=mark.text, near=mark.near)


@TEXTS.check("pod-volumes")
def _pod_volumes(case: Case) -> Iterator[Finding]:
    for container in _containers(case):
        # A part of a pod without volumes may be merged with one that has them.
        for _, name, mount in _mounts(container) if container.volumes else ():
            if name not in container.volumes:
                yield TEXTS.finding("no-volume", _at(container, f"{mount}/name"), name=name)


@TEXTS.check("pod-driver")
def _pod_driver(case: Case) -> Iterator[Finding]:
    for container in _containers(case):
        for path, name, mount in _mounts(container):
            here, there = path.rstrip("/"), container.volumes.get(name, "").rstrip("/")
            if f"{there}/".startswith(f"{_DRIVER}/") and here != there:
                where = _at(container, f"{mount}/mountPath")
                yield TEXTS.finding("driver-elsewhere", where, here=here, there=there)
