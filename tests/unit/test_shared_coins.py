"""Sketches of events that were built with one stream number: one warning."""

import warnings

import numpy as np
import pytest

from recency import (
    EcmSketch,
    QuantileWave,
    RandomizedWave,
    SumWave,
    WeightBasedMergingHistogram,
    loads,
    merge_all,
)
from recency.decay import Polynomial
from recency.errors import SharedCoinsWarning
from recency.samples import coins

KINDS = {
    "sums": lambda stream=0: SumWave(stream=stream),
    "quantiles": lambda stream=0: QuantileWave(stream=stream),
    "correlated": lambda stream=0: WeightBasedMergingHistogram(Polynomial(1), stream=stream),
    "cells": lambda stream=0: EcmSketch(counter="rw", stream=stream, relative_error=0.3),
}


@pytest.fixture(autouse=True)
def not_yet_warned(monkeypatch):
    monkeypatch.setattr(coins, "_warned", False)


def filled(sketch, at, **columns):
    sketch.update_many(1, at=at, **columns)
    return sketch


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_merging_one_stream_with_overlapping_times_warns_once(make):
    a, b = (filled(make(), np.arange(first, first + 10)) for first in (0, 5))
    with pytest.warns(
        SharedCoinsWarning, match="different stream=… numbers, or give events an id"
    ) as warned:
        merge_all([a, loads(b.to_bytes())])
    assert warned[0].filename == __file__, "it names the caller's line"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        a.merge(b)


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_other_merges_do_not_warn(make):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        times = np.arange(10)
        merge_all([filled(make(0), times), filled(make(1), times)])  # other streams
        merge_all([filled(make(), times), filled(make(), times + 10)])  # other times
        ids = [filled(make(), times, id=times), filled(make(), times, id=times + 10)]
        merge_all([loads(sketch.to_bytes()) for sketch in ids])  # coins of ids
        merge_all([make(), filled(make(), times), make()])
        items = [filled(RandomizedWave(), times) for _ in range(2)]
        merge_all(items)  # coins of items


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_a_finalized_sketch_keeps_the_stream_of_its_coins(make):
    """So groups of one job, which have different streams, merge without a warning."""
    prototype, times = make(7), np.arange(10)
    drawn, by_id, empty = (prototype.empty_like(stream=99) for _ in range(3))
    drawn.update_many(1, at=times)
    by_id.update_many(1, at=times, id=times)
    for sketch, expected in ((drawn, 99), (by_id, 7), (empty, 7)):
        sketch._finalize(prototype)
        assert sketch._stream == expected
