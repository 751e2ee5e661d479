"""A lock as a bill of materials: CycloneDX 1.6, JSON."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from ascend_doctor.provision.lock import Checkout, Lock, Wheel

_SPEC = "1.6"


def render_cyclonedx(lock: Lock) -> str:
    """Checkouts by commit, wheels by hash, and what the stack needs of the machine.

    The same lock gives the same bytes: the serial number is made of its content.
    """
    components = [*_checkouts(lock), *map(_wheel, lock.wheels), *_system(lock)]
    digest = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps([lock.id, components], sort_keys=True))
    content = {
        "$schema": f"http://cyclonedx.org/schema/bom-{_SPEC}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": _SPEC,
        "serialNumber": f"urn:uuid:{digest}",
        "version": 1,
        "metadata": {
            "timestamp": lock.created_at,
            "tools": {
                "components": [
                    {"type": "application", "name": "ascend-doctor", "version": lock.tool_version}
                ]
            },
            "component": {"type": "application", "bom-ref": "stack", "name": lock.id},
        },
        "components": components,
        "dependencies": [
            {"ref": "stack", "dependsOn": [component["bom-ref"] for component in components]}
        ],
    }
    return json.dumps(content, indent=2, ensure_ascii=True) + "\n"


def _wheel(wheel: Wheel) -> dict[str, Any]:
    purl = f"pkg:pypi/{wheel.name}@{quote(wheel.version, safe='.')}"
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": wheel.name,
        "version": wheel.version,
        "purl": purl,
        "hashes": [{"alg": "SHA-256", "content": wheel.sha256}],
        "properties": [{"name": "ascend-doctor:file", "value": wheel.file}],
    }
    if wheel.source:
        source = {"name": "ascend-doctor:built-from", "value": wheel.source.file}
        component["properties"].append(source)
    return component


def _checkouts(lock: Lock) -> Iterator[dict[str, Any]]:
    for checkout in lock.checkouts:
        yield _checkout(checkout)


def _checkout(checkout: Checkout) -> dict[str, Any]:
    origin = quote(f"git+{checkout.url}@{checkout.commit}", safe="")
    purl = f"pkg:generic/{checkout.name}@{checkout.commit}?vcs_url={origin}"
    properties = {"ref": checkout.ref, "tree": checkout.tree, **checkout.provides}
    return {
        "type": "library",
        "bom-ref": purl,
        "name": checkout.name,
        "version": checkout.commit,
        "purl": purl,
        "externalReferences": [{"type": "vcs", "url": checkout.url}],
        "properties": [
            {"name": f"ascend-doctor:{name}", "value": value}
            for name, value in properties.items()
            if value
        ],
    }


def _system(lock: Lock) -> Iterator[dict[str, Any]]:
    """What the machine has to bring, as CANN; it is no part of what was built."""
    for name, version in lock.system.items():
        yield {
            "type": "platform",
            "bom-ref": f"system:{name}",
            "name": name,
            "version": version,
            "scope": "excluded",
        }
