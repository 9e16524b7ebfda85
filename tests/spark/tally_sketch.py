"""A sketch that the library does not know: an exact sum, without windows, in a file of its own."""

from dataclasses import dataclass

import numpy as np

from recency import Estimate, Sketch
from recency.algorithm import NEVER, Admitted, Algorithm, PerKey, State
from recency.core.arrays import broadcast
from recency.core.codec import zigzag
from recency.keyed import only_key
from recency.questions import question


@dataclass(frozen=True)
class TallyConfig:
    scale: int


@dataclass(frozen=True, eq=False)
class SumTally(PerKey):
    sums: np.ndarray


class Nothing:
    """A body that keeps nothing: all is in the tally."""

    entries = nbytes = 0

    def __init__(self, size):
        self.size = size

    def take(self, keys):
        return Nothing(len(keys))

    def split(self):
        return [Nothing(1)] * self.size

    @staticmethod
    def joined(bodies):
        return Nothing(sum(body.size for body in bodies))


class TallyAlgorithm(Algorithm):
    merge_law = "exact"

    def __init__(self, scale):
        self.scale = scale

    def empty(self, size, merge_levels=0, first_stream=0):
        return State(SumTally.empty(size), Nothing(size))

    def check(self, size, value=1, at=None):
        at = np.asarray(at)
        return at, broadcast(np.asarray(value), at.size)

    def check_row(self, tally, last, value, at):
        return at, value

    def stack(self, tally, rows):
        at, values = np.array(rows).T
        return self.admit(tally, only_key(at.size), (at, values))

    def admit(self, tally, keys, columns):
        at, values = columns
        latest, sums = tally.latest.copy(), tally.sums.copy()
        np.maximum.at(latest, keys, at)
        np.add.at(sums, keys, self.scale * values)
        return Admitted(SumTally(latest, sums), keys, columns)

    def absorb(self, state, keys, columns):
        return state.body

    def merge(self, state, into, size):
        merged = SumTally.empty(size)
        np.maximum.at(merged.latest, into, state.tally.latest)
        np.add.at(merged.sums, into, state.tally.sums)
        return State(merged, Nothing(size))

    def guarantee(self, state):
        return np.zeros(state.tally.size)

    def write(self, state, writer):
        tally = state.tally
        writer.scalar(tally.seen.astype(np.uint64))
        writer.scalar(tally.sums.view(np.uint64))
        writer.scalar(zigzag(tally.known_latest))

    def read(self, reader):
        seen, sums = reader.integer() > 0, reader.integer()
        latest = reader.signed(np.ones(reader.size, dtype=np.int64))
        return State(SumTally(np.where(seen, latest, NEVER), sums), Nothing(reader.size))


class TallySketch(Sketch):
    family = 200
    config_class = TallyConfig

    def __init__(self, scale=1):
        self.config = TallyConfig(scale)
        super().__init__(TallyAlgorithm(scale))

    def update(self, value=1, *, at):
        self._keyed.add_row(value, at)

    def update_many(self, value=1, *, at):
        self._keyed.update_many(None, {"value": value, "at": at})

    @question
    def query(view) -> Estimate:
        sums = view.state.tally.sums.astype(np.float64)
        return Estimate(sums, sums, sums)
