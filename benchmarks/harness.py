"""Timing, budgets and result files for all benchmarks."""

import gc
import os
import platform
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def seconds(run: Callable[[], object], repeat: int = 5) -> float:
    """Best of several runs: the machine is noisy, and noise only ever adds."""
    best = float("inf")
    for _ in range(repeat):
        gc.collect()
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


class Report:
    """Prints one line per figure and writes them all to ``results/<name>.tsv``."""

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
