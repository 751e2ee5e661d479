"""Packages for CUDA, and the CUDA of torch."""

from ascend_doctor.facts import Distribution, Python
from ascend_doctor.judging import Case, Findings, NotApplicable, Texts, Unknown
from ascend_doctor.judging.packages import distribution, pip
from ascend_doctor.judging.requirements import requirements
from ascend_doctor.patterns import defer

TEXTS = Texts("cuda-major")

# nvidia-nvshmem-cu12, transformer-engine-cu13, cupy-cuda12x.
_SUFFIX = defer(r"^(?P<name>.+)-cu(?:da)?(?P<major>\d{2})x?$")
# The local version of torch's wheels: 2.7.1+cu126.
_LOCAL = defer(r"\+cu(?P<major>\d{2})\d")
_UPSTREAM = "https://github.com/NovaSky-AI/SkyRL/pull/1543"


def _major(python: Python, torch: Distribution) -> str:
    """Raises NotApplicable for a build without CUDA, and Unknown if metadata names two."""
    if match := _LOCAL.search(torch.version):
        return match["major"]
    names = (requirement.name for requirement in requirements(python, torch))
    majors = {match["major"] for name in names if (match := _SUFFIX.match(name))}
    if "+" in torch.version or not majors:
        raise NotApplicable(f"torch {torch.version} is no build for CUDA")
    if len(majors) > 1:
        raise Unknown(f"torch {torch.version} asks for packages of several releases of CUDA")
    return majors.pop()


@TEXTS.check("cuda-major")
def _cuda_major(case: Case) -> Findings:
    torch = distribution(case, "torch")
    python = case.need(Python)
    major = _major(python, torch)
    for package in python.distributions:
        match = _SUFFIX.match(package.name)
        if match and match["major"] != major:
            right = package.name.replace(match["major"], major)
            yield TEXTS.finding(
                "libraries-two",
                title=f"{package.name} is for CUDA {match['major']}, torch is for CUDA {major}",
                required=right,
                commands=(pip(case, "uninstall", "-y", package.name), pip(case, "install", right)),
                refs=(_UPSTREAM,),
                package=package,
                torch=torch,
            )
