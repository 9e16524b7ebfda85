"""Random operations on every sketch, checked against the list of all events.

Longer, or another part of what there is to try::

    RECENCY_FUZZ_STEPS=100000 RECENCY_FUZZ_SEED=1000 pytest tests/fuzz -k Histogram

A failure lists seeds, and the operations of the shortest run, as code. To see one again, give its
seed and RECENCY_FUZZ_STEPS=1: there is always one episode.
"""

import os

import pytest

from fuzz.driver import run
from fuzz.families import FAMILIES

STEPS = int(os.environ.get("RECENCY_FUZZ_STEPS", "180"))  # of each family
FIRST_SEED = int(os.environ.get("RECENCY_FUZZ_SEED", "0"))
STEPS_OF_EPISODE = 15


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_random_operations(family):
    episodes = max(STEPS // STEPS_OF_EPISODE, 1)
    run(family, range(FIRST_SEED, FIRST_SEED + episodes), STEPS_OF_EPISODE)
