import msgspec

from ascend_doctor.findings import Level
from tests.checks.machine import having, healthy, run


def test_a_stand_in_for_cann_is_judged_as_what_it_is() -> None:
    facts = healthy()
    assert facts.cann is not None
    installs = tuple(
        msgspec.structs.replace(install, simulated=True) for install in facts.cann.installs
    )
    (finding,) = run("torch-npu-cann", having(facts, "cann", installs=installs))
    assert finding.level is Level.OK
    assert "simulated" in finding.observed
