"""Variables of a launcher, the loader or Python that another program left behind."""

from collections.abc import Iterator

from ascend_doctor.errors import NotApplicable
from ascend_doctor.facts import Environment
from ascend_doctor.findings import Finding
from ascend_doctor.judging.env_values import settings, show_values, unset
from ascend_doctor.judging.judge import Case, check, warning

_RUN = "https://pytorch.org/docs/stable/elastic/run.html"
LOADER = "https://man7.org/linux/man-pages/man8/ld.so.8.html"
_HOME = "https://docs.python.org/3/using/cmdline.html#envvar-PYTHONHOME"


@check("launcher-variables", "RANK and WORLD_SIZE are set together, or not at all")
def launcher_variables(case: Case) -> Iterator[Finding]:
    """A launcher sets RANK and WORLD_SIZE for every process that it starts.

    One of them alone was left behind, by a shell that tried a command by hand or by an image. A
    script that is started without torchrun then waits for ranks that never come, or ends with
    "environment variable RANK expected, but not set". torchrun and the launchers of schedulers set
    both, and overwrite what was there.
    """
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


@check("ld-preload", "LD_PRELOAD names libraries that exist")
def ld_preload(case: Case) -> Iterator[Finding]:
    """LD_PRELOAD puts libraries in front of all others, in every program of this shell.

    Guides use it for memory allocators (jemalloc, tcmalloc) and for libgomp. A library that is not
    there is skipped with "cannot be preloaded" on stderr, in every process that starts: the job
    runs without it, and programs that read stderr of others are confused.
    """
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


@check("python-home", "PYTHONHOME does not lead Python astray")
def python_home(case: Case) -> Iterator[Finding]:
    """PYTHONHOME replaces the place where Python looks for its standard library.

    Left behind by another Python, it makes this one stop with "No module named 'encodings'", or
    import modules of the wrong release. Nobody who trains needs it.
    """
    home = settings(case).get("PYTHONHOME")
    if home is None:
        raise NotApplicable("PYTHONHOME is not set")
    python = case.facts.python
    own = {python.prefix, python.base_prefix} if python else set()
    if home.rstrip("/") in own - {""}:
        return
    yield warning(
        f"PYTHONHOME is set to {home}",
        observed=f"PYTHONHOME={home!r}"
        + (f"; the interpreter is of {python.base_prefix or python.prefix}" if python else ""),
        required="unset",
        because="Python takes its standard library from there: another release, or none.",
        remedy=unset("PYTHONHOME"),
        refs=(_HOME,),
    )
