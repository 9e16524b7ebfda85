"""Every exported sketch as a case of the law suite."""

import math
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from recency import (
    DecayedSample,
    DeterministicWave,
    DyadicEcm,
    EcmSketch,
    ExponentialHistogram,
    NthRecentWave,
    QuantileWave,
    RandomizedWave,
    SumWave,
    WeightBasedMergingHistogram,
)
from recency.decay import (
    Chordal,
    Custom,
    Exponential,
    FiniteExponential,
    NoDecay,
    PolyExponential,
    Polynomial,
    SlidingWindow,
)
from recency.testing import SketchCase


def _ordered_events(most_value):
    """Streams with ties, time without events, zeros and repeated values, in time order."""
    steps = st.lists(
        st.tuples(st.sampled_from([0, 0, 1, 1, 2, 7, 40]), st.integers(0, most_value)),
        max_size=120,
    )

    def accumulate(rows):
        times = np.cumsum([step for step, _ in rows]).tolist()
        return [{"value": value, "at": at} for at, (_, value) in zip(times, rows, strict=True)]

    return steps.map(accumulate)


def _latest(events):
    return max(event["at"] for event in events)


def _window_questions(largest):
    """Windows that begin one tick before, at, and after each event, for now and a bit later."""

    def questions(events):
        asked = [{}, {"window": 1}, {"window": largest}]
        if events:
            latest = _latest(events)
            starts = {event["at"] + shift for event in events for shift in (-1, 0, 1)}
            for now in (latest, latest + 3):
                widths = sorted({now - start for start in starts})
                asked += [{"window": w, "now": now} for w in widths if 1 <= w <= largest]
        return asked

    return questions


def _in_window(events, question, largest):
    if not events:
        return []
    start = question.get("now", _latest(events)) - question.get("window", largest)
    return [event for event in events if start < event["at"]]


def _window_sum(largest):
    def exact(events, question):
        return math.fsum(event["value"] for event in _in_window(events, question, largest))

    return exact


def _count_questions(events):
    return [{}] + [{"window": window} for window in range(1, 41)]


def _count_sum(events, question):
    window = question.get("window", 40)
    return sum(event["value"] for event in events[-window:])


def _ordered_stream(most_value):
    def stream(size):
        rng = np.random.default_rng(7)
        return {
            "value": rng.integers(0, most_value + 1, size),
            "at": np.cumsum(rng.choice([0, 0, 1, 5], size)),
        }

    return stream


NOT_INTEGERS = [True, None, "1", 1.0, float("nan"), 2.5, [1]]

_BAD_ORDERED_UPDATES = [
    *[("update", {"value": bad, "at": 10**6}, TypeError) for bad in NOT_INTEGERS],
    *[("update", {"value": 1, "at": bad}, TypeError) for bad in NOT_INTEGERS],
    ("update", {"value": -1, "at": 10**6}, ValueError),
    ("update", {"value": 2**63, "at": 10**6}, ValueError),
    ("update", {"value": 1, "at": 2**63}, ValueError),
    ("update", {"value": 1, "at": -(2**63)}, ValueError),
    ("update", {"value": 1}, TypeError),
    ("update_many", {"value": [1, 2, -3], "at": [10**6] * 3}, ValueError),
    ("update_many", {"value": [1, True, 3], "at": [10**6] * 3}, TypeError),
    ("update_many", {"value": [1, None, 3], "at": [10**6] * 3}, TypeError),
    ("update_many", {"value": [1.0, 2.0], "at": [10**6] * 2}, TypeError),
    ("update_many", {"value": [1, float("nan")], "at": [10**6] * 2}, TypeError),
    ("update_many", {"value": ["1", "2"], "at": [10**6] * 2}, TypeError),
    ("update_many", {"value": np.array([True, False]), "at": [10**6] * 2}, TypeError),
    ("update_many", {"value": np.array([2**63], dtype=np.uint64), "at": [10**6]}, ValueError),
    ("update_many", {"value": [2**62, 2**62], "at": [10**6] * 2}, ValueError),
    ("update_many", {"value": [1, 2, 3], "at": [10**6] * 2}, ValueError),
    ("update_many", {"value": [[1], [2]], "at": [10**6] * 2}, ValueError),
    ("update_many", {"value": 1, "at": [10**6, 2**63]}, ValueError),
    ("update_many", {"value": 1, "at": np.array([1.5, 2.5])}, TypeError),
    ("update_many", {"value": 1, "at": np.array(["2026-01-01"], "datetime64[s]")}, TypeError),
    ("update_many", {"value": 1, "at": "12"}, TypeError),
    ("update_many", {"value": 1}, TypeError),
]

_BAD_COUNT_UPDATES = [
    *[("update", {"value": bad}, TypeError) for bad in NOT_INTEGERS],
    ("update", {"value": -1}, ValueError),
    ("update", {"value": 1, "at": 5}, TypeError),
    ("update_many", {"value": [1, -2]}, ValueError),
    ("update_many", {"value": [1, 2], "at": [1, 2]}, TypeError),
    ("update_many", {"value": [2**62, 2**62]}, ValueError),
]

_MERGING_BY_COUNT = dict.fromkeys(
    [
        "merging_with_empty_is_identity",
        "merging_commutes",
        "merging_associates",
        "merging_equals_one_pass",
        "a_merged_sketch_can_be_updated",
        "operands_are_left_alone",
    ],
    "Papapetrou et al. 2012, Fig. 2: positions do not say how two streams interleave",
)


def _window_cases(cls):
    def make(window=60, relative_error=0.2, **other):
        return lambda: cls(window=window, relative_error=relative_error, **other)

    def varied(window):
        return {
            "window": make(window=61),
            "relative_error": make(window, relative_error=0.21),
            "by": make(window, by="count"),
            "late": make(window, late="clamp"),
            "unit": make(window, unit="s"),
        }

    by_time = {
        "varied": varied(60),
        "bad_updates": _BAD_ORDERED_UPDATES,
        "in_order": True,
        "certain": True,
    }
    yield SketchCase(
        name=f"{cls.__name__}-bits",
        make=make(),
        events=_ordered_events(1),
        questions=_window_questions(60),
        exact=_window_sum(60),
        stream=_ordered_stream(1),
        most_bytes=200,
        **by_time,
    )
    yield SketchCase(
        name=f"{cls.__name__}-sums",
        make=make(),
        events=_ordered_events(1000),
        questions=_window_questions(60),
        exact=_window_sum(60),
        stream=_ordered_stream(1000),
        most_bytes=500,
        mutations=4000,
        **by_time,
    )
    yield SketchCase(
        name=f"{cls.__name__}-clamping-seconds",
        make=make(late="clamp", unit="s"),
        events=_ordered_events(3),
        questions=_window_questions(60),
        exact=_window_sum(60),
        stream=_ordered_stream(3),
        varied={
            "window": make(61, late="clamp", unit="s"),
            "relative_error": make(60, 0.21, late="clamp", unit="s"),
            "late": make(unit="s"),
            "unit": make(late="clamp", unit="ms"),
        },
        fixed={"by": 'by="count" has no clock'},
        bad_updates=[row for row in _BAD_ORDERED_UPDATES if "datetime64" not in str(row)],
        most_bytes=300,
        in_order=True,
        certain=True,
        mutations=4000,
    )
    yield SketchCase(
        name=f"{cls.__name__}-unbounded",
        make=make(window=None),
        events=_ordered_events(3),
        questions=_window_questions(10_000),
        exact=_window_sum(10_000),
        stream=_ordered_stream(3),
        most_bytes=600,
        mutations=4000,
        **{**by_time, "varied": varied(None)},
    )
    yield SketchCase(
        name=f"{cls.__name__}-by-count",
        make=make(window=40, by="count"),
        events=st.lists(st.fixed_dictionaries({"value": st.integers(0, 3)}), max_size=200),
        questions=_count_questions,
        exact=_count_sum,
        stream=lambda size: {"value": np.random.default_rng(3).integers(0, 4, size)},
        varied={
            "window": make(window=41, by="count"),
            "relative_error": make(window=40, relative_error=0.21, by="count"),
            "by": make(window=40),
        },
        fixed=dict.fromkeys(["late", "unit"], 'by="count" has no clock'),
        bad_updates=_BAD_COUNT_UPDATES,
        most_bytes=200,
        mutations=4000,
        in_order=True,
        certain=True,
        time=None,
        exceptions=_MERGING_BY_COUNT,
    )


def _any_order(**columns):
    """Short streams in any order, with late events, ties and repetitions."""
    event = st.fixed_dictionaries({**columns, "at": st.integers(0, 120)})
    return st.lists(event, max_size=80)


def _with_ids(events):
    return [{**event, "id": f"event {i}"} for i, event in enumerate(events)]


def _sample_stream(values, **more):
    def stream(size):
        rng = np.random.default_rng(11)
        columns = {**values(rng, size), "at": rng.permutation(size) // 3}
        return {**columns, **{name: make(size) for name, make in more.items()}}

    return stream


def _varied(make, **other):
    return {
        name: (lambda name=name, value=value: make(**{name: value}))
        for name, value in other.items()
    }


_BAD_SAMPLE_TIMES = [
    *[("update", {"at": bad}, TypeError) for bad in NOT_INTEGERS],
    ("update", {"at": 2**63}, ValueError),
    ("update_many", {"at": [1, None]}, TypeError),
    ("update_many", {"at": [1, 2**63]}, ValueError),
    ("update_many", {"at": [[1], [2]]}, ValueError),
]
_NOT_ITEMS = [None, True, 1.5, 2**63, -(2**63) - 1, [1], {"a"}, object()]


def _with(arguments, bad):
    return [(method, {**arguments, **each}, error) for method, each, error in bad]


def _randomized_cases():
    def make(**other):
        settings = {"window": 60, "relative_error": 0.3, "capacity": 8, **other}
        return RandomizedWave(**settings)

    varied = _varied(
        make,
        window=61,
        relative_error=0.31,
        confidence=0.9,
        keep_items=True,
        capacity=9,
        seed=1,
        unit="s",
    )
    bad = [
        *[("update", {"item": item, "at": 1}, (TypeError, ValueError)) for item in _NOT_ITEMS],
        *[
            ("update_many", {"item": [1, item], "at": [1, 2]}, (TypeError, ValueError))
            for item in _NOT_ITEMS
        ],
        ("update_many", {"item": [1.0, 2.0], "at": [1, 2]}, TypeError),
        ("update_many", {"item": np.array([True]), "at": [1]}, TypeError),
        ("update_many", {"item": [1, 2, 3], "at": [1, 2]}, ValueError),
        *_with({"item": 1}, _BAD_SAMPLE_TIMES),
    ]

    def distinct(events, question):
        return len({event["item"] for event in _in_window(events, question, 60)})

    common = {
        "questions": _window_questions(60),
        "more_questions": [lambda wave: wave.query(1)],
        "exact": distinct,
        "bad_updates": bad,
        "ignores_duplicates": True,
        "most_bytes": 4000,
    }
    yield SketchCase(
        name="RandomizedWave-integers",
        make=make,
        events=_any_order(item=st.integers(0, 40)),
        stream=_sample_stream(lambda rng, size: {"item": rng.integers(0, size + 1, size)}),
        varied=varied,
        mutations=10_000,
        **common,
    )

    def keeping(**other):
        return make(**{"keep_items": True, **other})

    mixed = st.integers(-3, 3) | st.text(max_size=3) | st.binary(max_size=3)
    yield SketchCase(
        name="RandomizedWave-kept-items",
        make=keeping,
        events=_any_order(item=mixed),
        stream=_sample_stream(
            lambda rng, size: {"item": [f"item {i}" for i in rng.integers(0, size + 1, size)]}
        ),
        varied={
            **_varied(
                keeping,
                window=61,
                relative_error=0.31,
                confidence=0.9,
                capacity=9,
                seed=1,
                unit="s",
            ),
            "keep_items": make,
        },
        **{**common, "most_bytes": 8000},
        mutations=4000,
    )


_COIN_ORDER = "without ids the coin of an event depends on its index, so on the order of arrival"
_COIN_TIME = "the coin of an event depends on its time"
_BAD_NUMBERS = [True, None, "1", float("nan"), float("inf"), [1], 1j]


def _event_case(name, make, settings, values, exact, questions, bad_values, ids, **other):
    bad = [
        *[("update", {"value": v, "at": 1}, (TypeError, ValueError)) for v in bad_values],
        *[
            ("update_many", {"value": [1, v], "at": [1, 2]}, (TypeError, ValueError))
            for v in bad_values
        ],
        ("update_many", {"value": [1, 2, 3], "at": [1, 2]}, ValueError),
        ("update_many", {"value": 1, "at": [1, 2], "id": [1]}, ValueError),
        ("update_many", {"value": 1, "at": [1, 2], "id": [1, 1.5]}, TypeError),
        ("update", {"value": 1, "at": 1, "id": 1.5}, TypeError),
        *_with({"value": 1}, _BAD_SAMPLE_TIMES),
    ]
    events = _any_order(value=values)
    id_column = {"id": np.arange} if ids else {}
    exceptions = {"shifting_all_times_shifts_nothing_else": _COIN_TIME}
    if not ids:
        exceptions |= {
            "order_does_not_matter": _COIN_ORDER,
            "merging_equals_one_pass": _COIN_ORDER,
        }
    return SketchCase(
        name=f"{name}-{'ids' if ids else 'indices'}",
        make=make,
        events=events.map(_with_ids) if ids else events,
        questions=questions,
        exact=exact,
        stream=_sample_stream(
            lambda rng, size: {"value": rng.integers(0, 1000, size) / 8}, **id_column
        ),
        varied=_varied(make, window=61, confidence=0.9, capacity=9, seed=1, unit="s", **settings),
        bad_updates=bad,
        most_bytes=6000,
        mutations=6000 if ids else 2000,
        exceptions=exceptions,
        **other,
    )


def _sum_case(ids):
    def make(**other):
        return SumWave(**{"window": 60, "relative_error": 0.3, "capacity": 3, **other})

    return _event_case(
        "SumWave",
        make,
        {"relative_error": 0.31},
        st.integers(0, 50) | st.floats(0, 1e6) | st.sampled_from([5e-324, 2.0**900]),
        _window_sum(60),
        _window_questions(60),
        [*_BAD_NUMBERS, -1, -0.5, 2.0**961],
        ids,
    )


def _quantile_case(ids):
    def make(**other):
        return QuantileWave(**{"window": 60, "rank_error": 0.3, "capacity": 8, **other})

    windows = _window_questions(60)

    def questions(events):
        return [
            {"q": q, **question}
            for question in windows(events)[::3]
            for q in (0, 0.3, 0.5, 1)
            if _in_window(events, question, 60)
        ]

    def exact(events, question):
        values = sorted(event["value"] for event in _in_window(events, question, 60))
        return values[max(0, math.ceil(question["q"] * len(values)) - 1)]

    return _event_case(
        "QuantileWave",
        make,
        {"rank_error": 0.31},
        st.integers(-50, 50) | st.floats(-1e6, 1e6),
        exact,
        questions,
        [*_BAD_NUMBERS, 10**400],
        ids,
        needs_data=True,
        more_questions=[
            lambda wave: wave.quantiles([0, 0.2, 0.99, 1]),
            lambda wave: wave.rank(3),
            lambda wave: wave.count(),
            lambda wave: wave.count(1),
        ],
    )


def _nth_recent_case():
    def make(**other):
        return NthRecentWave(**{"window": 60, "relative_error": 0.2, **other})

    def questions(events):
        if not events:
            return []
        latest = _latest(events)
        ones = sum(event["value"] for event in events if event["at"] > latest - 57)
        return [{"n": n, "now": now} for n in range(1, ones + 1) for now in (latest, latest + 3)]

    def exact(events, question):
        ones = [event["at"] for event in events if event["value"]]
        return question["now"] - ones[-question["n"]]

    return SketchCase(
        name="NthRecentWave",
        make=make,
        events=_ordered_events(1),
        questions=questions,
        exact=exact,
        stream=_ordered_stream(1),
        varied=_varied(make, window=61, relative_error=0.21, unit="s"),
        bad_updates=[*_BAD_ORDERED_UPDATES, ("update", {"value": 2, "at": 10**6}, ValueError)],
        most_bytes=200,
        in_order=True,
        certain=True,
        needs_data=True,
        more_questions=[lambda wave: wave.query(2), lambda wave: wave.query(2**62)],
        exceptions={
            "shifting_all_times_shifts_nothing_else": "remembered ticks are ticks of the clock"
        },
    )


def _ecm_cases():
    def deterministic(**other):
        settings = {"relative_error": 0.5, "confidence": 0.8, "width": 5, "depth": 2}
        return EcmSketch(**{"window": 60, **settings, "cell_error": 0.25, **other})

    def sampled(**other):
        return deterministic(**{"counter": "rw", "cell_capacity": 3, **other})

    items = st.sampled_from([0, 1, 2, 7, "a", "ü", b"a"])
    weights = st.sampled_from([0, 1, 1, 1, 5, 1000])
    windows = _window_questions(60)

    def questions(events):
        asked = {event["item"] for event in events[:3]} | {"never seen"}
        return [{"item": item, **each} for item in asked for each in windows(events)[::4]]

    def exact(events, question):
        return sum(
            event["weight"]
            for event in _in_window(events, question, 60)
            if event["item"] == question["item"]
        )

    def with_columns(times):
        def add(rows, columns):
            return [
                {**row, "item": item, "weight": weight}
                for row, (item, weight) in zip(rows, columns, strict=False)
            ]

        columns = st.lists(st.tuples(items, weights), min_size=120, max_size=120)
        return st.builds(add, times, columns)

    ordered = _ordered_events(0).map(lambda rows: [{"at": row["at"]} for row in rows])

    def stream(size):
        rng = np.random.default_rng(5)
        return {
            "item": rng.zipf(1.5, size) % 1000,
            "at": np.cumsum(rng.choice([0, 0, 1, 5], size)),
            "weight": rng.integers(0, 4, size),
        }

    fields = {
        "window": 61,
        "relative_error": 0.51,
        "confidence": 0.81,
        "optimize_for": "inner_product",
        "width": 6,
        "depth": 3,
        "cell_error": 0.26,
        "seed": 1,
        "unit": "s",
    }
    bad = [
        *[("update", {"item": item, "at": 10**6}, (TypeError, ValueError)) for item in _NOT_ITEMS],
        *[
            ("update_many", {"item": [1, item], "at": [10**6] * 2}, (TypeError, ValueError))
            for item in _NOT_ITEMS
        ],
        *[
            ("update", {"item": 1, "at": 10**6, "weight": weight}, (TypeError, ValueError))
            for weight in [-1, 1.5, True, None, 2**63]
        ],
        ("update_many", {"item": 1, "at": [10**6] * 2, "weight": [1, -1]}, ValueError),
        ("update_many", {"item": 1, "at": [10**6] * 2, "weight": [1, 0.5]}, TypeError),
        ("update_many", {"item": [1, 2, 3], "at": [10**6] * 2}, ValueError),
        *_with({"item": 1}, [row for row in _BAD_SAMPLE_TIMES if row[1]["at"] != [1, 2**63]]),
        ("update", {"item": 1}, TypeError),
    ]
    everything = [
        lambda cells: cells.total(),
        lambda cells: cells.total(1),
        lambda cells: cells.self_join(),
        lambda cells: cells.query_many([0, 1, "a", b"a"], 3),
    ]
    no_id = [("update", {"item": 1, "at": 10**6, "id": 5}, TypeError)]
    overflow = [("update_many", {"item": 1, "at": 10**6, "weight": [2**62, 2**62]}, ValueError)]
    for counter, other in (("eh", "dw"), ("dw", "eh")):

        def make(counter=counter, **other):
            return deterministic(**{"counter": counter, **other})

        yield SketchCase(
            name=f"EcmSketch-{counter}",
            make=make,
            events=with_columns(ordered),
            questions=questions,
            exact=exact,
            stream=stream,
            varied=_varied(make, **fields, counter=other, by="count", late="clamp"),
            fixed={"cell_capacity": "deterministic counters have none"},
            bad_updates=[*bad, *no_id, *overflow],
            more_questions=everything,
            most_bytes=4_000,
            in_order=True,
            needs={"item": 1},
            examples=25,
            mutations=3_000,
        )

    yield SketchCase(
        name="EcmSketch-eh-by-count",
        make=lambda: deterministic(by="count", window=40),
        events=st.lists(st.fixed_dictionaries({"item": items, "weight": weights}), max_size=100),
        questions=lambda events: [
            {"item": item, "window": window} for item in (0, "a") for window in (1, 2, 17, 40)
        ],
        exact=lambda events, question: sum(
            event["weight"]
            for event in events[-question["window"] :]
            if event["item"] == question["item"]
        ),
        stream=lambda size: {name: stream(size)[name] for name in ("item", "weight")},
        varied=_varied(
            lambda **other: deterministic(**{"by": "count", "window": 40, **other}),
            **{name: value for name, value in fields.items() if name != "unit"},
            counter="dw",
            by="time",
        ),
        fixed={
            "cell_capacity": "deterministic counters have none",
            **dict.fromkeys(["late", "unit"], 'by="count" has no clock'),
        },
        bad_updates=[
            ("update", {"item": 1, "at": 5}, TypeError),
            ("update", {"item": 1, "weight": -1}, ValueError),
            ("update_many", {"item": [1, None]}, TypeError),
        ],
        most_bytes=3_000,
        in_order=True,
        needs={"item": 1},
        time=None,
        examples=25,
        mutations=1_500,
        exceptions=_MERGING_BY_COUNT,
    )
    for ids in (True, False):
        unordered = _any_order(item=items, weight=weights)
        yield SketchCase(
            name=f"EcmSketch-rw-{'ids' if ids else 'indices'}",
            make=sampled,
            events=unordered.map(_with_ids) if ids else unordered,
            questions=questions,
            exact=exact,
            stream=lambda size, ids=ids: {
                **stream(size),
                **({"id": np.arange(size)} if ids else {}),
            },
            varied={
                **_varied(sampled, **fields, cell_capacity=4, by="count"),
                "counter": lambda: deterministic(),
            },
            fixed={"late": "samples take events in any order"},
            bad_updates=[
                *bad,
                ("update", {"item": 1, "at": 1, "weight": 2**53 + 1}, ValueError),
                ("update", {"item": 1, "at": 1, "id": 1.5}, TypeError),
                ("update_many", {"item": [1, 2], "at": 1, "id": [1]}, ValueError),
            ],
            more_questions=everything,
            most_bytes=8_000,
            needs={"item": 1},
            examples=25,
            mutations=3_000,
            exceptions={
                "shifting_all_times_shifts_nothing_else": _COIN_TIME,
                **(
                    {}
                    if ids
                    else {
                        "order_does_not_matter": _COIN_ORDER,
                        "merging_equals_one_pass": _COIN_ORDER,
                    }
                ),
            },
        )


def _dyadic_cases():
    """Numbers, names (of which some have no weight), and samples."""

    def dyadic(**other):
        small = {"width": 5, "depth": 2, "range_depth": 1, "cell_error": 0.25, "universe_bits": 6}
        settings = {"relative_error": 0.5, "confidence": 0.8, "min_threshold": 0.1}
        return DyadicEcm(**{"window": 60, **settings, **small, **other})

    numbers, names = [0, 1, 2, 31, 63], [0, -7, "a", "ü", b"a"]
    weights = st.sampled_from([0, 1, 1, 1, 5, 1000])
    windows = _window_questions(60)

    def exact(events, question):
        return sum(
            event["weight"]
            for event in _in_window(events, question, 60)
            if event["item"] == question["item"]
        )

    fields = {
        "window": 61,
        "relative_error": 0.51,
        "confidence": 0.81,
        "universe_bits": 7,
        "min_threshold": 0.2,
        "width": 6,
        "depth": 3,
        "range_depth": 2,
        "cell_error": 0.26,
        "seed": 1,
        "unit": "s",
    }
    in_order = {"by": "count", "late": "clamp"}
    plain = {"name_capacity": "there are no names", "cell_capacity": "there are no samples"}
    named = {"names": True, "name_capacity": 3}
    for name, settings, items, varied, fixed in [
        (
            "eh",
            {},
            numbers,
            {**fields, **in_order, "counter": "dw"},
            {**plain, "names": "needs a name_capacity"},
        ),
        (
            "names",
            named,
            names,
            {**fields, **in_order, "counter": "dw", "name_capacity": 4},
            {"cell_capacity": "there are no samples", "names": "they have a capacity"},
        ),
        (
            "rw",
            {"counter": "rw", "cell_capacity": 3, **named},
            names,
            {**fields, "by": "count", "cell_capacity": 4, "name_capacity": 4},
            {
                "counter": "the others have no cell_capacity",
                "late": "samples take events in any order",
                "names": "they have a capacity",
            },
        ),
    ]:

        def make(settings=settings, **other):
            return dyadic(**{**settings, **other})

        def stream(size, items=items, name=name):
            rng = np.random.default_rng(5)
            chosen = rng.zipf(1.5, size) % 64
            return {
                **({"id": np.arange(size)} if name == "rw" else {}),
                "item": chosen if items is numbers else [f"item {i}" for i in chosen],
                "at": np.cumsum(rng.choice([0, 0, 1, 5], size)),
                "weight": rng.integers(0, 4, size),
            }

        def questions(events, items=items):
            asked = {event["item"] for event in events[:3]} | {items[1]}
            return [{"item": item, **each} for item in asked for each in windows(events)[::4]]

        columns = {"item": st.sampled_from(items), "weight": weights}
        ordered = _ordered_events(0).map(lambda rows: [{"at": row["at"]} for row in rows])

        def with_columns(rows, more):
            return [{**row, **each} for row, each in zip(rows, more, strict=False)]

        added = st.lists(st.fixed_dictionaries(columns), min_size=120, max_size=120)
        no_items = [-1, 64, 2**63, "a", b"a", 1.5, None, True] if items is numbers else _NOT_ITEMS
        yield SketchCase(
            name=f"DyadicEcm-{name}",
            make=make,
            events=_any_order(**columns).map(_with_ids)
            if name == "rw"
            else st.builds(with_columns, ordered, added),
            questions=questions,
            exact=exact,
            stream=stream,
            varied=_varied(make, **varied),
            fixed=fixed,
            bad_updates=[
                *[
                    ("update", {"item": item, "at": 10**6}, (TypeError, ValueError))
                    for item in no_items
                ],
                *[
                    ("update_many", {"item": [1, item], "at": [10**6] * 2}, (TypeError, ValueError))
                    for item in no_items
                ],
                ("update", {"item": 1, "at": 10**6, "weight": -1}, ValueError),
                ("update_many", {"item": 1, "at": [10**6] * 2, "weight": [1, 0.5]}, TypeError),
                ("update_many", {"item": [1, 2, 3], "at": [10**6] * 2}, ValueError),
                ("update", {"item": 1}, TypeError),
            ],
            more_questions=[
                lambda cells: cells.total(),
                lambda cells: cells.heavy_hitters(0.2),
                *(
                    [lambda cells: cells.range_count(1, 40), lambda cells: cells.quantile(0.5)]
                    if items is numbers
                    else []
                ),
            ],
            most_bytes=6_000 if name == "rw" else 4_000,
            in_order=name != "rw",
            needs={"item": 1},
            examples=20,
            mutations=2_000,
            exceptions={"shifting_all_times_shifts_nothing_else": _COIN_TIME}
            if name == "rw"
            else {},
        )


def _decayed_cases():
    weights = st.sampled_from([0, 1, 1, 2.5, 40, 1000, 2.0**-30, 2.0**40]) | st.floats(0, 1e6)
    columns = {"value": st.integers(-3, 9) | st.floats(-2, 2), "weight": weights}
    ids = st.integers(0, 5) | st.text(max_size=2) | st.binary(max_size=2)

    def exact(default, is_whole):
        def decayed_sum(events, question):
            if not events:
                return 0.0
            now = question.get("now", _latest(events))
            decay = question.get("decay") or default
            elements = {
                (type(id), id, event["value"], event["weight"], event["at"])
                for event in events
                for id in [event.get("id")]
            }
            ages = np.array([now - at for *_, at in elements])
            decayed = np.array([float(w) for *_, w, _ in elements]) * decay(ages)
            return math.fsum(np.floor(decayed) if is_whole else decayed)

        return decayed_sum

    def questions(decays):
        def asked(events):
            latest = _latest(events) if events else 0
            starts = {latest - event["at"] for event in events}
            windows = [SlidingWindow(age + 1) for age in starts if decays and age < 60]
            nows = (latest, latest + 1, latest + 30)
            return [{}, *[{"decay": d} for d in windows]] + [
                {"now": now, **({} if d is None else {"decay": d})}
                for now in nows
                for d in decays or [None]
            ]

        return asked

    bad = [
        *[
            (method, arguments, (TypeError, ValueError))
            for number in [*_BAD_NUMBERS, -1, -0.5, 2.0**961]
            for method, arguments in [
                ("update", {"at": 1, "weight": number}),
                ("update_many", {"at": [1, 2], "weight": [1, number]}),
            ]
        ],
        *[
            (method, arguments, (TypeError, ValueError))
            for number in _BAD_NUMBERS
            for method, arguments in [
                ("update", {"value": number, "at": 1}),
                ("update_many", {"value": [1, number], "at": [1, 2]}),
            ]
        ],
        *[("update", {"at": 1, "id": id}, (TypeError, ValueError)) for id in _NOT_ITEMS[1:]],
        ("update_many", {"at": [1, 2], "id": [1, None]}, TypeError),
        ("update_many", {"at": [1, 2], "id": [1, 1.5]}, TypeError),
        ("update_many", {"at": [1, 2], "id": [1]}, ValueError),
        ("update_many", {"value": [1, 2, 3], "at": [1, 2]}, ValueError),
        ("update", {"value": 1}, TypeError),
        *_with({"value": 1}, _BAD_SAMPLE_TIMES),
    ]
    bad_ranges = [
        *[("update", {"at": 1, "weight": each}, TypeError) for each in (2.5, 2.0, None)],
        ("update", {"at": 1, "weight": 2**20 + 1}, ValueError),
        ("update_many", {"at": [1, 2], "weight": [1, 2.5]}, TypeError),
        ("update_many", {"at": [1, 2], "weight": [1, 2**20 + 1]}, ValueError),
    ]
    settings = {"relative_error": 0.31, "confidence": 0.9, "seed": 1, "unit": "s"}
    chosen = [
        SlidingWindow(60),
        Chordal(45),
        FiniteExponential(0.1, 0.05),
        Custom(lambda x: (x < 50) / (1 + x), kinds={"finite"}),
    ]

    whole = {**columns, "weight": st.integers(0, 60) | st.sampled_from([1, 1000, 2**20])}

    def case(name, decay, decays, default, window, copies=1, sampler="uniform", **more):
        def make(**other):
            usual = {"relative_error": 0.3, "capacity": 3, "decay": decay, "window": window}
            usual |= {"copies": copies, "sampler": sampler}
            return DecayedSample(**{**usual, **other})

        has_ranges = sampler == "range"
        more["varied"]["sampler"] = "uniform" if has_ranges else "range"
        event = whole if has_ranges else columns
        return SketchCase(
            name=f"DecayedSample-{name}",
            make=make,
            events=_any_order(**event, id=ids) | _any_order(**event),
            questions=questions(decays),
            exact=exact(default, is_whole=has_ranges and decay is not None),
            stream=_sample_stream(
                lambda rng, size: {
                    "value": rng.integers(0, 100, size),
                    "weight": rng.integers(0, 1000, size),
                },
                id=np.arange,
            ),
            bad_updates=[*bad, *bad_ranges] if has_ranges else bad,
            more_questions=[
                lambda sample: sample.count(),
                lambda sample: sample.mean(),
                lambda sample: sample.quantile(0.9),
                lambda sample: sample.rank(3),
                lambda sample: sample.correlated_sum(2),
                lambda sample: sample.frequent_items(0.2),
            ],
            ignores_duplicates=True,
            examples=30,
            exceptions={
                "shifting_all_times_shifts_nothing_else": "an element is the tuple, time included"
            },
            **{
                "most_bytes": 4000,
                "mutations": 3000,
                **more,
                "varied": _varied(make, **settings, **more["varied"]),
            },
        )

    ends = Chordal(50)
    for name, sampler in [("chosen", "uniform"), ("range-chosen", "range")]:
        yield case(
            name,
            None,
            chosen,
            SlidingWindow(60),
            60,
            sampler=sampler,
            varied={"capacity": 9, "copies": 3, "window": 61, "decay": ends},
            most_bytes=2000,
        )
    yield case(
        "copies",
        None,
        [Exponential(half_life=7), Polynomial(1.5), NoDecay()],
        NoDecay(),
        None,
        copies=3,
        varied={"capacity": 9, "copies": 5, "window": 60, "decay": ends},
        mutations=1500,
    )
    endless = {"window": "the decay goes on forever"}
    for decay, sampler in [
        (Exponential(half_life=7), "uniform"),
        (Polynomial(1, scale=5), "uniform"),
        (ends, "uniform"),
        (PolyExponential(1, 2, scale=4), "uniform"),
        (Exponential(half_life=7), "range"),
        (ends, "range"),
    ]:
        yield case(
            ("" if sampler == "uniform" else "range-") + type(decay).__name__,
            decay,
            [],
            decay,
            None,
            sampler=sampler,
            varied={
                "capacity": 9,
                "copies": 3,
                "decay": SlidingWindow(50),
                **({"window": 60} if decay is ends else {}),
            },
            fixed={} if decay is ends else endless,
            mutations=1500,
            most_bytes=20_000,
        )


def _correlated_cases():
    """Samples in buckets; one bucket; all elements kept."""
    values = st.integers(0, 9) | st.floats(0, 1e3) | st.sampled_from([0.0, 7, 1000])
    weights = st.sampled_from([0, 1, 1, 2.5, 1000, 2.0**-30]) | st.floats(0, 1e6)
    columns = {"value": values, "weight": weights}

    def exact(decay):
        def decayed_sum(events, question):
            chosen = [e for e in events if e["value"] >= question.get("threshold", 0)]
            if not chosen:
                return 0.0
            ages = np.array([question.get("now", _latest(events)) - e["at"] for e in chosen])
            return math.fsum(np.array([float(e["weight"]) for e in chosen]) * decay(ages))

        return decayed_sum

    def questions(events):
        latest = _latest(events) if events else 0
        thresholds = sorted({float(event["value"]) for event in events} | {0.0, 1000.0})
        return [{}] + [
            {"threshold": each, "now": latest + later}
            for each in thresholds
            for later in (0, 1, 30)
        ]

    bad = [
        *[
            (method, arguments, (TypeError, ValueError))
            for name, numbers in [
                ("value", [*_BAD_NUMBERS, -1, -0.5, 1001]),
                ("weight", [*_BAD_NUMBERS, -1, 2.0**961]),
            ]
            for number in numbers
            for method, arguments in [
                ("update", {"value": 1, "at": 1, name: number}),
                ("update_many", {"value": 1, "at": [1, 2], name: [1, number]}),
            ]
        ],
        *[
            ("update", {"value": 1, "at": 1, "id": id}, (TypeError, ValueError))
            for id in _NOT_ITEMS[1:]
        ],
        ("update_many", {"value": 1, "at": [1, 2], "id": [1, 1.5]}, TypeError),
        ("update_many", {"value": 1, "at": [1, 2], "id": [1]}, ValueError),
        ("update_many", {"value": [1, 2, 3], "at": [1, 2]}, ValueError),
        ("update", {"value": 1}, TypeError),
        *_with({"value": 1}, _BAD_SAMPLE_TIMES),
    ]
    aligned = {"shifting_all_times_shifts_nothing_else": "buckets begin at multiples of their size"}
    by_index = {
        "order_does_not_matter": _COIN_ORDER,
        "merging_equals_one_pass": _COIN_ORDER,
        "shifting_all_times_shifts_nothing_else": _COIN_TIME,
    }
    for name, decay, ids, exceptions, more in [
        ("ids", Polynomial(1.5), True, aligned, {}),
        ("indices", Polynomial(1, scale=5), False, by_index, {"mutations": 2000}),
        (
            "undecayed",
            NoDecay(),
            True,
            {"shifting_all_times_shifts_nothing_else": _COIN_TIME},
            {"mutations": 2000},
        ),
        ("finite", FiniteExponential(0.1, 0.05), False, {}, {"mutations": 2000, "certain": True}),
    ]:

        def make(decay=decay, keeps_all=name == "finite", **other):
            usual = {"relative_error": 0.3, "max_value": 1000, "spread": 1.0}
            usual["capacity"] = 1000 if keeps_all else 3
            return WeightBasedMergingHistogram(**{"decay": decay, **usual, **other})

        id_column = {"id": np.arange} if ids else {}
        events = _any_order(**columns)
        varied = {"decay": Polynomial(2), "relative_error": 0.31, "confidence": 0.9, "spread": 0.9}
        yield SketchCase(
            name=f"WeightBasedMergingHistogram-{name}",
            make=make,
            events=events.map(_with_ids) if ids else events,
            questions=questions,
            exact=exact(decay),
            stream=_sample_stream(
                lambda rng, size: {
                    "value": rng.integers(0, 1000, size) / 8,
                    "weight": rng.integers(0, 100, size),
                },
                **id_column,
            ),
            varied=_varied(make, **varied, max_value=1001, capacity=9, seed=1, unit="s"),
            bad_updates=bad,
            more_questions=[
                lambda histogram: histogram.count(),
                lambda histogram: histogram.range_sum(1, 50),
                lambda histogram: histogram.quantile(0.9),
                lambda histogram: histogram.relative_frequency(3),
                lambda histogram: histogram.heavy_hitters(0.2),
            ],
            most_bytes=12_000,
            examples=40,
            exceptions=exceptions,
            **{"mutations": 6000, **more},
        )


def _interrupted(cases):
    """The first case of a class at every line of its calls; the others at a few lines, spread.

    All lines of all cases would take about ten minutes.
    """
    seen = set()
    for case in cases:
        kind = type(case.make())
        yield case if kind not in seen else replace(case, interruptions=12)
        seen.add(kind)


CASES = list(
    _interrupted(
        (
            *(
                case
                for cls in (ExponentialHistogram, DeterministicWave)
                for case in _window_cases(cls)
            ),
            *_randomized_cases(),
            *(_sum_case(ids) for ids in (True, False)),
            *(_quantile_case(ids) for ids in (True, False)),
            _nth_recent_case(),
            *_ecm_cases(),
            *_dyadic_cases(),
            *_decayed_cases(),
            *_correlated_cases(),
        )
    )
)
