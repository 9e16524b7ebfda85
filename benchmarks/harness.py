"""Timing, budgets and result files for all benchmarks."""

import gc
import os
import platform
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parent.parent / "docs"


def seconds(run: Callable[[], object], repeat: int = 5) -> float:
    """Return the best of several runs, since noise of the machine only adds time."""
    best = float("inf")
    for _ in range(repeat):
        gc.collect()
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def feed(sketch, columns: dict, batch: int, events: int | None = None):
    """Return the sketch after this number of events, in batches, with an empty buffer."""
    size = events or len(columns["at"])
    for begin in range(0, size, batch):
        part = slice(begin, min(begin + batch, size))
        sketch.update_many(**{name: column[part] for name, column in columns.items()})
    sketch.query()
    return sketch


def write_table(name: str, columns: list[str], rows: list[tuple]) -> None:
    """Print a table, and write it to ``results/<name>.tsv``."""
    lines = ["\t".join(columns)]
    lines += [
        "\t".join(f"{x:.4g}" if isinstance(x, float) else str(x) for x in row) for row in rows
    ]
    (RESULTS / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    print(f"\n{name}", *lines, sep="\n")


def save(figure, name: str) -> None:
    """Save a picture for the docs; logarithmic axes have labels at powers of ten only."""
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            if axis.get_scale() == "log" and high > 10 * low:
                axis.set_minor_formatter(lambda value, place: "")
    figure.tight_layout()
    figure.savefig(DOCS / f"{name}.png", dpi=90)


class Report:
    """Prints one line per figure, and writes all lines to ``results/<name>.tsv``."""

    def __init__(self, name: str) -> None:
        self._path = RESULTS / f"{name}.tsv"
        self._rows: list[tuple[str, str, str, str]] = []
        print(f"\n{name}")

    def add(
        self,
        what: str,
        figure: float,
        unit: str,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> None:
        budget = ""
        if at_least is not None:
            budget = f"≥ {at_least:g}: {'met' if figure >= at_least else 'MISSED'}"
        if at_most is not None:
            budget = f"≤ {at_most:g}: {'met' if figure <= at_most else 'MISSED'}"
        self._rows.append((what, f"{figure:.4g}", unit, budget))
        print(f"  {what:<66}{figure:>10.4g} {unit:<12}{budget}")

    def write(self) -> None:
        commit = _git("rev-parse", "--short", "HEAD") or "unknown"
        if _git("status", "--porcelain", "--", ".", ":!benchmarks/results"):
            commit += " with changes"
        python = f"Python {platform.python_version()}"
        machine = f"{os.cpu_count()} cores, {platform.machine()}, {python}"
        lines = [f"# commit {commit}; {machine}", "what\tfigure\tunit\tbudget"]
        lines += ["\t".join(row) for row in self._rows]
        RESULTS.mkdir(exist_ok=True)
        self._path.write_text("\n".join(lines) + "\n")


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    return done.stdout.strip()
