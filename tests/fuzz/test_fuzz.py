"""Random operations on every sketch, checked against the list of all events.

To run longer, or with other seeds::

    RECENCY_FUZZ_STEPS=100000 RECENCY_FUZZ_SEED=1000 pytest tests/fuzz -k Histogram

A failure lists seeds, and the operations of the shortest run, as code. To repeat one, set its
seed and RECENCY_FUZZ_STEPS=1: there is always one episode.
"""

import os

import pytest

from fuzz.driver import run, run_trials
from fuzz.families import FAMILIES, MAY_MISS, Distinct

STEPS = int(os.environ.get("RECENCY_FUZZ_STEPS", "180"))  # of each family
TRIALS = int(os.environ.get("RECENCY_FUZZ_TRIALS", "100"))  # of each family whose answers may miss
FIRST_SEED = int(os.environ.get("RECENCY_FUZZ_SEED", "0"))
STEPS_OF_EPISODE = 15


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_random_operations(family):
    episodes = max(STEPS // STEPS_OF_EPISODE, 1)
    run(family, range(FIRST_SEED, FIRST_SEED + episodes), STEPS_OF_EPISODE)


@pytest.mark.parametrize("family", MAY_MISS, ids=lambda family: family.__name__)
def test_intervals_miss_as_rarely_as_their_confidence_says(family):
    """Of 100 trials at 95 %, 15 misses are allowed; of 25, which is the least, 7."""
    run_trials(family, range(FIRST_SEED, FIRST_SEED + TRIALS), 0.95)


def test_trials_notice_intervals_that_are_too_narrow(monkeypatch):
    monkeypatch.setattr(
        "recency.samples.window_sample.sum_intervals", lambda n, _: (0.95 * n, 1.05 * n)
    )
    with pytest.raises(AssertionError, match=r"Distinct interval: .* missed"):
        run_trials(Distinct, range(TRIALS), 0.95)
