"""Answers for empty windows and empty sketches."""

import numpy as np
import pytest

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
    SumWave,
    WeightBasedMergingHistogram,
)
from recency.decay import Polynomial, SlidingWindow
from recency.errors import NoAnswerError

LATER = {"window": 5, "now": 200}

# What to ask of a sketch that is empty, or has values 1, 2, 3 and items 1, 2, 3 in (0, 100], and
# what to ask of the window (195, 200], or of what has not faded by then.
QUESTIONS = {
    ExponentialHistogram: [("query", {}, LATER)],
    DeterministicWave: [("query", {}, LATER)],
    RandomizedWave: [("query", {}, LATER)],
    SumWave: [("query", {}, LATER)],
    QuantileWave: [
        ("query", {}, LATER),
        ("quantiles", {"qs": [0.1, 0.9]}, {"qs": [0.1, 0.9], **LATER}),
        ("rank", {"value": 0}, {"value": 0, **LATER}),
        ("count", {}, LATER),
    ],
    NthRecentWave: [("query", {}, {"now": 200})],
    EcmSketch: [
        ("query", {"item": 9}, {"item": 1, **LATER}),
        ("query_many", {"items": [8, 9]}, {"items": [1, 9], **LATER}),
        ("total", {}, LATER),
        ("self_join", {}, LATER),
    ],
    DyadicEcm: [
        ("query", {"item": 9}, {"item": 1, **LATER}),
        ("query_many", {"items": [8, 9]}, {"items": [1, 9], **LATER}),
        ("total", {}, LATER),
        ("range_count", {"lo": 5, "hi": 9}, {"lo": 0, "hi": 9, **LATER}),
        ("quantile", {"q": 0.5}, {"q": 0.5, **LATER}),
    ],
    DecayedSample: [
        (name, {**more, "decay": SlidingWindow(5)}, {**more, "decay": SlidingWindow(5), "now": 200})
        for name, more in [
            ("query", {}),
            ("count", {}),
            ("mean", {}),
            ("selectivity", {"where": lambda values, weights: values > 1}),
            ("rank", {"value": 1}),
            ("quantile", {"q": 0.5}),
            ("correlated_sum", {"threshold": 1}),
        ]
    ],
    WeightBasedMergingHistogram: [
        (name, more, {**more, "now": 10**9})
        for name, more in [
            ("query", {"threshold": 5}),
            ("count", {"threshold": 5}),
            ("range_sum", {"lo": 5, "hi": 9}),
            ("relative_frequency", {"value": 5}),
            ("quantile", {"q": 0.0}),
        ]
    ],
}
VARIANTS = {
    EcmSketch: [{}, {"counter": "rw"}, {"counter": "dw"}],
    DyadicEcm: [{"universe_bits": 5}, {"universe_bits": 5, "counter": "rw"}],
    WeightBasedMergingHistogram: [{"decay": Polynomial(1)}],
}
ASKED = [
    pytest.param(cls, settings, *question, id=f"{cls.__name__}-{i}-{question[0]}")
    for cls, questions in QUESTIONS.items()
    for i, settings in enumerate(VARIANTS.get(cls, [{}]))
    for question in questions
]


def assert_plain(answer):
    assert isinstance(answer, Estimate)
    for field in (answer.value, answer.lower, answer.upper):
        numbers = np.atleast_1d(field)
        assert not np.isnan(numbers).any(), answer
        assert not np.signbit(numbers[numbers == 0]).any(), answer
    assert np.all(answer.lower <= answer.value), answer
    assert np.all(answer.value <= answer.upper), answer


def seen(sketch, rows):
    rng = np.random.default_rng(1)
    values = rng.integers(1, 4, rows) if not isinstance(sketch, NthRecentWave) else 1
    sketch.update_many(values, at=np.sort(rng.integers(1, 101, rows)))
    return sketch


@pytest.mark.parametrize(("cls", "settings", "question", "at_first", "later"), ASKED)
def test_answers_have_no_negative_zero_and_no_nan(cls, settings, question, at_first, later):
    parts = [seen(cls(**settings).empty_like(merge_levels=1), 300) for _ in range(2)]
    merged = parts[0].copy().merge(parts[1])
    asked = [(cls(**settings), at_first), (cls(**settings), later)]
    asked += [
        (sketch, words)
        for sketch in (seen(cls(**settings), 3), seen(cls(**settings), 5000), merged)
        for words in (at_first, later)
    ]
    for sketch, words in asked:
        try:
            answer = getattr(sketch, question)(**words)
        except NoAnswerError:  # means, quantiles and ranks need elements
            continue
        assert_plain(answer)
