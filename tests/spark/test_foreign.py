"""Sketches of a package that this one does not know work like those of this package.

The package is written into a temporary folder under a new name, and put on the path of the driver
and of the workers, as an installation would.
"""

import importlib
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st
from pyspark.sql import functions as F

from recency import Bank, loads
from recency.spark import functions as R
from recency.spark import merge_df, on, register, sketch_df, sketch_many
from recency.testing import SketchCase, checks

SOURCES = Path(__file__).parents[1] / "foreign"
NAME = "a_package_of_strangers"
NAMES = ("peak", "every_event")


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """Return the folder of the package."""
    folder = tmp_path_factory.mktemp("elsewhere")
    shutil.copytree(SOURCES, folder / NAME, ignore=shutil.ignore_patterns("__pycache__"))
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def cases(package):
    peak, every_event = (importlib.import_module(f"{NAME}.{name}") for name in NAMES)
    return {"peak": case_of_peak(peak.Peak), "every_event": case_of_every_event(every_event)}


@pytest.fixture(scope="module")
def workers(spark, package):
    """Return a session whose workers have the package."""
    archive = shutil.make_archive(str(package / NAME), "zip", package, NAME)
    spark.addArtifacts(archive, pyfile=True)
    return spark


def events(least):
    times, values = st.integers(-30, 30), st.integers(least, 5)
    return st.lists(st.fixed_dictionaries({"value": values, "at": times}), max_size=40)


def stream(size):
    """Return events, 50 per tick."""
    rng = np.random.default_rng(size)
    return {"value": rng.integers(0, 1000, size), "at": rng.integers(0, size // 50 + 1, size)}


def no_integers(name, rest):
    return [("update", {**rest, name: bad}, TypeError) for bad in (1.5, None, "1", True, [1])]


BAD_UPDATES = [
    *no_integers("value", {"at": 1}),
    *no_integers("at", {"value": 1}),
    ("update", {"value": 1, "at": 2**63}, ValueError),
    ("update_many", {"value": [1, 2], "at": [1, 2, 3]}, ValueError),
    ("update_many", {"value": [1, None], "at": [1, 2]}, TypeError),
]


def case_of_peak(cls):
    return SketchCase(
        name="Peak",
        make=cls,
        events=events(least=-5),
        questions=lambda events: [{}],
        exact=lambda events, question: max((event["value"] for event in events), default=0),
        stream=stream,
        varied={"unit": lambda: cls("s")},
        bad_updates=BAD_UPDATES,
        most_bytes=60,
        certain=True,
        more_questions=[lambda sketch: sketch.times()],
    )


def case_of_every_event(module):
    def latest(events):
        return max((event["at"] for event in events), default=0)

    def questions(events):
        asked = [{"window": w, "now": latest(events) + n} for w in (1, 3, 20) for n in (0, 1, 25)]
        return [{}, *asked]

    def exact(events, question):
        since = question.get("now", latest(events)) - question.get("window", 20)
        return sum(event["value"] for event in events if event["at"] > since)

    return SketchCase(
        name="EveryEvent",
        make=lambda: module.EveryEvent(20),
        events=events(least=0),
        questions=questions,
        exact=exact,
        stream=stream,
        varied={
            "window": lambda: module.EveryEvent(21),
            "unit": lambda: module.EveryEvent(20, "s"),
        },
        bad_updates=[*BAD_UPDATES, ("update", {"value": module.MOST + 1, "at": 1}, ValueError)],
        most_bytes=5_000,  # some 1 000 events in the window, 3 bytes for each, and headers
        certain=True,
    )


@pytest.mark.parametrize("name", NAMES)
def test_all_laws_hold(cases, name):
    failed = []
    for check in checks(cases[name]):
        try:
            check()
        except Exception as error:
            failed.append(f"{check}: {error!r}")
    assert not failed


def test_a_small_sketch_has_few_lines():
    lines = (SOURCES / "peak.py").read_text().splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("@dataclass"))
    assert sum(bool(line.strip()) for line in lines[begin:]) < 60


ROWS = 4_000


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    return rng.integers(0, 20_000, ROWS), rng.integers(0, 1_000, ROWS), np.arange(ROWS) % 3


@pytest.fixture(scope="module")
def frame(workers, rows):
    columns = zip(*(column.tolist() for column in rows), strict=True)
    frame = workers.createDataFrame(list(columns), "seconds long, value long, page long")
    return frame.withColumn("t", F.timestamp_seconds("seconds")).repartition(3).cache()


@pytest.fixture(params=NAMES)
def prototype(cases, request):
    made = cases[request.param].make()
    settings = {name: getattr(made.config, name) for name in vars(made.config)}
    return type(made)(**{**settings, "unit": "s"})


@pytest.fixture
def bank(prototype, rows):
    """Return a sketch of each page, built on the driver."""
    at, values, pages = rows
    made = Bank(prototype)
    made.update_many(pages, values, at=at)
    return made


@pytest.fixture
def truth(prototype, rows):
    """Return the exact answer for each page."""
    answers = {}
    for page in np.unique(rows[2]).tolist():
        at, values, _ = (column[rows[2] == page] for column in rows)
        if hasattr(prototype.config, "window"):
            answers[page] = values[at > at.max() - prototype.config.window].sum()
        else:
            answers[page] = values.max()
    return answers


def whole(prototype, rows):
    at, values, _ = rows
    sketch = prototype.empty_like()
    sketch.update_many(values, at=at)
    return sketch


def test_a_sketch_of_all_rows(prototype, frame, rows):
    assert sketch_df(frame, prototype, at="t", value="value") == whole(prototype, rows)


@pytest.mark.parametrize("shuffle", ["rows", "partials"])
def test_a_sketch_of_each_group(prototype, frame, rows, bank, shuffle):
    columns = {"at": "t", "value": "value", "by": "page", "shuffle": shuffle}
    table = sketch_df(frame, prototype, **columns).cache()
    assert {row["page"]: bytes(row["sketch"]) for row in table.collect()} == bank.to_bytes()
    assert merge_df(table) == whole(prototype, rows)
    merged = merge_df(table.withColumn("all", F.lit("all")), by="all").collect()
    assert [loads(row["sketch"]) for row in merged] == [whole(prototype, rows)]


def test_several_in_one_scan(cases, frame, rows):
    wanted = {name: on(cases[name].make(), at="seconds", value="value") for name in NAMES}
    for name, sketch in sketch_many(frame, wanted).items():
        assert sketch == whole(cases[name].make(), rows)


def test_questions_to_a_column(prototype, frame, bank, truth):
    built = frame.groupBy("page").agg(R.sketch_agg(prototype, at="t", value="value"))
    answers = built.select("page", R.estimate("sketch").alias("e"), R.describe("sketch").alias("d"))
    rows = answers.collect()
    assert {row["page"]: row["e"]["estimate"] for row in rows} == truth
    assert all(row["e"]["lower"] == row["e"]["estimate"] == row["e"]["upper"] for row in rows)
    assert {row["page"]: row["d"] for row in rows} == {key: repr(bank[key]) for key in bank}


def test_sql(prototype, workers, frame, truth):
    register(workers, {"strange": prototype})
    zone = workers.conf.get("spark.sql.session.timeZone")
    workers.conf.set("spark.sql.session.timeZone", "UTC")  # as docs/functions.md says for Spark 4.0
    try:
        frame.createOrReplaceTempView("strange_events")
        table = workers.sql(
            "SELECT page, recency_estimate(strange_agg(t, value), 'query', NULL).estimate AS value "
            "FROM strange_events GROUP BY page"
        )
        found = {row["page"]: row["value"] for row in table.collect()}
    finally:
        workers.conf.set("spark.sql.session.timeZone", zone)
    assert found == truth


def test_sketches_are_pickled_on_their_way_to_workers_and_back(prototype, workers, rows):
    at, values, _ = rows

    def updated(part):
        sketch, rows = part
        sketch.update_many(values[rows], at=at[rows])
        return sketch

    parts = [(prototype.empty_like(), slice(i, None, 4)) for i in range(4)]
    first, *others = workers.sparkContext.parallelize(parts, 4).map(updated).collect()
    for other in others:
        first.merge(other)
    assert type(first) is type(prototype)
    assert first == whole(prototype, rows)
