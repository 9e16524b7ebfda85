"""Tables in the docs that are made from ``results/*.tsv``.

A page says where a table comes from in a comment above it, and optionally which columns and rows::

    <!-- results/paper_ecm_claims.tsv -->
    <!-- results/peers.tsv | by, bytes | question = quantiles, different users -->

In names and values a semicolon stands for a comma.

``python tables.py`` writes the tables under such comments anew; ``tests/unit/test_tables.py`` fails
if one is not what its file says.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parent
PAGES = ROOT.parent / "docs"
_COMMENT = re.compile(r"<!-- results/(?P<file>[\w.]+)(?P<choice>[^\n]*?) -->\n")
_TABLE = re.compile(r"(?:\|[^\n]*\n)*")


def rows_of(file):
    """Column names, and the rows of a result file."""
    lines = (ROOT / "results" / file).read_text().splitlines()
    names, *rows = [line.split("\t") for line in lines if not line.startswith("#")]
    return names, rows


def cell(text):
    """Whole numbers with separators, powers of ten as such."""
    if re.fullmatch(r"-?\d{4,}", text):
        return f"{int(text):,}"
    number = re.fullmatch(r"(-?[\d.]+)e([+-]\d+)", text)
    if number:
        value = float(text)
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2g}"
    return {"True": "yes", "False": "no"}.get(text, text.replace("|", "\\|"))


def listed(text):
    """What a comment lists."""
    return [part.strip().replace(";", ",") for part in text.split(",")]


def rendered(file, choice):
    """A table in Markdown."""
    names, rows = rows_of(file)
    _, columns, *conditions = [part.strip() for part in f"{choice}||".split("|")]
    for condition in filter(None, conditions):
        name, values = condition.split("=")
        allowed = listed(values)
        rows = [row for row in rows if row[names.index(name.strip())] in allowed]
    chosen = listed(columns) if columns else names
    places = [names.index(name) for name in chosen]
    if not rows:
        raise ValueError(f"no rows of {file} for {choice}")
    lines = [chosen, ["---"] * len(chosen), *([cell(row[i]) for i in places] for row in rows)]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def renewed(page):
    """The text of a page with all its tables as the files say."""
    parts, end = [], 0
    for comment in _COMMENT.finditer(page):
        table = _TABLE.match(page, comment.end())
        parts += [page[end : comment.end()], rendered(comment["file"], comment["choice"])]
        end = table.end()
    return "".join([*parts, page[end:]])


def main():
    for path in sorted(PAGES.glob("*.md")):
        text = path.read_text()
        if renewed(text) != text:
            path.write_text(renewed(text))
            print("renewed", path.name)


if __name__ == "__main__":
    main()
