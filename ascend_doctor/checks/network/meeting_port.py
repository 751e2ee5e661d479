"""The port at which ranks meet, tried."""

from collections.abc import Iterator

from ascend_doctor.checks.probes.run_failures import ran_well
from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.findings import Finding
from ascend_doctor.judging.judge import Case, check, note, warning
from ascend_doctor.probe_records.stack import PortRecord


@check("port", "Rank 0 can listen on the master port", level=1, probe="port")
def port(case: Case) -> Iterator[Finding]:
    """MASTER_PORT, or torchrun's 29500, is bound as rank 0 would bind it, and let go again.

    Level 0 reads who listens; a bind also fails for a port that something holds without listening.
    Two jobs on one node need different ports. Side groups, such as those that bring weights to
    rollouts, need ports of their own; the report names three that were free.
    """
    run = ran_well(case, "port")
    record = run.first_record(PortRecord)
    if record.free is None or record.error is None:
        raise Unknown("the probe port did not get this far")
    if not record.here:
        raise NotApplicable("MASTER_ADDR is another machine")
    spare = ", ".join(map(str, record.free))
    if record.error:
        yield warning(
            f"Port {record.port} cannot be bound",
            observed=record.error,
            required="a free port for rank 0",
            because="torchrun ends with 'Address already in use'.",
            remedy="Choose another one, the same on all nodes",
            commands=(f"export MASTER_PORT={record.free[0]}",),
        )
    else:
        yield note(observed=f"port {record.port}; free as well: {spare}")
