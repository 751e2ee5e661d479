"""Gated delta nets (Qwen3.5, Qwen3-Next): which implementation runs, and whether it can."""

from ascend_doctor.checks.launch.gdn_launch import (
    BRIDGE_CONFIG,
    BRIDGE_PARSER,
    has_gated_delta_nets,
)
from ascend_doctor.checks.launch.gdn_launch import NAME as _NAME
from ascend_doctor.checks.launch.options import options
from ascend_doctor.judging import Case, Findings, NotApplicable, Texts, Unknown
from ascend_doctor.judging.packages import distribution, find_distribution, npu_only, pip, variable
from ascend_doctor.judging.source_trees import core_version, mindspeed
from ascend_doctor.judging.version_compare import behaviour, is_in_range
from ascend_doctor.matrix.schema import Behaviour, urls

TEXTS = Texts("gdn")

_OLD_NAME = "SWIFT_USE_MCORE_GDN"


def _of(case: Case, component: str, identity: str) -> Behaviour | None:
    return behaviour(case, component, identity, distribution(case, component).version)


def _of_megatron(case: Case) -> bool:
    value = variable(case, _NAME)
    return value is None or value.strip() == "1"


@TEXTS.check("gdn-needs-zero")
def gdn_needs_zero(case: Case) -> Findings:
    bridge = distribution(case, "mcore-bridge")
    version = core_version(case)
    launch = case.facts.launch
    if launch is not None and has_gated_delta_nets(launch.options.get("model", "")) is not None:
        raise NotApplicable("run-gdn-megatron judges the model that the launch names")
    row = behaviour(case, "megatron-core", "no-gdn", version)
    if row is not None and _of_megatron(case):
        yield TEXTS.finding(
            "core-without",
            version=version,
            value=variable(case, _NAME) or "unset, which means 1",
            bridge=bridge.version,
            refs=(BRIDGE_PARSER, BRIDGE_CONFIG, *urls(row.sources)),
        )


@TEXTS.check("gdn-env-old-name")
def gdn_env_old_name(case: Case) -> Findings:
    swift = distribution(case, "ms-swift")
    old = _of(case, "ms-swift", "swift-use-mcore-gdn")
    reads = old or _of(case, "ms-swift", "use-mcore-gdn")
    if reads is None:
        raise NotApplicable(f"ms-swift {swift.version} has no such variable")
    ignored, read = (_NAME, _OLD_NAME) if old else (_OLD_NAME, _NAME)
    if _is_set(case, ignored) and not _is_set(case, read):
        yield TEXTS.finding(
            "other-name",
            ignored=ignored,
            read=read,
            swift=swift.version,
            text=reads.text,
            refs=urls(reads.sources),
        )


def _is_set(case: Case, name: str) -> bool:
    try:
        return variable(case, name) is not None
    except Unknown:
        return case.facts.environment is not None


@TEXTS.check("gdn-one-on-npu-old-bridge")
def gdn_one_on_npu_old_bridge(case: Case) -> Findings:
    npu_only(case)
    row = _of(case, "mcore-bridge", "gdn-norm-assert")
    if row is None:
        return
    version = core_version(case)
    if behaviour(case, "megatron-core", "no-gdn", version) is not None:
        raise NotApplicable(f"Megatron-core {version} has no gated delta net")
    if _of_megatron(case):
        yield TEXTS.finding(
            "bridge-asserts",
            bridge=distribution(case, "mcore-bridge").version,
            value=variable(case, _NAME) or "unset, which means 1",
            text=row.text,
            commands=(pip(case, "install", "--no-deps", "mcore-bridge>=1.4.2"),),
            refs=urls(row.sources),
        )


@TEXTS.check("qwen3-next-bridge-bug")
def qwen3_next_bridge_bug(case: Case) -> Findings:
    row = _of(case, "mcore-bridge", "qwen3-next-broken")
    if row is not None:
        yield TEXTS.finding(
            "next-unpacked",
            bridge=distribution(case, "mcore-bridge").version,
            text=row.text,
            commands=(pip(case, "install", "--no-deps", "mcore-bridge>=1.2.3,<1.3"),),
            refs=urls(row.sources),
        )


# An ms-swift behaviour: the module that its patch imports, and the attribute of a MindSpeed row
# that says whether the branch has it.
_PATCHES = {
    "fla-lite-triton": ("mindspeed.lite.ops.triton.chunk_delta_h", "lite_triton_gdn"),
    "fla-ops-triton": ("mindspeed.ops.triton", "ops_triton"),
}


def _launches_gated_delta_nets(case: Case) -> bool:
    try:
        return bool(has_gated_delta_nets(options(case).get("model", "")))
    except (NotApplicable, Unknown):
        return False


@TEXTS.check("swift-fla-patch-missing")
def swift_fla_patch_missing(case: Case) -> Findings:
    npu_only(case)
    swift = distribution(case, "ms-swift")
    for identity, (module, attribute) in _PATCHES.items():
        affected = _of(case, "ms-swift", identity)
        if affected is not None:
            row = mindspeed(case)
            if attribute not in row.attributes:
                raise Unknown(f"whether MindSpeed {row.version} has {module} is not known")
            if row.attributes[attribute] == "no":
                launched = _launches_gated_delta_nets(case)
                yield TEXTS.finding(
                    "no-kernels" if launched else "no-kernels-idle",
                    swift=swift.version,
                    module=module,
                    version=row.version,
                    refs=urls((*affected.sources, *(row.sources if launched else ()))),
                )
            return
    raise NotApplicable(f"ms-swift {swift.version} does not look there")


@TEXTS.check("gdn-packing")
def gdn_packing(case: Case) -> Findings:
    distribution(case, "mcore-bridge")
    core_version(case)
    lacks = []
    if find_distribution(case, "flash-linear-attention") is None:
        lacks.append("flash-linear-attention")
    zero = _of(case, "mcore-bridge", "gdn-zero-packed")
    transformers = find_distribution(case, "transformers")
    if (
        not _of_megatron(case)
        and zero
        and transformers
        and not is_in_range(transformers.version, ">=5.9")
    ):
        lacks.append(f"transformers >=5.9.0 (here {transformers.version})")
    row = zero or _of(case, "mcore-bridge", "gdn-one-packed")
    if lacks and row is not None:
        lacking = " and ".join(lacks)
        yield TEXTS.finding("unpackable", lacks=lacking, text=row.text, refs=urls(row.sources))
