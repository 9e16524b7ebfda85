"""Access to the state of sketches, for tests that read it or construct rare states."""

from dataclasses import replace

import numpy as np

from recency.algorithm import State, View
from recency.core.decaying_levels import stored_once
from recency.keyed import Keyed


def body_of(sketch):
    return sketch._keyed.state().body


def tally_of(sketch):
    return sketch._keyed.tally


def change(sketch, body=None, **tally):
    """Put a sketch into another state: another body, other values in its tally."""
    old = sketch._keyed.state()
    changed = {
        name: np.array([value], dtype=getattr(old.tally, name).dtype)
        for name, value in tally.items()
    }
    state = State(replace(old.tally, **changed), old.body if body is None else body)
    sketch._keyed = Keyed.of(sketch._algorithm, state)


def events_of(sketch):
    """Return how many events drew coins."""
    return int(tally_of(sketch).index[0])


def weighed_of(sketch, decay=None, now=None):
    """Return the elements of each copy of a decayed sample under a decay."""
    view = View(sketch._algorithm, sketch._keyed.state())
    return sketch._algorithm.reading.weighed(view, decay, now)


def once(sketch):
    """Return the elements of a decayed sample, as they are written."""
    algorithm, sample = sketch._algorithm, body_of(sketch).sample
    if sketch.config.decay is None:
        return sample
    return stored_once(sample, algorithm.reading.reading.weights.sampler)


def least_of(sketch):
    """Return the exponent of the smallest weight that a sketch has seen."""
    return int(tally_of(sketch).least[0])
