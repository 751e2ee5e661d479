from tests.simulator import fidelity


def test_the_page_is_what_the_code_and_the_observations_say() -> None:
    for path, text in ((fidelity.PAGE, fidelity.page()), (fidelity.RECORD, fidelity.record())):
        assert path.read_text("utf-8") == text, "run python -m tests.simulator.fidelity"


def test_every_operator_has_a_row() -> None:
    page = fidelity.PAGE.read_text("utf-8")
    assert [
        operator.name
        for operator in fidelity.table()
        if operator.name.partition("::")[2] not in page
    ] == []
