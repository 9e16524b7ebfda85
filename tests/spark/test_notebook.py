"""The notebook runs from top to bottom."""

import json
from pathlib import Path

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebooks" / "quickstart.ipynb"


def test_the_quickstart_runs(spark, capsys):
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    names = {"__name__": "__main__"}
    for number, cell in enumerate(cells):
        exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
    assert names["merged"] == names["sketches"]["visitors"]
    printed = capsys.readouterr().out
    assert printed.count("Estimate(") == 3 * 2 + 3 + 1
    assert "everybody" in printed
