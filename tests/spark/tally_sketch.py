"""A sketch that is not part of the library, in its own file: an exact sum without windows."""

from dataclasses import dataclass

import numpy as np

from recency.extending import (
    NEVER,
    Estimate,
    NoBody,
    PerKey,
    Sketch,
    State,
    TallyAlgorithm,
    by_key,
    question,
    to_ticks,
    validate,
)


@dataclass(frozen=True)
class TallyConfig:
    scale: int


@dataclass(frozen=True, eq=False)
class SumTally(PerKey):
    sums: np.ndarray


class SumAlgorithm(TallyAlgorithm):
    tally = SumTally

    def __init__(self, scale):
        self.scale = scale

    def check(self, size, value=1, at=None):
        sums = self.scale * validate.integers(value, "value", 0, 2**31)
        return validate.as_columns(size, at=to_ticks(at, None), value=sums)

    def merge(self, state, into, size):
        latest = by_key.raised(np.full(size, NEVER), into, state.tally.latest)
        sums, too_large = by_key.sums(into, state.tally.sums, size)
        if too_large.any():
            raise ValueError("sums must stay within int64")
        return State(SumTally(latest, sums), NoBody(size))

    def flaw(self, tally):
        return "a negative sum" if (tally.sums < 0).any() else None


class TallySketch(Sketch):
    family = 210
    config_class = TallyConfig

    def __init__(self, scale=1):
        self.config = TallyConfig(scale)
        super().__init__(SumAlgorithm(scale))

    def update(self, value=1, *, at):
        self._keyed.add_row(value, at)

    def update_many(self, value=1, *, at):
        self._keyed.update_many(None, {"value": value, "at": at})

    @question
    def query(view) -> Estimate:
        sums = view.state.tally.sums.astype(np.float64)
        return Estimate(sums, sums, sums)
