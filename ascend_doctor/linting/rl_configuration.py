"""MindSpeed-RL's configurations: what each role trains with, and where it is set."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ascend_doctor.collect.launch import OPTIONS
from ascend_doctor.facts import UNTOLD, Launch, Spot
from ascend_doctor.findings import Place
from ascend_doctor.linting.documents import Leaf, leaves
from ascend_doctor.linting.positioned_text import Word, locate
from ascend_doctor.linting.python import find_hydra_main
from ascend_doctor.linting.sourcing import find_above, read_source

HYDRA_FILE = re.compile(r"(?:--config-(?:name|path|dir)|-c[npd])(?:=|$)")
# Where trainers keep configurations, if their entry file does not say.
_FOLDERS = ("configs", "config")
# The part that all roles share, only in this framework.
_SHARED = "megatron_training"
# Parts of roles, and whose NPUs they train on (mindspeed_rl/config_cls/rl_config.py).
_RESOURCES = {
    "actor_config": "actor_resource",
    "ref_config": "reference_resource",
    "reward_config": "reward_resource",
    "critic_config": "critic_resource",
}
_NOT_GIVEN = {"", "null", "none", "~"}
# No size, number or truth value is longer; more of a value is not kept.
_MOST_VALUE = 60


class RlSetting(msgspec.Struct, frozen=True):
    text: str
    location: Place
    key: Place


class _Named(msgspec.Struct, frozen=True):
    name: str
    folder: str
    rest: tuple[Word, ...]


class Configuration(msgspec.Struct, frozen=True):
    """The settings of a file and its models, by dotted keys; ``unresolved``: what is unknown."""

    settings: dict[str, RlSetting]
    unresolved: tuple[Spot, ...]


def is_of_mindspeed_rl(document: Sequence[Leaf]) -> bool:
    """Whether a YAML document is a whole configuration of MindSpeed-RL."""
    return any(leaf.path[0] == _SHARED and len(leaf.path) > 1 for leaf in document if leaf.path)


def find_configuration(
    words: Sequence[Word], script: str
) -> tuple[Configuration | None, tuple[Word, ...]]:
    """The configuration of a Hydra trainer of MindSpeed-RL, and the other words.

    None if unreadable or of another framework; then all words are left.
    """
    named = _split_options(words)
    entry = next((word.text for word in words if word.text.endswith(".py")), "")
    file = find_above(script, entry) if UNTOLD not in entry else ""
    source = read_source(file) if file else None
    main = find_hydra_main(source.content.decode("utf-8", "replace")) if source else None
    name = named.name or (main.name if main is not None else "")
    if not name or UNTOLD in f"{name}{named.folder}":
        return None, tuple(words)
    name = name if name.endswith(".yaml") else f"{name}.yaml"
    folder = named.folder or (main.folder if main is not None else "")
    if main is not None:
        path = os.path.normpath(os.path.join(os.path.dirname(file), folder, name))
    else:
        folders = (folder,) if folder else _FOLDERS
        paths = (find_above(script, os.path.join(each, name)) for each in folders)
        path = next((each for each in paths if each), "")
    configuration = read_configuration(path) if path else None
    return configuration, named.rest if configuration is not None else tuple(words)


def _split_options(words: Sequence[Word]) -> _Named:
    options = {"n": "", "p": ""}
    rest: list[Word] = []
    waiting = ""
    for word in words:
        text = word.text.strip("\"'")
        if waiting:
            options[waiting], waiting = text, ""
        elif HYDRA_FILE.match(text):
            option, equals, value = text.partition("=")
            kind = option.rpartition("-")[2].removeprefix("c")[:1]
            kind = "p" if kind == "d" else kind
            options[kind], waiting = value.strip("\"'"), "" if equals else kind
        else:
            rest.append(word)
    return _Named(options["n"], options["p"], tuple(rest))


def read_configuration(file: str) -> Configuration | None:
    """The configuration in a file; None if unreadable or not of MindSpeed-RL."""
    source = read_source(file)
    documents = leaves(source.content.decode("utf-8", "replace")) if source is not None else None
    for document in documents or ():
        if is_of_mindspeed_rl(document):
            return compose(file, document)
    return None


def compose(file: str, document: Sequence[Leaf]) -> Configuration:
    settings: dict[str, RlSetting] = {}
    spots: list[Spot] = []
    for leaf in document:
        match leaf.path:
            case ("defaults", _, "model", *_):
                model = os.path.normpath(
                    os.path.join(os.path.dirname(file), "model", f"{leaf.text}.yaml")
                )
                source = read_source(model)
                content = source.content.decode("utf-8", "replace") if source is not None else ""
                read = leaves(content) or ()
                if not read:
                    spots.append(_spot(file, leaf, f"defaults: model: {leaf.text}"))
                settings |= {
                    f"model.{key}": value for part in read for key, value in _settings(model, part)
                }
            case ("defaults", *_):
                if leaf.text != "_self_":
                    spots.append(_spot(file, leaf, f"defaults: {leaf.text}"))
            case _:
                pass
    own = [leaf for leaf in document if leaf.path and leaf.path[0] != "defaults"]
    settings |= dict(_settings(file, own))
    spots += [_spot(file, leaf, leaf.text) for leaf in own if "${" in leaf.text]
    return Configuration(settings, tuple(spots))


def _settings(file: str, document: Sequence[Leaf]) -> Iterator[tuple[str, RlSetting]]:
    for leaf in document:
        where = locate(leaf, file)
        line, column = leaf.spots[-1] if leaf.spots else (leaf.line, leaf.column)
        text = UNTOLD if "${" in leaf.text else leaf.text
        yield (
            ".".join(leaf.path),
            RlSetting(text, where, Place(file=file, line=line, column=column)),
        )


def _spot(file: str, leaf: Leaf, name: str) -> Spot:
    where = locate(leaf, file)
    return Spot(name=name[:80], location=where)


def override(configuration: Configuration, launch: Launch) -> Configuration:
    values = {
        key.lstrip("+"): RlSetting(text, where, launch.places.get(f"key {key}", where))
        for key, text in launch.values.items()
        if (where := launch.places.get(key)) is not None
    }
    return msgspec.structs.replace(configuration, settings=configuration.settings | values)


def role_launches(configuration: Configuration, base: Launch) -> Iterator[Launch]:
    settings = configuration.settings
    parts = [part for part in _RESOURCES if any(key.startswith(f"{part}.") for key in settings)]
    values = {key: setting.text[:_MOST_VALUE] for key, setting in settings.items()}
    places = {key: setting.location for key, setting in settings.items()}
    places |= {f"key {key}": setting.key for key, setting in settings.items()}
    for part in parts or [_SHARED]:
        own = _merge(settings, part)
        named = {name: setting for name, setting in own.items() if name in OPTIONS}
        ranks = settings.get(f"rl_config.{_RESOURCES.get(part, '')}.num_npus")
        if ranks is None and _lacks_own_workers(settings):
            ranks = settings.get("rl_config.actor_resource.num_npus")
        if ranks is not None and parts:
            named["worker_num"] = ranks
        options = {name: setting.text for name, setting in named.items()}
        yield msgspec.structs.replace(
            base,
            source=f"the part {part}",
            present=True,
            program="mindspeed-rl",
            options=base.options | options,
            values=values,
            keys=(),
            places={
                **base.places,
                **places,
                **{name: setting.location for name, setting in named.items()},
            },
            partial=base.partial or bool(configuration.unresolved),
            unresolved=(*base.unresolved, *configuration.unresolved),
        )


def _lacks_own_workers(settings: Mapping[str, RlSetting]) -> bool:
    setting = settings.get("rl_config.use_integrated_worker")
    return setting is None or setting.text.lower() not in {"false", "no", "off"}


def _merge(settings: Mapping[str, RlSetting], part: str) -> dict[str, RlSetting]:
    merged: dict[str, RlSetting] = {}
    for name in (_SHARED, part):
        merged |= dict(_plain(settings, f"{name}."))
    model = merged.get("model")
    if model is not None:
        merged = dict(_plain(settings, f"model.{model.text}.")) | merged
    return {
        name: setting for name, setting in merged.items() if setting.text.lower() not in _NOT_GIVEN
    }


def _plain(settings: Mapping[str, RlSetting], before: str) -> Iterator[tuple[str, RlSetting]]:
    for key, setting in settings.items():
        name = key.removeprefix(before)
        if key.startswith(before) and "." not in name:
            yield name.replace("-", "_"), setting
