"""Tables in the docs that are made from ``results/*.tsv``.

A page says where a table comes from in a comment above it, and optionally which columns and rows::

    <!-- results/paper_ecm_claims.tsv -->
    <!-- results/peers.tsv | by, bytes | question = quantiles, different users -->

In names and values a semicolon stands for a comma. Under ``<!-- questions -->`` there is the table
of all questions that columns of sketches can be asked, as the classes declare them.

``python tables.py`` writes the tables under such comments anew; ``tests/unit/test_tables.py`` fails
if one is not what its file says.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parent
PAGES = ROOT.parent / "docs"
_COMMENT = re.compile(r"<!-- results/(?P<file>[\w.]+)(?P<choice>[^\n]*?) -->\n")
_QUESTIONS = re.compile(r"<!-- questions -->\n")
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


def questions():
    """The table of questions that ``estimate`` and ``frequent`` can ask."""
    import recency
    from recency.questions import questions_of

    lines = ["| sketch | `estimate` | `frequent` |", "| --- | --- | --- |"]
    for name in sorted(recency.__all__):
        declared = questions_of(getattr(recency, name)).values()
        of_kind = {
            gives: [
                f"`{each.name}({', '.join(each.literals)})`"
                for each in declared
                if fits(each, gives)
            ]
            for gives in ("estimate", "items")
        }
        if of_kind["estimate"]:
            lines.append(
                f"| `{name}` | {' '.join(of_kind['estimate'])} | {' '.join(of_kind['items'])} |"
            )
    return "\n".join(lines) + "\n"


def fits(question, gives):
    """Whether it gives that, and needs no Python function."""
    return question.gives == gives and question.takes(dict.fromkeys(question.literals))


def renewed(page):
    """The text of a page with all its tables as the files, and the classes, say."""
    parts, end = [], 0
    comments = [*_COMMENT.finditer(page), *_QUESTIONS.finditer(page)]
    for comment in sorted(comments, key=lambda each: each.start()):
        table = _TABLE.match(page, comment.end())
        is_of_questions = comment.re is _QUESTIONS
        made = questions() if is_of_questions else rendered(comment["file"], comment["choice"])
        parts += [page[end : comment.end()], made]
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
