"""The check on every node of a Kubernetes cluster: a Volcano job, an AscendJob, an init container.

It serves clusters whose nodes only Kubernetes starts: no Slurm, no Ray.

Shapes are those of upstream's own examples: Ascend/mind-cluster@22bb3d98
docs/en/scheduling/api/ascend_job.md, and for Volcano
docs/en/scheduling/usage/basic_scheduling/03_full_npu_scheduling_and_static_vnpu_scheduling_training.md.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ascend_doctor.judging.container_fix import host_paths
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.schema import ChipResource

Mapping = dict[str, Any]

# What of the paths is a file; of the host's other paths every one is a folder.
_FILES = ("version.info", "npu-smi", "ascend_install.info", "hccn.conf", "hccn_tool")
_FOLDER, _SHARED_MEMORY = "/reports", "/dev/shm"  # noqa: S108 - a mount, not a file
_NODE = "NODE_NAME"


def chip_resources() -> dict[str, ChipResource]:
    """The families of chips that Kubernetes schedules, by id."""
    return {family.id: family.pod for family in Catalog().families if family.pod}


class Toleration(msgspec.Struct, frozen=True, kw_only=True):
    """A taint of nodes that is not to keep the check away; without a value, whatever it has."""

    key: str
    value: str = ""
    effect: str = ""

    def as_mapping(self) -> Mapping:
        """As a pod has it."""
        how = {"operator": "Equal", "value": self.value} if self.value else {"operator": "Exists"}
        return {"key": self.key, **how, **({"effect": self.effect} if self.effect else {})}


class ManifestOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One manifest. ``command`` is the whole call of the doctor; ``npus`` are of one node.

    ``claim`` is a volume claim for the reports, "" for the pods' logs; ``gang``: all nodes at once.
    """

    name: str
    image: str
    command: tuple[str, ...]
    nodes: int
    npus: int
    family: str
    resource: str
    label: str
    namespace: str = ""
    queue: str = "default"
    claim: str = ""
    gang: bool = False
    tolerations: tuple[Toleration, ...] = ()
    selectors: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()

    @property
    def least(self) -> int:
        """Pods that must fit before one starts.

        All only where they meet: a node that takes no pod must not keep the others unchecked.
        """
        return self.nodes if self.gang else 1


def volcano(options: ManifestOptions) -> Mapping:
    """A Volcano Job with a pod a node."""
    labels = {"ring-controller.atlas": options.label}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": _metadata(options, labels),
        "spec": {
            "minAvailable": options.least,
            "schedulerName": "volcano",
            "queue": options.queue,
            # A check that failed is a result.
            "maxRetry": 1,
            # The plugins give every pod the names and the number that --gang reads.
            **({"plugins": {"env": [], "svc": []}} if options.gang else {}),
            "tasks": [
                {
                    "name": "node",
                    "replicas": options.nodes,
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": {
                            **_apart("volcano.sh/job-name", options.name),
                            **_pod(options, "doctor"),
                        },
                    },
                }
            ],
        },
    }


def ascend_job(options: ManifestOptions) -> Mapping:
    """An AscendJob: one Master and the other nodes as Workers."""
    labels = {"ring-controller.atlas": options.label}
    # Names of the container and its port are the operator's.
    pod = _pod(options, "ascend", ports=[{"containerPort": 2222, "name": "ascendjob-port"}])
    replicas = {"Master": 1, "Worker": options.nodes - 1}
    return {
        "apiVersion": "mindxdl.gitee.com/v1",
        "kind": "AscendJob",
        "metadata": _metadata(options, {"framework": "pytorch", **labels}),
        "spec": {
            "schedulerName": "volcano",
            "runPolicy": {
                "schedulingPolicy": {"minAvailable": options.least, "queue": options.queue}
            },
            "successPolicy": "AllWorkers",
            "replicaSpecs": {
                kind: {
                    "replicas": count,
                    "restartPolicy": "Never",
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": {**_apart("job-name", options.name), **pod},
                    },
                }
                for kind, count in replicas.items()
                if count
            },
        },
    }


def init_container(options: ManifestOptions) -> Mapping:
    """A pod whose work starts only where the gate passes; its two containers have the same NPUs."""
    pod = _pod(options, "doctor", annotated=False)
    (gate,) = pod["containers"]
    work = {**gate, "name": "train", "command": ["sh", "-c", "exec your-launch"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(options, {}),
        "spec": {**pod, "initContainers": [gate], "containers": [work]},
    }


def _metadata(options: ManifestOptions, labels: Mapping) -> Mapping:
    parts = {
        "namespace": options.namespace,
        "labels": labels,
        "annotations": dict(options.annotations),
    }
    return {"name": options.name, **{name: part for name, part in parts.items() if part}}


def _apart(label: str, job: str) -> Mapping:
    """One pod a node."""
    selector = {"matchExpressions": [{"key": label, "operator": "In", "values": [job]}]}
    term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
    rule = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {"podAntiAffinity": {rule: [term]}}}


def _pod(options: ManifestOptions, name: str, *, annotated: bool = True, **more: Any) -> Mapping:
    """One container with the NPUs of a node.

    The host's network is what HCCL is to use, and gives reports the node's name. ``annotated``:
    Volcano's plugin for Ascend says in an annotation which NPUs Ascend Docker Runtime is to mount;
    where nobody writes it the variable would be empty, and no NPU there (ascend_job.md).
    """
    paths = {
        f"npu-{number}": path
        for number, path in enumerate(host_paths(Catalog().family(options.family)))
    }
    mounts = [
        *({"name": name, "mountPath": path, "readOnly": True} for name, path in paths.items()),
        {"name": "shm", "mountPath": _SHARED_MEMORY},
    ]
    volumes: list[Mapping] = [
        *(
            {"name": name, "hostPath": {"path": path, "type": _kind(path)}}
            for name, path in paths.items()
        ),
        # Containers have 64 MiB of shared memory, which workers that load data run out of.
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}},
    ]
    # Kubernetes replaces $(NAME) in a command, and makes $ of $$.
    command = [word.replace("$", "$$") for word in options.command]
    if options.claim:
        mounts.append({"name": "reports", "mountPath": _FOLDER})
        volumes.append({"name": "reports", "persistentVolumeClaim": {"claimName": options.claim}})
        command += ["-o", f"{_FOLDER}/$({_NODE}).json"]
    fields = {_NODE: "spec.nodeName"}
    if annotated:
        fields["ASCEND_VISIBLE_DEVICES"] = f"metadata.annotations['{options.resource}']"
    amount = {options.resource: options.npus}
    spec: Mapping = {
        "restartPolicy": "Never",
        "hostNetwork": True,
        "dnsPolicy": "ClusterFirstWithHostNet",
        "containers": [
            {
                "name": name,
                "image": options.image,
                "imagePullPolicy": "IfNotPresent",
                "command": command,
                "env": [
                    {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
                    for name, path in fields.items()
                ],
                **more,
                "resources": {"requests": amount, "limits": dict(amount)},
                "volumeMounts": mounts,
            }
        ],
        "volumes": volumes,
    }
    if options.selectors:
        spec["nodeSelector"] = dict(options.selectors)
    if options.tolerations:
        spec["tolerations"] = [toleration.as_mapping() for toleration in options.tolerations]
    return spec


def _kind(path: str) -> str:
    """A path that a host lacks then keeps the pod waiting and is named, rather than made there."""
    return "File" if path.endswith(_FILES) else "Directory"
