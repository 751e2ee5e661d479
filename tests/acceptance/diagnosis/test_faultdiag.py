"""The fixtures of the vendor's log analyser have the root cause and the device of their labels."""

import pytest

from tests.acceptance.diagnosis import faultdiag
from tests.acceptance.diagnosis.faultdiag import Label


@pytest.mark.parametrize("label", list(faultdiag.labels()), ids=lambda label: label.name)
def test_a_fixture_has_the_device_that_its_own_test_asserts(label: Label) -> None:
    answer = faultdiag.diagnose_label(label)
    assert answer.root == label.root
    assert answer.named(label.devices) in {"right", "not judged"}
