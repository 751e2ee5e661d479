import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.facts import Snapshot, Usage
from ascend_doctor.findings import Level
from ascend_doctor.judging.judge import Case, judge
from ascend_doctor.judging.spelling import variable_meant
from ascend_doctor.judging.value_bounds import (
    describe,
    describe_bounds,
    fits,
    pairs,
    ports,
    unknown_keys,
)
from ascend_doctor.matrix.schema import Bounds, Variable
from tests.checks.levels import check_level, fails, passes, warns
from tests.checks.machine import CATALOG, CHECKS, having, run
from tests.checks.server import a2, a3, commands, npu

VARIABLES = CATALOG.variables
NAMES = [variable.name for variable in VARIABLES.variables]

# A value that is refused or worse (its level), and a good one, on an A2 server.
BAD_AND_GOOD = [
    ("HCCL_CONNECT_TIMEOUT", "60", "1200", Level.ERROR),
    ("HCCL_CONNECT_TIMEOUT", "7201", "7200", Level.ERROR),
    ("HCCL_BUFFSIZE", "200M", "200", Level.ERROR),
    ("HCCL_BUFFSIZE", "0", "1", Level.ERROR),
    ("P2P_HCCL_BUFFSIZE", "-1", "0", Level.ERROR),
    ("HCCL_IF_IP", "eth0", "192.0.2.200", Level.ERROR),
    ("HCCL_IF_IP", "192.0.2.200 ", "2001:db8::1", Level.ERROR),
    ("HCCL_SOCKET_IFNAME", "eth*", "^=docker0,lo", Level.ERROR),
    ("HCCL_HOST_SOCKET_PORT_RANGE", "60050-60000", "60000,60050-60100", Level.ERROR),
    ("HCCL_HOST_SOCKET_PORT_RANGE", "60000-60010,60005", "auto", Level.ERROR),
    ("HCCL_OP_RETRY_ENABLE", "L1:2", "L1:0,L2:1", Level.ERROR),
    ("HCCL_DEBUG_CONFIG", "alg, task", "^ALG,task", Level.ERROR),
    ("PYTORCH_NPU_ALLOC_CONF", "expandable_segments:true", "expandable_segments:True", Level.ERROR),
    ("PYTORCH_NPU_ALLOC_CONF", "max_split_size_mb:20", "page_size:1g", Level.ERROR),
    ("PYTORCH_NPU_ALLOC_CONF", "garbage_collection_threshold:1", "per_process_memory_fraction:1",
     Level.ERROR),
    ("PYTORCH_NPU_ALLOC_CONF", "expandable_segments:True\r",
     "roundup_power2_divisions:[256:1,512:2]", Level.ERROR),
    ("PYTORCH_NPU_ALLOC_CONF", "made_up:1", "expandable_segments:False", Level.WARNING),
    ("TASK_QUEUE_ENABLE", "2\r", "1", Level.ERROR),
    ("STREAMS_PER_DEVICE", "16", "8", Level.WARNING),
    ("ACL_OP_COMPILER_CACHE_MODE", "on", "enable", Level.WARNING),
    ("ATB_OPSRUNNER_KERNEL_CACHE_GLOABL_COUNT", "0", "1024", Level.WARNING),
    ("MASTER_PORT", "99999", "29501", Level.WARNING),
    ("CPU_AFFINITY_CONF", '"1"', "1,npu0:0-15", Level.WARNING),
    ("ASCEND_HOME_PATH", "/usr/local/Ascend/cann ", "/usr/local/Ascend/cann", Level.WARNING),
]  # fmt: skip


@pytest.mark.parametrize(("name", "bad", "good", "level"), BAD_AND_GOOD)
def test_bounds_of_variables(name: str, bad: str, good: str, level: Level) -> None:
    finding = check_level(level, "variables-valid", a2(**{name: bad}), name, f"{name}={bad!r}")
    assert finding.refs
    passes("variables-valid", a2(**{name: good}))


def test_a_default_is_no_finding() -> None:
    plain = {
        variable.name: variable.default
        for variable in VARIABLES.variables
        if variable.default.isascii()
        and variable.type in ("int", "bool01", "enum")
        and " " not in variable.default
    }
    assert len(plain) > 50
    for identity in ("variables-valid", "variables-harmful", "variables-effective"):
        for finding in run(identity, a2(**plain)):
            assert finding.level is Level.OK, finding
            assert not finding.observed


def test_bounds_depend_on_the_chip() -> None:
    first = having(a2(HCCL_EXEC_TIMEOUT="20000"), "npus", devices=(npu(0, name="910ProB"),))
    fails("variables-valid", first, "a whole number above 0 up to 17340")
    passes("variables-valid", a2(HCCL_EXEC_TIMEOUT="20000"))


def test_what_surrounds_a_value_is_taken_away() -> None:
    finding = fails("variables-valid", a2(TASK_QUEUE_ENABLE=' "2"\r'))
    assert commands(finding).endswith("export TASK_QUEUE_ENABLE=2")
    finding = fails("variables-valid", a2(TASK_QUEUE_ENABLE="on"))
    assert commands(finding).endswith("unset TASK_QUEUE_ENABLE")


def test_one_finding_for_each_variable() -> None:
    facts = a2(HCCL_RDMA_SL="8", HCCL_RDMA_TC="1", TASK_QUEUE_ENABLE="")
    assert len(run("variables-valid", facts)) == 2


HARMFUL = [(variable.name, value) for variable in VARIABLES.variables for value in variable.hurts]


@pytest.mark.parametrize(("name", "value"), HARMFUL)
def test_settings_that_are_left_behind(name: str, value: str) -> None:
    finding = warns("variables-harmful", a2(**{name: value}), f"{name}={value}")
    assert commands(finding).endswith(f"unset {name}")
    passes("variables-valid", a2(**{name: value}))


def test_words_in_any_case_are_harmful_in_any_case() -> None:
    warns("variables-harmful", a2(HCCL_INTER_HCCS_DISABLE="true"), "RoCE")


def test_variables_without_effect_are_noted() -> None:
    passes("variables-effective", a2(TORCH_HCCL_ZERO_COPY="1"), "no effect", "Atlas A2")
    assert not run("variables-effective", a3(TORCH_HCCL_ZERO_COPY="1"))[0].observed


def test_near_misses() -> None:
    facts = having(a2(), "environment", withheld=("HCCL_BUFFER_SIZE",))
    finding = warns("variables-misspelt", facts, "HCCL_BUFFER_SIZE", "HCCL_BUFFSIZE")
    assert 'export HCCL_BUFFSIZE="$HCCL_BUFFER_SIZE"\nunset HCCL_BUFFER_SIZE' in commands(finding)
    facts = having(a2(HCCL_BUFFSIZE="400"), "environment", withheld=("HCCL_BUFFER_SIZE",))
    passes("variables-misspelt", facts, "HCCL_BUFFSIZE is set and counts")


def test_names_of_another_vendor_are_not_unset() -> None:
    name = "NCCL_SOCKET_IFNAME"
    facts = having(a2(GLOO_SOCKET_IFNAME="eth0"), "environment", withheld=(name,))
    finding = warns("variables-misspelt", facts, "no effect on HCCL")
    assert "unset" not in commands(finding)
    assert "GLOO" not in commands(finding)


def test_names_that_differ_by_a_letter() -> None:
    facts = having(
        a2(), "environment", withheld=("HCCL_CONNECT_TIMEOT", "TORCH_NCCL_BLOCKING_WAIT")
    )
    warns("variables-misspelt", facts, "HCCL_CONNECT_TIMEOUT")
    odd = ("HCCL_ASYNC_ERROR_HANDLING", "PATH", "RANK_TABLE_FILE$(reboot)")
    known = having(a2(), "environment", withheld=odd)
    passes("variables-misspelt", known)


def test_the_catalogue_is_whole() -> None:
    assert len(set(NAMES)) == len(VARIABLES.variables) > 130
    families = {family.id for family in CATALOG.families}
    for variable in VARIABLES.variables:
        assert variable.sources, variable.name
        assert {*variable.products, *variable.families} <= families, variable.name
        for value in variable.hurts:
            assert not describe_bounds(variable, value), (variable.name, value)
    hidden = {variable.name for variable in VARIABLES.variables if not variable.show}
    assert {"RANK_TABLE_FILE", "PYTHONPATH", "LD_LIBRARY_PATH"} <= hidden


def test_bounds_in_words() -> None:
    assert describe(Bounds(type="int", low=0, high=255, multiple_of=4)) == (
        "a whole number from 0 to 255, a multiple of 4"
    )
    assert describe(Bounds(type="float", above=0, below=1)) == "a number above 0 below 1"
    assert describe(Bounds(type="enum", values=("a", "b"))) == "one of: a, b"
    assert describe(Bounds(type="bool01")) == "0 or 1"
    assert describe(Bounds()) == ""


def test_port_lists() -> None:
    assert ports("1,5-6") == [range(1, 2), range(5, 7)]
    for wrong in ("", "0", "70000", "5-1", "1-3,3", "a", "1,,2"):
        assert ports(wrong) is None


def test_pairs() -> None:
    assert pairs("a:1, b:[1:2,3:4]") == {"a": "1", "b": "[1:2,3:4]"}
    assert pairs("a=1") is None
    assert pairs("a:") is None
    bounds = {"a": Bounds(type="int")}
    variable = Variable(name="X", group="g", meaning="m", type="kv_list", keys=bounds, sources=())
    assert unknown_keys(variable, "a:1,b:2") == ["b"]
    assert unknown_keys(variable, "nothing") == []


@given(st.sampled_from(VARIABLES.variables), st.text(max_size=40))
def test_no_value_breaks_a_bound(variable: Variable, value: str) -> None:
    should = describe_bounds(variable, value)
    assert isinstance(should, str)
    for bounds in (variable, *variable.families.values(), *variable.keys.values()):
        assert fits(bounds, value) in (True, False)


MINE = [
    check
    for name, check in CHECKS.items()
    if check.run.__module__.rpartition(".")[2]
    in ("variables", "settings", "sockets", "ports", "visible_devices")
]
TEXT = st.one_of(
    st.text(max_size=20),
    st.from_regex(r"-?[0-9]{1,30}(\.[0-9]+)?(,[0-9]+)*", fullmatch=True),
    st.sampled_from(["1", "0", "True", "inf", "nan", "9" * 400, "expandable_segments:True"]),
)


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from([*NAMES, "PYTORCH_ALLOC_CONF"]), TEXT, max_size=8))
def test_no_environment_breaks_a_check(values: dict[str, str]) -> None:
    facts = having(a3(**values), "environment", withheld=tuple(values))
    for finding in judge(Case(facts=facts, catalog=CATALOG, nproc=4), MINE):
        assert "the check itself failed" not in finding.title, finding


# --- settings that go together


@pytest.mark.parametrize(
    ("pcie", "roce", "refused"),
    [
        ("1", "1", True), ("0", "", True), ("", "0", True),
        ("1", "", False), ("1", "0", False), ("0", "0", False), ("", "", False),
    ],
)  # fmt: skip
def test_links_inside_a_server(pcie: str, roce: str, refused: bool) -> None:
    facts = a2(HCCL_INTRA_PCIE_ENABLE=pcie, HCCL_INTRA_ROCE_ENABLE=roce)
    (finding,) = run("variables-links", facts)
    assert finding.level is (Level.ERROR if refused else Level.OK)


def test_roce_inside_a_server_with_hccs() -> None:
    warns("variables-links", a2(HCCL_INTRA_ROCE_ENABLE="1"), "Atlas A2")
    first = having(a2(HCCL_INTRA_ROCE_ENABLE="1"), "npus", devices=(npu(0, name="910ProB"),))
    passes("variables-links", first)


def test_order_of_timeouts() -> None:
    low = a2(HCCL_EXEC_TIMEOUT="7200", HCCL_EVENT_TIMEOUT="1868")
    finding = warns("variables-timeouts", low, "1868 s")
    assert "export HCCL_EVENT_TIMEOUT=7232" in commands(finding)
    unset = a2(HCCL_EXEC_TIMEOUT="7200")  # torch_npu adds 30 s to it
    passes("variables-timeouts", unset)
    fine = a2(HCCL_EXEC_TIMEOUT="7200", HCCL_EVENT_TIMEOUT="7300")
    passes("variables-timeouts", fine)
    passes("variables-timeouts", a2(HCCL_CONNECT_TIMEOUT="1200"), "1220 s")
    assert not run("variables-timeouts", a2(HCCL_CONNECT_TIMEOUT="300"))[0].observed


def test_allocator() -> None:
    both = "expandable_segments:True,max_split_size_mb:64"
    fails("variables-allocator", a2(PYTORCH_NPU_ALLOC_CONF=both), "max_split_size_mb")
    fine = "expandable_segments:False,max_split_size_mb:64"
    passes("variables-allocator", a2(PYTORCH_NPU_ALLOC_CONF=fine))
    warns("variables-allocator", a3(TORCH_HCCL_ZERO_COPY="1"), "expandable_segments")
    expandable = a3(TORCH_HCCL_ZERO_COPY="1", PYTORCH_NPU_ALLOC_CONF="expandable_segments:True")
    passes("variables-allocator", expandable)
    two = having(expandable, "environment", withheld=("PYTORCH_ALLOC_CONF",))
    warns("variables-allocator", two, "both set")


def test_overflow() -> None:
    fails("variables-overflow", a2(INF_NAN_MODE_ENABLE="0"), "refused on A2")
    first = having(a2(INF_NAN_MODE_ENABLE="0"), "npus", devices=(npu(0, name="910ProB"),))
    passes("variables-overflow", first)
    unknown = having(having(first, "npus", devices=()), "driver", pci=())
    warns("variables-overflow", unknown, "unknown chip")
    forced = {"INF_NAN_MODE_ENABLE": "0", "INF_NAN_MODE_FORCE_DISABLE": "1"}
    passes("variables-overflow", a2(**forced))
    strict = a2(**forced, HCCL_DETERMINISTIC="strict")
    warns("variables-overflow", strict, "strict")


def test_two_names_of_one_setting() -> None:
    names = ("TORCH_HCCL_ASYNC_ERROR_HANDLING", "HCCL_ASYNC_ERROR_HANDLING")
    warns("variables-agree", a2(**dict(zip(names, "01", strict=True))), *names)
    passes("variables-agree", a2(**dict.fromkeys(names, "1")))
    void = a2(ASCEND_LAUNCH_BLOCKING="1", TASK_QUEUE_ENABLE="2")
    passes("variables-agree", void, "no effect")


def test_white_list() -> None:
    fails("variables-whitelist", a2(HCCL_WHITELIST_DISABLE="0"), "WHITELIST_FILE")
    facts = having(a2(HCCL_WHITELIST_DISABLE="0"), "environment", withheld=("HCCL_WHITELIST_FILE",))
    passes("variables-whitelist", facts)


def test_port_ranges_of_hccl() -> None:
    names = ("HCCL_HOST_SOCKET_PORT_RANGE", "HCCL_NPU_SOCKET_PORT_RANGE")
    passes("port-ranges", a2(**{names[0]: "60000-60050"}), "without")
    same = dict.fromkeys(names, "60000-60050")
    warns("port-ranges", a2(**same), "overlap")
    apart = {names[0]: "60000-60050", names[1]: "61000-61050"}
    assert not run("port-ranges", a2(**apart))[0].observed


def test_memory_of_buffers() -> None:
    passes("variables-memory", a2(HCCL_BUFFSIZE="1000"), "23 GB")
    assert not run("variables-memory", a2(HCCL_BUFFSIZE="200"))[0].observed
    small = having(
        a2(HCCL_BUFFSIZE="400"), "npus", devices=(npu(0, hbm=Usage(used=1, total=32768)),)
    )
    passes("variables-memory", small, "9 GB")


@pytest.mark.parametrize("name", ["HCCL_BUFFSIZE", "P2P_HCCL_BUFFSIZE"])
def test_buffers_larger_than_a_device(name: str) -> None:
    fails("variables-memory", a2(**{name: "40000"}), "40000")
    without_npus = Snapshot(environment=a2(**{name: "209715200"}).environment)
    fails("variables-memory", without_npus, name)
    unread = Snapshot(environment=a2(P2P_HCCL_BUFFSIZE="20").environment)
    passes("variables-memory", unread)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("HCCL_OP_EXPANSION", "HCCL_OP_EXPANSION_MODE"),
        ("P2P_HCCL_BUFFER_SIZE", "P2P_HCCL_BUFFSIZE"),
        ("PYTORCH_NPU_ALLOC_CONFIG", "PYTORCH_NPU_ALLOC_CONF"),
        ("HCCL_IF", ""),
        ("ASCEND_HOME", ""),
    ],
)
def test_names_with_words_left_out(name: str, meant: str) -> None:
    assert variable_meant(name, NAMES) == meant


def test_max_connections() -> None:
    passes("max-connections", a2(CUDA_DEVICE_MAX_CONNECTIONS="1"), "")
    passes("max-connections", a2(CUDA_DEVICE_MAX_CONNECTIONS="2"), "")
