"""Tables where the reader's terminal is wide, and where it is not."""

import pytest

from opsguard_defs.cli.output import table

pytestmark = pytest.mark.fast
COMMAND = "`opsguard ledger resolve quarry-3:2026-12-01:reminder --sent --by YOU`"
COLUMNS = ("", "slot", "due (UTC)", "why")
ROWS = [("!", "quarry-3:2026-12-01:reminder", "2026-12-01 09:00", f"It may have been sent: {COMMAND}"), ("", "a", "", "x")]


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.rstrip() for line in capsys.readouterr().out.splitlines() if line.strip()]


@pytest.mark.parametrize("width", ["20", "60", "79"])
def test_where_it_is_narrow_each_row_is_a_paragraph_and_what_is_copied_is_not_folded(monkeypatch, capsys, width):
    monkeypatch.setenv("COLUMNS", width)
    table(COLUMNS, ROWS, title="owed")
    assert lines(capsys) == [
        "owed",
        "!  quarry-3:2026-12-01:reminder",
        "  due (UTC): 2026-12-01 09:00",
        f"  why: It may have been sent: {COMMAND}",
        "a",
        "  why: x",
    ]


@pytest.mark.parametrize("width", ["82", "160"])
def test_where_it_is_wide_enough_names_stand_on_one_line(monkeypatch, capsys, width):
    monkeypatch.setenv("COLUMNS", width)
    table(COLUMNS, ROWS)
    head, *_ = [line for line in lines(capsys) if "quarry" in line]
    assert head.split("  ")[0].strip() == "!"
    assert "quarry-3:2026-12-01:reminder" in head
    assert "2026-12-01 09:00" in head


def test_a_table_without_rows_has_its_columns(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "20")
    table(("a", "b"), [])
    assert lines(capsys)[0].split() == ["a", "b"]
