"""The port at which ranks meet, tried."""

from ascend_doctor.checks.probes.run_failures import ran_well
from ascend_doctor.judging import Case, Findings, NotApplicable, Texts, Unknown, note
from ascend_doctor.probe_records.stack import PortRecord

TEXTS = Texts("meeting-port")


@TEXTS.check("port", level=1, probe="port")
def port(case: Case) -> Findings:
    run = ran_well(case, "port")
    record = run.first_record(PortRecord)
    if record.free is None or record.error is None:
        raise Unknown("the probe port did not get this far")
    if not record.here:
        raise NotApplicable("MASTER_ADDR is another machine")
    spare = ", ".join(map(str, record.free))
    if record.error:
        yield TEXTS.finding("unbound", record=record)
    else:
        yield note(observed=f"port {record.port}; free as well: {spare}")
