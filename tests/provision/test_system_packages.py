"""What installs CANN, by the documents: for an administrator, never run by setup."""

import pytest

from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.provision.system_packages import install_commands


# Commands of the installation guides of 8.5.0 and 9.0.0.
@pytest.mark.parametrize(
    ("version", "family", "documented"),
    [
        (
            "9.0.0",
            "ascend910b",
            {
                "apt-get": "sudo apt-get install ascend-cann-toolkit=9.0.0 "
                "ascend-cann-910b-ops=9.0.0",
                "yum": "sudo yum install -y Ascend-cann-toolkit-9.0.0 Ascend-cann-910b-ops-9.0.0",
                "conda": "conda install ascend::cann-toolkit==9.0.0 ascend::cann-910b-ops==9.0.0",
            },
        ),
        (
            "8.5.0",
            "ascend910_93",
            {
                "apt-get": "sudo apt-get install ascend-cann-toolkit=8.5.0 "
                "ascend-cann-a3-ops=8.5.0",
                "yum": "sudo yum install -y Ascend-cann-toolkit-8.5.0 Ascend-cann-A3-ops-8.5.0",
            },
        ),
        ("8.5.0", None, {"apt-get": "sudo apt-get install ascend-cann-toolkit=8.5.0"}),
        # Others have another spelling, or were never said.
        ("9.1.0-beta.3", "ascend910b", {}),
        ("8.3.RC1", "ascend910b", {}),
    ],
)
def test_commands_are_those_of_the_guides(
    version: str, family: str | None, documented: dict[str, str]
) -> None:
    commands = install_commands(Catalog(), "cann", version, family)
    by_name = {manager.name: command for manager, command in commands.items()}
    assert documented.items() <= by_name.items()
    assert bool(documented) == bool(by_name)


def test_other_components_of_the_system_have_none() -> None:
    assert install_commands(Catalog(), "driver", "25.5.0", "ascend910b") == {}
