"""Pods of Kubernetes that train on NPUs: resources, shared memory, images and ranks."""

import re
from collections.abc import Iterator

from ascend_doctor.errors import NotApplicable
from ascend_doctor.facts import ContainerSpec, Pods
from ascend_doctor.findings import Finding, Place, Remedy, quantity
from ascend_doctor.judging.judge import Case, check, error, warning

_EQUAL = "https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/"
_DEVICE_PLUGIN = (
    "https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/"
)
_EXAMPLES = (
    "Ascend/mind-cluster@22bb3d98:tests/st/testcases/basic_schedule/training_910b/"
    "resources_0001/job_llama-1x8.yaml"
)
_VOLUMES = "https://kubernetes.io/docs/concepts/storage/volumes/"
_DRIVER = "/usr/local/Ascend/driver"
_IMAGE = "https://pkg.go.dev/github.com/distribution/reference"
# Ascend Device Plugin's resource names, with or without the chip.
_NPU = re.compile(r"huawei\.com/(?:Ascend\w*|npu)", re.IGNORECASE)
_GPU = re.compile(r"(?:nvidia|amd)\.com/\w+")
_SHARED = "/dev/shm"  # noqa: S108 - a path in a pod


def _containers(case: Case) -> tuple[ContainerSpec, ...]:
    pods = case.facts.pods
    if pods is None:
        raise NotApplicable("no file for Kubernetes was given; `ascend-doctor lint FILE` reads one")
    return case.need(Pods).containers


def _resource(container: ContainerSpec, pattern: re.Pattern[str]) -> str:
    names = (*container.limits, *container.requests)
    return next((name for name in names if pattern.fullmatch(name)), "")


def _at(container: ContainerSpec, *names: str) -> Place | None:
    places = container.places
    return next((places[name] for name in (*names, "container") if name in places), None)


@check("pod-devices", "Pods ask for NPUs as Kubernetes counts them", scope="pod")
def pod_devices(case: Case) -> Iterator[Finding]:
    """Resources of a device plugin are counted by limits; requests, where given, are the same.

    The API server refuses a pod whose requests and limits of one differ. A pod that asks for
    nvidia.com/gpu gets no NPU: it stays Pending where there is no GPU.
    """
    for container in _containers(case):
        name = _resource(container, _NPU)
        limit, request = container.limits.get(name, ""), container.requests.get(name, "")
        if name and request and limit != request:
            yield error(
                f"Requests and limits of {name} differ" if limit else f"{name} has no limit",
                observed=f"requests {request}, limits {limit or 'none'}",
                required="the same number in both",
                because="Kubernetes refuses the pod: devices cannot be overcommitted.",
                refs=(_DEVICE_PLUGIN, _EQUAL),
                location=_at(container, f"requests/{name}"),
            )
        gpu = _resource(container, _GPU)
        if gpu:
            yield warning(
                f"The container asks for {gpu}",
                observed=f"{gpu}: {container.limits.get(gpu) or container.requests.get(gpu)}",
                required="the resource of the NPUs, such as huawei.com/Ascend910",
                because="Nodes with NPUs do not offer it, so that the pod stays Pending.",
                refs=(_EXAMPLES,),
                location=_at(container, f"limits/{gpu}", f"requests/{gpu}"),
            )


@check("pod-shared-memory", "Pods on several NPUs have shared memory", scope="pod")
def pod_shared_memory(case: Case) -> Iterator[Finding]:
    """Data loaders and Ray hand tensors on through /dev/shm, of which a container has 64 MiB.

    A volume in memory at /dev/shm, or the host's by hostIPC, lifts the limit. Without it workers
    of a data loader die of bus errors.
    """
    for container in _containers(case):
        name = _resource(container, _NPU)
        count = container.limits.get(name) or container.requests.get(name) or ""
        mounted = any(path.rstrip("/") == _SHARED for path in container.mounts)
        if name and count.isdecimal() and int(count[:6]) > 1 and not mounted:
            if container.host_ipc:
                continue
            yield warning(
                f"A container with {quantity(int(count[:6]), 'NPU')} has 64 MiB of shared memory",
                observed="no volume at /dev/shm, no hostIPC",
                required="an emptyDir with `medium: Memory` mounted at /dev/shm",
                because="Data loaders with workers fail with bus errors.",
                remedy=Remedy(summary="Mount a volume in memory at /dev/shm"),
                refs=("https://kubernetes.io/docs/concepts/storage/volumes/#emptydir", _EXAMPLES),
                location=_at(container),
            )


@check("pod-image", "Names of images are valid", scope="pod")
def pod_image(case: Case) -> Iterator[Finding]:
    """A name of an image has letters, digits and . _ - / : @ of ASCII, and no blanks.

    A full-width colon before the tag, as Chinese input methods write it, gives InvalidImageName.
    """
    for container in _containers(case):
        wrong = re.search(r"[^\x21-\x7e]", container.image)
        if wrong:
            yield error(
                f"{wrong.group()!r} does not belong in the name of an image",
                observed=container.image,
                required=container.image.replace("\uff1a", ":").strip(),
                because="The pod ends as InvalidImageName.",
                refs=(_IMAGE,),
                location=_at(container, "image"),
            )


@check("pod-ranks", "A pod has an NPU for every rank", scope="pod")
def pod_ranks(case: Case) -> Iterator[Finding]:
    """Torchrun's nproc_per_node is at most the number of NPUs that the container asks for.

    A rank without a device stops at set_device (107001).
    """
    for container in _containers(case):
        name = _resource(container, _NPU)
        count = container.limits.get(name) or container.requests.get(name) or ""
        if count.isdecimal() and container.ranks > int(count[:6]):
            yield error(
                f"{container.ranks} ranks in a container with {quantity(int(count[:6]), 'NPU')}",
                observed=f"nproc_per_node {container.ranks}, {name} {count}",
                required="as many NPUs as ranks",
                because="A rank without a device stops at set_device (107001).",
                location=_at(container, f"limits/{name}", f"requests/{name}"),
            )


@check("pod-volumes", "Every mount of a pod has its volume", scope="pod")
def pod_volumes(case: Case) -> Iterator[Finding]:
    """A container mounts volumes by the names that its pod gives them.

    The API server refuses a pod with a mount of another name, as of the driver's folder or of
    /dev/shm: "volumeMounts[0].name: Not found".
    """
    for container in _containers(case):
        for name in container.lost_mounts:
            yield error(
                f"No volume of the pod is called {name}",
                observed=f"volumeMounts: {name}",
                required="a volume of this name below `volumes` of the pod",
                because="Kubernetes refuses the pod.",
                remedy=Remedy(summary="Use one name for the volume and its mount"),
                refs=(_VOLUMES,),
                location=_at(container, f"volumeMounts/{name}"),
            )


@check("pod-driver", "The driver is mounted where its libraries are looked for", scope="pod")
def pod_driver(case: Case) -> Iterator[Finding]:
    """CANN and torch_npu load libascend_hal.so from /usr/local/Ascend/driver/lib64.

    The Ascend Docker Runtime mounts it; a pod that does so itself has to use the host's own path.
    """
    for container in _containers(case):
        for path, host in container.host_paths.items():
            here, there = path.rstrip("/"), host.rstrip("/")
            if f"{there}/".startswith(f"{_DRIVER}/") and here != there:
                yield error(
                    f"The driver of the host is mounted at {here}",
                    observed=f"mountPath: {here}, hostPath: {there}",
                    required=f"mountPath: {there}",
                    because=f"Its libraries are looked for below {_DRIVER}.",
                    remedy=Remedy(summary="Mount it at the path that it has on the host"),
                    refs=("https://github.com/vllm-project/vllm-ascend/issues/1440", _EXAMPLES),
                    location=_at(container, f"volumeMounts/{path}"),
                )
