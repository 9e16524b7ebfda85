"""A sketch of your own: on how many of the last days anything happened. See docs/extending.md."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from recency.extending import (
    NEVER,
    Columns,
    Estimate,
    NoBody,
    PerKey,
    Sketch,
    State,
    TallyAlgorithm,
    UInt64Array,
    View,
    by_key,
    highest_bit,
    question,
    ticks_between,
    to_ticks,
    validate,
)  # fmt: skip

ONE, MOST = np.uint64(1), 63


@dataclass(frozen=True, eq=False)
class Days(PerKey):
    """Besides ``latest``: bit i says whether anything happened on day ``latest`` - i."""

    active: UInt64Array
    start: ClassVar = {**PerKey.start, "active": np.uint64(0)}


class ActiveDaysAlgorithm(TallyAlgorithm):
    """A key's tally is all there is."""

    tally = Days

    def __init__(self, window: int) -> None:
        self.window, self.mask = window, (ONE << np.uint64(window)) - ONE

    def check(self, size: int | None, at: Any) -> Columns:
        """For each row, the fields of ``Days`` of a key that has seen nothing else."""
        return validate.as_columns(size, at=to_ticks(at, None), active=np.asarray(ONE))

    def merge(self, state: State, into: Any, size: int) -> State:
        """Bits move to the latest day of all, and meet there."""
        latest = by_key.raised(np.full(size, NEVER), into, state.tally.latest)
        older = np.minimum(ticks_between(state.tally.latest, latest[into]), np.uint64(MOST))
        active = np.zeros(size, dtype=np.uint64)
        np.bitwise_or.at(active, into, (state.tally.active << older) & self.mask)
        return State(Days(latest, active), NoBody(size))

    def flaw(self, tally: Days) -> str | None:
        """Days are active on their latest, within the window, and never before time began."""
        oldest = highest_bit(tally.active).view(np.uint64)
        possible = (tally.active & ONE > 0) & (tally.active <= self.mask)
        possible &= oldest < ticks_between(NEVER, tally.latest)
        return None if possible.all() else "days that cannot be"


@dataclass(frozen=True)
class ActiveDaysConfig:
    """What two sketches must share to merge."""

    window: int


class ActiveDays(Sketch):
    """On how many of the last ``window`` days, at most 63, anything happened; always exact."""

    family, config_class = 200, ActiveDaysConfig

    def __init__(self, window: int = 28) -> None:
        self.config = ActiveDaysConfig(validate.integer(window, "window", 1, MOST))
        super().__init__(ActiveDaysAlgorithm(window))

    def update(self, *, at: int) -> None:
        """Something happened on day ``at``."""
        self._keyed.add_row(at)

    def update_many(self, *, at: Any) -> None:
        """The same for a column of days."""
        self._keyed.update_many(None, {"at": at})

    @question
    def query(view: View, window: int | None = None, now: int | None = None) -> Estimate:
        """On how many of the days in (now - window, now] anything happened."""
        days = view.state.tally
        reach = np.maximum(days.latest, view.since(window, now)) - view.since(window, now)
        active = days.active & ((ONE << reach.astype(np.uint64)) - ONE)
        count = np.unpackbits(active.view(np.uint8).reshape(-1, 8), axis=1).sum(axis=1) * 1.0
        return Estimate(count, count, count)
