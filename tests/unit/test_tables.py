"""Figures in the docs agree with the result files."""

import importlib.util
import re
from pathlib import Path

import pytest

from cases import CASES
from recency import DyadicEcm, EcmSketch

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("tables", ROOT / "benchmarks" / "tables.py")
tables = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(tables)
PAGES = {path.name: path.read_text() for path in sorted(tables.PAGES.glob("*.md"))}
WITH_TABLES = [name for name, text in PAGES.items() if tables.has_any(text)]


@pytest.mark.parametrize("page", WITH_TABLES)
def test_tables_agree_with_their_files(page):
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


def test_the_table_of_questions_agrees_with_the_classes():
    table = tables.questions()
    assert "| `NthRecentWave` | `query(n, now)` |  |" in table
    assert "`heavy_hitters(threshold, window, now)`" in table
    assert "selectivity" not in table  # it needs a Python function
    assert "query_many" not in table


def test_the_table_of_sketches_agrees_with_the_classes():
    table = tables.sketches()
    assert "| `NthRecentWave` | `value, at` | in time order | `exact` |  |" in table
    assert "| `EcmSketch` | `item, at, weight` | in time order | `bounded` |  |" in table
    assert (
        '| `EcmSketch(counter="rw")` | `item, at, weight, id` | in any order | `exact` |' in table
    )
    listed = {row.split("`")[1].split("(")[0] for row in table.splitlines()[2:]}
    assert listed == {type(case.make()).__name__ for case in CASES}


def test_every_module_is_in_the_tree_and_nothing_else():
    folder, named = [], set()
    tree = PAGES["architecture.md"].split("<!-- modules -->\n```text\n")[1].split("```")[0]
    for line in tree.splitlines():
        name, what = line.split()[0], line.split()[1:]
        assert what, line
        folder = folder[: (len(line) - len(line.lstrip())) // 2]
        if name.endswith("/"):
            folder.append(name)
            named.add("".join(folder) + "__init__.py")
        else:
            named.add("".join(folder) + name)
    source = ROOT / "src"
    assert named == {path.relative_to(source).as_posix() for path in source.rglob("*.py")}


def _rows_of_readme():
    """Return what the table of the README has for each sketch: stream, and merging."""
    page = (ROOT / "README.md").read_text()
    above = ("", "")
    for line in page.splitlines():
        if line.startswith("| [`"):
            name, _, stream, _, merging = (cell.strip() for cell in line.strip("|").split("|"))
            above = (
                above[0] if stream == "the same" else stream,
                above[1] if merging == "the same" else merging,
            )
            yield name.split("`")[1], *above


def test_the_readme_agrees_with_the_sketches():
    rows = {name: rest for name, *rest in _rows_of_readme()}
    made = dict(tables.variants())
    forgiving = {type(case.make()).__name__ for case in CASES if case.ignores_duplicates}
    assert set(rows) == {name.split("(")[0] for name in made}
    for name, (stream, merging) in rows.items():
        sketch, sampled = made[name], made.get(f'{name}(counter="rw")')
        assert stream.startswith("in time order" if sketch.needs_order else "any order"), name
        assert merging.startswith("exact" if sketch.merge_law == "exact" else "error grows"), name
        assert ("duplicates" in stream) == (name in forgiving), name
        assert ("(or any, sampled)" in stream) == (sampled is not None), name
        assert ("(sampled: exact)" in merging) == (sampled is not None), name
        assert sampled is None or (sampled.merge_law == "exact" and not sampled.needs_order), name


def test_the_page_of_ecm_sketches_agrees_with_the_counters():
    rows = re.findall(r'^\| `"(\w+)"` [^|]*\| ([^|]*) \| ([^|]*) \|', PAGES["ecm.md"], re.MULTILINE)
    assert [counter for counter, _, _ in rows] == ["eh", "dw", "rw"]
    merging_above = ""
    for counter, stream, merging in rows:
        merging = merging_above if merging == "the same" else merging
        merging_above = merging
        for cls in (EcmSketch, DyadicEcm):
            sketch = cls(counter=counter)
            assert stream == ("in time order" if sketch.needs_order else "any order")
            assert merging.startswith("exact" if sketch.merge_law == "exact" else "error grows")


# Pages about one sketch may say how that one merges; others must not list it by hand.
LISTS = re.compile(r"(?:`[A-Z]\w+`(?:,| and|, and) ){2,}`[A-Z]\w+`")


@pytest.mark.parametrize("page", ["contract.md", "spark.md", "daily_sketches.md", "functions.md"])
def test_pages_list_sketches_in_generated_tables_only(page):
    """A list in prose is wrong as soon as a sketch is added."""
    names = set(tables.sketches().replace("(", "`").split("`"))
    for found in LISTS.findall(" ".join(PAGES[page].split())):
        listed = set(found.split("`")) & names
        assert len(listed) < 3, found
