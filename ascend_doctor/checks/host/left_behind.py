"""Variables of a launcher, the loader or Python that another program left behind."""

from ascend_doctor.facts import Environment
from ascend_doctor.judging import Case, Findings, NotApplicable, Texts, warning
from ascend_doctor.judging.env_values import settings, show_values, unset

TEXTS = Texts("left-behind")

_RUN = "https://pytorch.org/docs/stable/elastic/run.html"
LOADER = "https://man7.org/linux/man-pages/man8/ld.so.8.html"


@TEXTS.check("launcher-variables")
def _launcher_variables(case: Case) -> Findings:
    values = settings(case)
    rank, size = values.get("RANK"), values.get("WORLD_SIZE")
    if rank is None and size is None:
        raise NotApplicable("neither RANK nor WORLD_SIZE is set")
    together = rank is not None and size is not None
    numbers = [int(text) for text in (rank, size) if text and text.isascii() and text.isdecimal()]
    if together and (len(numbers) < 2 or numbers[0] < numbers[1]):  # noqa: PLR2004 - both
        return
    yield warning(
        "RANK is not below WORLD_SIZE"
        if together
        else f"{'RANK' if size is None else 'WORLD_SIZE'} is set without the other of the two",
        observed=show_values(values, "RANK", "WORLD_SIZE"),
        required="both as a launcher sets them, or none",
        because="A process that is started without torchrun waits for ranks that never come.",
        remedy=unset("RANK", "WORLD_SIZE", "LOCAL_RANK"),
        refs=(_RUN,),
    )


@TEXTS.check("ld-preload")
def _ld_preload(case: Case) -> Findings:
    settings(case)
    lost = [library.name for library in case.need(Environment).preloaded if library.path is None]
    if lost:
        yield warning(
            f"LD_PRELOAD names {', '.join(lost)}, which {'is' if len(lost) == 1 else 'are'} not "
            "there",
            observed=f"not found: {', '.join(lost)}",
            required="libraries that exist, or no LD_PRELOAD",
            because="The loader skips them with a message in every process.",
            remedy=unset("LD_PRELOAD"),
            refs=(LOADER,),
        )


@TEXTS.check("python-home")
def _python_home(case: Case) -> Findings:
    home = settings(case).get("PYTHONHOME")
    if home is None:
        raise NotApplicable("PYTHONHOME is not set")
    python = case.facts.python
    own = {python.prefix, python.base_prefix} if python else set()
    if home.rstrip("/") in own - {""}:
        return
    base = python and (python.base_prefix or python.prefix)
    shown = f"PYTHONHOME={home!r}" + (f"; the interpreter is of {base}" if python else "")
    remedy = unset("PYTHONHOME")
    yield TEXTS.finding("python-home-set", remedy=remedy, home=home, observed=shown)
