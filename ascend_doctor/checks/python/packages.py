"""Python packages that are not what they seem, or that disturb each other."""

import re
import shlex
from collections.abc import Iterator

from ascend_doctor.facts import Distribution, Python
from ascend_doctor.judging import Case, Findings, NotApplicable, Texts, Unknown, error, warning
from ascend_doctor.judging.packages import find_distribution, npu_only, pip
from ascend_doctor.judging.requirements import Requirement, requirements
from ascend_doctor.judging.version_compare import is_in_range
from ascend_doctor.matrix.schema import Hazard, urls
from ascend_doctor.matrix.versions import normalised

TEXTS = Texts("packages")

# The place of CANN's modules below its root, whose name may differ from the listed one.
_OF_CANN = "/python/site-packages"
# Distributions by the modules that CANN's Python imports; failed starts (500001) name the first
# group, its requirements the second.
STOPS = {
    "decorator": "decorator",
    "attr": "attrs",
    "psutil": "psutil",
    "scipy": "scipy",
    "sympy": "sympy",
    "numpy": "numpy",
}
LISTED = {
    "cffi": "cffi",
    "yaml": "pyyaml",
    "google.protobuf": "protobuf",
    "requests": "requests",
    "absl": "absl-py",
}
OWNERS = STOPS | LISTED
_MINDSPEED = ("mindspeed", "mindspeed-llm", "mindspeed-rl")


def hazards(case: Case) -> Iterator[tuple[Hazard, Distribution]]:
    """Listed stand-ins and namesakes, without checkouts, foreign wheels and CANN's own modules."""
    roots = _cann_roots(case)
    for hazard in case.catalog.hazards.hazards:
        distribution = find_distribution(case, hazard.name)
        if distribution is None or distribution.direct_url or distribution.editable:
            continue
        if distribution.location.startswith(roots) or distribution.location.endswith(_OF_CANN):
            continue
        if is_in_range(distribution.version, hazard.versions):
            yield hazard, distribution


def _cann_roots(case: Case) -> tuple[str, ...]:
    cann = case.facts.cann
    return tuple(f"{install.root}/" for install in cann.installs) if cann else ()


@TEXTS.check("mindspeed-placeholder")
def mindspeed_placeholder(case: Case) -> Findings:
    for hazard, distribution in hazards(case):
        if hazard.name in _MINDSPEED:
            yield TEXTS.finding(
                "placeholder",
                commands=(pip(case, "uninstall", "-y", distribution.name),),
                refs=urls(hazard.sources),
                distribution=distribution,
                want=hazard.want or "the checkout",
            )


@TEXTS.check("package-namesakes")
def package_namesakes(case: Case) -> Findings:
    for hazard, distribution in hazards(case):
        if hazard.name not in _MINDSPEED:
            yield TEXTS.finding(
                "what-name",
                required=hazard.want or "not installed",
                commands=(pip(case, "uninstall", "-y", distribution.name),),
                refs=urls(hazard.sources),
                distribution=distribution,
                hazard=hazard,
            )
    python = case.need(Python)
    for module, owner in OWNERS.items():
        wrong = find_distribution(case, normalised(module))
        if wrong and wrong.name != owner and python.importable.get(module):
            commands = (
                pip(case, "uninstall", "-y", wrong.name),
                pip(case, "install", "--force-reinstall", "--no-deps", owner),
            )
            yield TEXTS.finding(
                "two-owners", commands=commands, wrong=wrong, module=module, owner=owner
            )
    for other in python.distributions:
        counts = python.find(other.name)
        if not (other.shadowed and counts and other.location == counts.location):
            continue
        # Debian keeps the metadata of some packages in two formats.
        if other.version != counts.version:
            commands = (pip(case, "uninstall", "-y", other.name),) * 2
            yield TEXTS.finding("second-copy", commands=commands, counts=counts, other=other)
    path = case.facts.import_path
    for name in path.hidden if path else ():
        first = name.copies[0].path
        yield TEXTS.finding(
            "hidden-package",
            commands=(f"ls -ld {shlex.quote(first)}",),
            first=first,
            name=name,
            copies=", ".join(copy.path for copy in name.copies),
        )


@TEXTS.check("nvidia-te-present")
def nvidia_te_present(case: Case) -> Findings:
    npu_only(case)
    distributions = [
        distribution
        for distribution in case.need(Python).distributions
        if distribution.name == "transformer-engine"
        or distribution.name.startswith("transformer-engine-")
    ]
    if not distributions:
        return
    names = [distribution.name for distribution in distributions]
    titled = ", ".join(
        f"{distribution.name} {distribution.version}" for distribution in distributions
    )
    certain = any(
        name.startswith(("transformer-engine-cu", "transformer-engine-torch")) for name in names
    ) or all(
        distribution.direct_url is None and not distribution.editable
        for distribution in distributions
    )
    yield (error if certain else warning)(
        f"NVIDIA's Transformer Engine is installed: {titled}"
        if certain
        else f"A Transformer Engine is installed, and whose it is could not be told: {titled}",
        observed="; ".join(
            f"{distribution.name} {distribution.version} in {distribution.location}"
            for distribution in distributions
        ),
        required="not installed, or TransformerEngineNPU alone",
        because="Importing MindSpeed fails while it looks for CUDA libraries.",
        remedy="Remove it" if certain else "Remove it if it is NVIDIA's",
        commands=(pip(case, "uninstall", "-y", *names),),
        refs=(
            "https://github.com/modelscope/ms-swift/issues/6968",
            "Ascend/MindSpeed@core_r0.17.0:README.md",
        ),
    )


@TEXTS.check("cuda-packages")
def cuda_packages(case: Case) -> Findings:
    npu_only(case)
    for name in ("apex", "flash-attn"):
        distribution = find_distribution(case, name)
        if distribution is None or "ascend" in distribution.version.lower():
            continue
        if name != "apex" or distribution.version.startswith("0.1"):
            yield TEXTS.finding(
                "for-cuda",
                commands=(pip(case, "uninstall", "-y", name),),
                name=name,
                distribution=distribution,
            )


_DECISIVE = frozenset({"torch", "torch-npu", "numpy", "transformers"})
_NAME = re.compile(r"[A-Za-z0-9._-]+")
# Pairs with their own check.
_JUDGED = {
    ("torch-npu", "torch"),
    ("vllm-ascend", "torch"),
    ("vllm-ascend", "torch-npu"),
    ("mcore-bridge", "megatron-core"),
    ("mindspeed", "numpy"),
    ("twinkle-kit", "numpy"),
}


@TEXTS.check("declared-requirements")
def read_requirements(case: Case) -> Findings:
    python = case.need(Python)
    known = case.catalog.distributions
    names = [
        distribution
        for distribution in python.distributions
        if not distribution.shadowed
        and (distribution.name in known or any(map(_stands_on, distribution.requires)))
    ]
    if not names:
        raise NotApplicable("no package of a training stack is installed")
    for name in names:
        broken = [asked for asked in requirements(python, name) if _broken(python, name, asked)]
        if broken:
            here = ", ".join(_here(python, asked) for asked in broken)
            yield TEXTS.finding(
                "other-declared",
                commands=(pip(case, "check"),),
                name=name,
                here=here,
                asked="; ".join(f"{asked.name}{asked.specifier}" for asked in broken),
            )


def _stands_on(requirement: str) -> bool:
    name = _NAME.match(requirement)
    return name is not None and normalised(name[0]) in _DECISIVE


def _broken(python: Python, distribution: Distribution, requirement: Requirement) -> bool:
    name = normalised(requirement.name)
    installed = python.find(name)
    if installed is None or not requirement.specifier or (distribution.name, name) in _JUDGED:
        return False
    try:
        return not is_in_range(installed.version, requirement.specifier)
    except Unknown:
        return False


def _here(python: Python, requirement: Requirement) -> str:
    name = normalised(requirement.name)
    distribution = python.find(name)
    return f"{name} {distribution.version if distribution else ''}".rstrip()


@TEXTS.check("python-requires")
def python_requires(case: Case) -> Findings:
    python = case.need(Python)
    for distribution in python.distributions:
        if distribution.shadowed or not distribution.requires_python:
            continue
        try:
            taken = is_in_range(python.version, distribution.requires_python)
        except Unknown:
            continue
        if not taken:
            yield TEXTS.finding("other-python", distribution=distribution, python=python)
