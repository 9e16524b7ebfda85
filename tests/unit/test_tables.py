"""Figures in the docs are those of the result files."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("tables", ROOT / "benchmarks" / "tables.py")
tables = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(tables)
PAGES = {path.name: path.read_text() for path in sorted(tables.PAGES.glob("*.md"))}
WITH_TABLES = [
    name for name, text in PAGES.items() if "<!-- results/" in text or "<!-- questions" in text
]


@pytest.mark.parametrize("page", WITH_TABLES)
def test_tables_are_what_their_files_say(page):
    """If not: ``python benchmarks/tables.py``."""
    assert tables.renewed(PAGES[page]) == PAGES[page]


def test_the_page_that_compares_has_tables_of_all_papers():
    text = PAGES["comparison.md"]
    for paper in ("ecm", "correlated", "decayed", "waves"):
        assert f"<!-- results/paper_{paper}_claims.tsv" in text
    assert "<!-- results/peers.tsv" in text


def test_a_changed_figure_is_noticed():
    text = PAGES["comparison.md"]
    begin = text.index("<!-- results/peers.tsv")
    digit = next(i for i in range(text.index("bytes", begin) + 40, len(text)) if text[i].isdigit())
    other = text[:digit] + str((int(text[digit]) + 1) % 10) + text[digit + 1 :]
    assert tables.renewed(other) == text != other


def test_columns_and_rows_are_chosen():
    names, rows = tables.rows_of("peers.tsv")
    assert names[0] == "question"
    table = tables.rendered("peers.tsv", "| by, bytes | question = quantiles").splitlines()
    assert table[:2] == ["| by | bytes |", "| --- | --- |"]
    assert len(table) == 2 + sum(row[0] == "quantiles" for row in rows)
    with pytest.raises(ValueError, match="no rows of peers"):
        tables.rendered("peers.tsv", "| by | question = nonsense")


def test_questions_are_those_that_classes_declare():
    table = tables.questions()
    assert "| `NthRecentWave` | `query(n, now)` |  |" in table
    assert "`heavy_hitters(threshold, window, now)`" in table
    assert "selectivity" not in table  # it needs a Python function
    assert "query_many" not in table
