"""The NPUs, as npu-smi tells. A sick card can block every call, so the first time-out ends it."""

import msgspec

from ascend_doctor.collect.npu_details import (
    parse_board,
    parse_ecc,
    parse_health,
    parse_list,
    parse_map,
    parse_processes,
    parse_topology,
)
from ascend_doctor.collect.npu_table import parse_info
from ascend_doctor.collect.vendor_tool import Tool, error_of, tool_path
from ascend_doctor.facts import Npu, NpuProcess, Npus, ToolError
from ascend_doctor.machine.live import Completed, Machine, ProgramMissing

# No source gives a healthy call's time on 16 devices; all further calls share a sum.
_INFO_DEADLINE = 30.0
_CALL_DEADLINE = 10.0
_FURTHER_SECONDS = 20.0
_USUAL_FOLDERS = ("/usr/local/bin", "/usr/local/sbin")


def npus(machine: Machine) -> Npus:
    """``npu-smi info``, then lists, boards, error counters, alarms and topology."""
    path = tool_path(machine, "npu-smi", _USUAL_FOLDERS)
    try:
        done = machine.run([path, "info"], deadline=_INFO_DEADLINE, name="npu-smi info")
    except ProgramMissing:
        return Npus(source="npu-smi")
    table = parse_info(done.stdout)
    if not table.devices:
        return Npus(source="npu-smi", tool=path, complete=False, error=_no_table(done))
    left, call = _FURTHER_SECONDS, _CALL_DEADLINE
    tool = Tool(machine=machine, path=path, name="npu-smi", left=left, call=call)
    return _with_details(table, tool, done)


def _no_table(done: Completed) -> ToolError:
    error = error_of(done, "npu-smi info", _INFO_DEADLINE)
    text = done.stdout.strip()[:200] or "npu-smi info said nothing"
    return error or ToolError(kind="unrecognised", text=text, exit_code=done.exit_code)


def _with_details(table: Npus, tool: Tool, done: Completed) -> Npus:
    def ask(*arguments: str) -> str:
        return tool.ask("info", *arguments)[0]

    def about(kind: str, npu: Npu) -> str:
        chip = () if table.layout == "950" else ("-c", str(npu.chip_id))
        return ask("-t", kind, "-i", str(npu.npu_id), *chip)

    listed = parse_list(ask("-l"))
    mapping = parse_map(ask("-m"))
    processes = table.processes
    if processes is None:
        processes = _processes(
            {(npu.npu_id, npu.chip_id): about("proc-mem", npu) for npu in table.devices}
        )
    health = [
        parse_health(about("health", npu), npu.npu_id, npu.chip_id)
        for npu in table.devices
        if npu.health != "OK"
    ]
    cards = dict.fromkeys(npu.npu_id for npu in table.devices)
    boards = [parse_board(ask("-t", "board", "-i", str(card)), card) for card in cards]
    if table.layout == "a3":  # the table calls every A3 "Ascend910"; the board of a chip knows
        first = table.devices[0]
        boards.append(parse_board(about("board", first), first.npu_id))
    topology = parse_topology(ask("-t", "topo"))
    ecc = [parse_ecc(about("ecc", npu), npu.npu_id, npu.chip_id) for npu in table.devices]
    failed = error_of(done, "npu-smi info", _INFO_DEADLINE) if done.exit_code != 0 else None
    return msgspec.structs.replace(
        table,
        source="npu-smi",
        tool=tool.path,
        complete=table.complete and not done.truncated and not done.timed_out,
        processes=processes,
        listed=listed,
        mapping=mapping or None,
        health=tuple(npu_health for npu_health in health if npu_health),
        ecc=tuple(npu_ecc for npu_ecc in ecc if npu_ecc),
        boards=tuple(board for board in boards if board),
        topology=topology,
        error=failed or tool.hung,
    )


def _processes(answers: dict[tuple[int, int], str]) -> tuple[NpuProcess, ...] | None:
    """An empty answer of ``-t proc-mem`` does not prove that nothing runs."""
    processes = tuple(
        process
        for (npu, chip), text in answers.items()
        for process in parse_processes(text, npu, chip)
    )
    return processes or None
