"""Generated tables in the docs, mostly from ``results/*.tsv``.

A comment in a page names the file of the table below it, and optionally selects columns and rows::

    <!-- results/paper_ecm_claims.tsv -->
    <!-- results/peers.tsv | by, bytes | question = quantiles, different users -->

A semicolon in names and values stands for a comma. Other tables come from the sources:
``<!-- questions -->`` has the questions that can be asked of columns of sketches,
``<!-- sketches -->`` what sketches take and how they merge, ``<!-- modules -->`` the tree of
modules with the first lines of their docstrings, and ``<!-- file examples/x.py -->`` that file.

``python tables.py`` writes all tables; ``tests/unit/test_tables.py`` fails if one is out of date.
"""

import ast
import re
from inspect import Parameter, signature
from pathlib import Path

ROOT = Path(__file__).parent
PAGES = ROOT.parent / "docs"
_KINDS = "results/|questions|sketches|modules|file "
_COMMENT = re.compile(rf"<!-- (?P<kind>{_KINDS})(?P<rest>[^\n]*?) ?-->\n")
_TABLE = re.compile(r"(?:\|[^\n]*\n)*")
_FILE = re.compile(r"(?:```\w+\n.*?^```\n)?", re.DOTALL | re.MULTILINE)


def rows_of(file):
    """Return the column names and the rows of a result file."""
    lines = (ROOT / "results" / file).read_text().splitlines()
    names, *rows = [line.split("\t") for line in lines if not line.startswith("#")]
    return names, rows


def cell(text):
    """Format a number: integers with separators, powers of ten as such."""
    if re.fullmatch(r"-?\d{4,}", text):
        return f"{int(text):,}"
    number = re.fullmatch(r"(-?[\d.]+)e([+-]\d+)", text)
    if number:
        value = float(text)
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2g}"
    return {"True": "yes", "False": "no"}.get(text, text.replace("|", "\\|"))


def listed(text):
    """Return the names that a comment lists."""
    return [part.strip().replace(";", ",") for part in text.split(",")]


def rendered(file, choice):
    """Return a table in Markdown."""
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
    """Return the table of questions that ``estimate`` and ``frequent`` can ask."""
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
    """Whether a question returns this kind of answer, and needs no Python function."""
    return question.gives == gives and question.takes(dict.fromkeys(question.literals))


def variants():
    """Return sketches of all classes by constructor call, also with settings that matter here."""
    import recency
    from recency.decay import NoDecay

    needed = {"decay": NoDecay()}
    for name in sorted(recency.__all__):
        cls = getattr(recency, name)
        if not isinstance(cls, type) or not issubclass(cls, recency.Sketch) or name == "Sketch":
            continue
        settings = signature(cls).parameters
        given = {
            key: value
            for key, value in needed.items()
            if key in settings and settings[key].default is Parameter.empty
        }
        yield name, cls(**given)
        for key, value in {"names": True, "counter": "rw"}.items():
            if key in settings:
                yield f"{name}({key}={value!r})".replace("'", '"'), cls(**given, **{key: value})


def takes_ids(sketch):
    """Whether events may have ids."""
    if "id" not in signature(sketch.update).parameters:
        return False
    try:
        sketch.copy().update(1, at=1, id=1)
    except TypeError:
        return False
    return True


def sketches():
    """Return the table of what sketches declare."""
    lines = [
        "| sketch | `update` | events | merging | events draw coins |",
        "| --- | --- | --- | --- | --- |",
    ]
    for made, sketch in variants():
        takes = [
            name
            for name in signature(sketch.update).parameters
            if name != "id" or takes_ids(sketch)
        ]
        order = "in time order" if sketch.needs_order else "in any order"
        coins = "" if not sketch._algorithm.draws_coins else "unless they have an `id`"
        lines.append(
            f"| `{made}` | `{', '.join(takes)}` | {order} | `{sketch.merge_law}` | {coins} |"
        )
    return "".join(line + "\n" for line in lines)


def modules():
    """Return the tree of modules with the first lines of their docstrings; files, then folders."""
    lines = []

    def add(module, name, depth):
        lines.append(f"{'  ' * depth + name:<38}{summary(module)}\n")

    def add_folder(folder, depth):
        add(folder / "__init__.py", folder.name + "/", depth)
        for file in sorted({*folder.glob("*.py")} - {folder / "__init__.py"}):
            add(file, file.name, depth + 1)
        for inner in sorted(each.parent for each in folder.glob("*/__init__.py")):
            add_folder(inner, depth + 1)

    add_folder(ROOT.parent / "src" / "recency", 0)
    return f"```text\n{''.join(lines)}```\n"


def summary(file):
    """Return the first line of a module's docstring, without markup."""
    line = ast.get_docstring(ast.parse(file.read_text())).splitlines()[0]
    return line.replace("``", "").rstrip(".")


def source(file):
    """Return the text of a file as a block of code."""
    return f"```python\n{(ROOT.parent / file).read_text()}```\n"


def has_any(page):
    """Whether a page has any generated table."""
    return _COMMENT.search(page) is not None


def renewed(page):
    """Return the text of a page with all generated tables up to date."""
    parts, end = [], 0
    for comment in _COMMENT.finditer(page):
        kind, rest = comment["kind"], comment["rest"]
        old = (_FILE if kind in ("file ", "modules") else _TABLE).match(page, comment.end())
        match kind:
            case "questions":
                made = questions()
            case "sketches":
                made = sketches()
            case "modules":
                made = modules()
            case "file ":
                made = source(rest)
            case _:
                file, choice = re.fullmatch(r"([\w.]+)(.*)", rest).groups()
                made = rendered(file, choice)
        parts += [page[end : comment.end()], made]
        end = old.end()
    return "".join([*parts, page[end:]])


def main():
    for path in sorted(PAGES.glob("*.md")):
        text = path.read_text()
        if renewed(text) != text:
            path.write_text(renewed(text))
            print("renewed", path.name)


if __name__ == "__main__":
    main()
