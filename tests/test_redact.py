import ipaddress
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.facts import Environment, Hccn, HccnDevice, Host, Interface, Snapshot
from ascend_doctor.redact import Redactor, redactor
from ascend_doctor.redact.meanings import FAMILY

KEY = b"k" * 16
addresses = st.ip_addresses(v=4).map(str)


def test_home_host_and_other_users_are_hidden() -> None:
    hidden = Redactor(host="node7", home="/home/alice", key=KEY)
    text = hidden.text("node7:/home/alice/run and /home/bob/run on node77")
    assert "node7:" not in text
    assert "alice" not in text
    assert "bob" not in text
    assert "~/run" in text
    assert text.endswith("on node77")


def test_a_quoted_home_stays_a_path_that_a_shell_expands() -> None:
    hidden = Redactor(home="/home/alice", key=KEY)
    assert hidden.text("source '/home/alice/a b/set_env.sh'") == "source ~/'a b/set_env.sh'"


def test_paths_of_facts_and_recordings_stay_full_paths() -> None:
    hidden = Redactor(home="/home/alice", key=KEY)
    fact = hidden.fact('{"prefix": "/home/alice/venv", "base_prefix": "/home/alice2"}')
    assert json.loads(fact)["prefix"] == "/home/user/venv"
    assert "alice" not in fact


def test_an_address_behind_a_colon_is_hidden_like_any_other() -> None:
    hidden = Redactor(addresses=["192.0.2.10", "2001:db8::1"], key=KEY)
    named = hidden.text("192.0.2.10")
    assert named != "192.0.2.10"
    assert hidden.text("ipaddr:192.0.2.10:60000") == f"ipaddr:{named}:60000"
    text = hidden.text("a 2001:db8::1 b:2001:db8::1")
    assert text.startswith(f"a {hidden.text('2001:db8::1')} fd")
    assert "2001:db8" not in text, "what a colon begins is a longer address"


@pytest.mark.parametrize(
    "secret",
    [
        "HF_TOKEN=hf_abcdefghijklmnopqrst",
        "Authorization: Bearer abc.def-ghi_jkl",
        "https://user:pa55word@example.com/x.git",
        "password: correcthorse",
        "AKIAABCDEFGHIJKLMNOPQR",
        '{"api_key": "0123456789abcdef"}',
    ],
)
def test_secrets_are_hidden(secret: str) -> None:
    text = Redactor(key=KEY).text(secret)
    assert "[redacted]" in text
    for part in ("abcdefghij", "def-ghi", "pa55word", "correcthorse", "0123456789", "ABCDEFGHIJ"):
        assert part not in text


@given(addresses, addresses)
def test_addresses_keep_equality_and_subnets_below_the_first_octet(
    address: str, other: str
) -> None:
    hidden = Redactor(key=KEY)
    first, second = hidden.address(address), hidden.address(other)
    assert hidden.address(address) == first
    if ipaddress.ip_address(first) not in ipaddress.ip_network("10.0.0.0/8"):
        assert first == address
        return
    if second == other or address.split(".", maxsplit=1)[0] != other.split(".", maxsplit=1)[0]:
        return
    for size in range(8, 33):
        same = ipaddress.ip_network(f"{address}/{size}", strict=False) == ipaddress.ip_network(
            f"{other}/{size}", strict=False
        )
        assert same == (
            ipaddress.ip_network(f"{first}/{size}", strict=False)
            == ipaddress.ip_network(f"{second}/{size}", strict=False)
        )


def test_versions_with_four_parts_are_no_addresses() -> None:
    hidden = Redactor(addresses=["24.1.0.9"], key=KEY)
    assert hidden.text("driver 24.1.0.1, firmware 7.1.0.11.220") == (
        "driver 24.1.0.1, firmware 7.1.0.11.220"
    )


def test_loopback_and_masks_stay() -> None:
    text = "127.0.0.1 0.0.0.0 255.255.255.0"
    assert Redactor(addresses=text.split(), key=KEY).text(text) == text


def test_a_snapshot_is_redacted_throughout_and_still_a_snapshot() -> None:
    facts = Snapshot(
        host=Host(name="trainer-17"),
        environment=Environment(
            variables={"MASTER_ADDR": "51.7.8.9", "PYTHONPATH": "/home/alice/Megatron-LM"},
            interfaces=(Interface(name="eth0", addresses=("51.7.8.9",)),),
        ),
        hccn=Hccn(
            conf={"address_0": "61.1.1.7"}, devices=(HccnDevice(device=0, address="61.1.1.7"),)
        ),
    )
    clean = redactor(facts, home="/home/alice", key=KEY).apply(facts)
    assert clean.environment is not None
    assert clean.hccn is not None
    assert clean.hccn.conf is not None
    assert clean.environment.interfaces is not None
    assert clean.environment.variables["PYTHONPATH"] == "/home/user/Megatron-LM"
    assert (
        clean.environment.variables["MASTER_ADDR"] == clean.environment.interfaces[0].addresses[0]
    )
    assert clean.hccn.conf["address_0"] == clean.hccn.devices[0].address
    for secret in ("trainer-17", "51.7.8.9", "61.1.1.7", "alice"):
        assert secret not in repr(clean)


@given(st.text())
def test_no_text_makes_it_raise(text: str) -> None:
    Redactor(host="node7", home="/home/alice", addresses=["1.2.3.4"], key=KEY).text(text)


def test_no_heading_of_a_table_makes_it_raise() -> None:
    for heading in FAMILY:
        for kin in ("", "_no", "_id"):
            name = heading + kin
            Redactor().text(f"{name}  pid\nkx93  12\n\n| a | {name} |\n|---|---|\n| 1 | kx93 |\n")
