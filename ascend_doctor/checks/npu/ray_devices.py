"""Ray: whether it chooses the devices of its actors."""

from packaging.version import InvalidVersion, Version

from ascend_doctor.judging import Case, Findings, Texts, Unknown, error, warning
from ascend_doctor.judging.packages import distribution, find_distribution, npu_only, variable

TEXTS = Texts("ray-devices")

_NAME = "RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES"
# ray/_private/accelerators/npu.py of the wheels: ASCEND_VISIBLE_DEVICES and another variable
# name in 2.9.3, the present ones in 2.10.0; os.environ.get in 2.53.0, env_bool in 2.54.0.
_RUNTIME = Version("2.10.0")
_BOOLEAN = Version("2.54.0")
_PARSING = "https://github.com/ray-project/ray/pull/60577"
_VERL = "verl-project/verl@1dda039b:verl/utils/ray_utils.py"
_ADVICE = "verl-project/verl@1dda039b:docs/ascend_tutorial/get_start/install_guidance.rst"
_ALL_DEVICES = "Every actor sees all devices, and code that takes device 0 puts all ranks on one."


@TEXTS.check("ray-visible-devices")
def ray_visible_devices(case: Case) -> Findings:
    npu_only(case)
    release = distribution(case, "ray").version
    value = variable(case, _NAME)
    verl = find_distribution(case, "verl")
    if _is_before(_RUNTIME, release):
        yield TEXTS.finding("ray-does", because=_ALL_DEVICES, release=release)
    elif not value:
        if verl:
            yield TEXTS.finding("ray-chooses", observed=f"{_NAME} is not set", refs=(_ADVICE,))
    elif value.lower() not in {"1", "true"}:
        yield from _neither(value, release, verl=verl is not None)


def _neither(value: str, release: str, *, verl: bool) -> Findings:
    boolean = not _is_before(_BOOLEAN, release)
    because = _ALL_DEVICES
    if boolean:
        because = (
            "Actors see only the devices that they hold, and verl takes the variable for set: it "
            "sets a device number that is not visible (107001)."
            if verl
            else "Actors see only the devices that they hold, under numbers that begin at 0."
        )
    counts = "does not count as set" if boolean else "counts as set"
    yield (error if boolean and verl else warning)(
        f"{_NAME}={value} {counts} in Ray {release}",
        observed=f"{_NAME}={value!r}, Ray {release}",
        required="1, or unset, the same on every node",
        because=because,
        remedy="Set it to 1 where ranks choose their device, or unset it, on every node "
        "before `ray start`",
        commands=(f"export {_NAME}=1",),
        refs=(_PARSING, _VERL) if verl else (_PARSING,),
    )


def _is_before(first: Version, release: str) -> bool:
    try:
        return Version(release) < first
    except InvalidVersion as broken:
        raise Unknown(f"how Ray {release} chooses devices") from broken
