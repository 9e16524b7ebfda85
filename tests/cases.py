"""Every exported sketch as a case of the law suite."""

import numpy as np
from hypothesis import strategies as st

from recency import DeterministicWave, ExponentialHistogram
from recency.testing import SketchCase


def _ordered_events(most_value):
    """Streams with ties, idle stretches, zeros and repeated values; ``at`` never decreases."""
    steps = st.lists(
        st.tuples(st.sampled_from([0, 0, 1, 1, 2, 7, 40]), st.integers(0, most_value)),
        max_size=120,
    )

    def accumulate(rows):
        times = np.cumsum([step for step, _ in rows]).tolist()
        return [{"value": value, "at": at} for at, (_, value) in zip(times, rows, strict=True)]

    return steps.map(accumulate)


def _window_questions(largest):
    """Windows that begin one tick before, at, and after each event, now and a little later."""

    def questions(events):
        asked = [{}, {"window": 1}, {"window": largest}]
        if events:
            latest = events[-1]["at"]
            starts = {event["at"] + shift for event in events for shift in (-1, 0, 1)}
            for now in (latest, latest + 3):
                widths = sorted({now - start for start in starts})
                asked += [{"window": w, "now": now} for w in widths if 1 <= w <= largest]
        return asked

    return questions


def _window_sum(largest):
    def exact(events, question):
        if not events:
            return 0
        now = question.get("now", events[-1]["at"])
        start = now - question.get("window", largest)
        return sum(event["value"] for event in events if start < event["at"] <= now)

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

_NO_MERGING = "003 Fig. 2: count-based windows do not determine how two streams interleave"


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
        **by_time,
    )
    yield SketchCase(
        name=f"{cls.__name__}-unbounded",
        make=make(window=None),
        events=_ordered_events(3),
        questions=_window_questions(10_000),
        exact=_window_sum(10_000),
        stream=_ordered_stream(3),
        most_bytes=600,
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
        in_order=True,
        certain=True,
        time=None,
        exceptions=dict.fromkeys(
            [
                "merging_with_empty_is_identity",
                "merging_commutes",
                "merging_associates",
                "merging_equals_one_pass",
                "a_merged_sketch_can_be_updated",
                "operands_are_left_alone",
            ],
            _NO_MERGING,
        ),
    )


CASES = [case for cls in (ExponentialHistogram, DeterministicWave) for case in _window_cases(cls)]
