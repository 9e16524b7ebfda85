"""Sketches with a largest window and a clock: what their questions share."""

from typing import Any

import numpy as np

from recency.core.arrays import INT64_MIN, Int64Array, cutoffs
from recency.sketch import Sketch
from recency.timeunit import to_duration, to_tick


class WindowedSketch(Sketch):
    """A sketch whose configuration has ``unit``, and perhaps ``window`` (ticks, or None)."""

    _latest: int | None

    @property
    def _window(self) -> int | None:
        """The largest window, in ticks; None for no bound."""
        return getattr(self.config, "window", None)

    @property
    def latest(self) -> int | None:
        """The latest time seen, in ticks; None when empty."""
        return self._latest

    def _since(self, window: Any, now: Any) -> int:
        """The s of the window (s, now] that was asked for; checks both."""
        width = self._window
        if window is not None:
            width = to_duration(window, self.config.unit)
            if self._window is not None and width > self._window:
                raise ValueError(f"window must be in [1, {self._window}], got {width}")
        tick = self._now(now)
        return INT64_MIN if width is None else max(tick - width, INT64_MIN)

    def _now(self, now: Any) -> int:
        """The time that a question is asked at: the latest seen, unless it says so."""
        if now is None:
            return self._latest or 0
        tick = to_tick(now, self.config.unit, "now")
        if self._latest is not None and tick < self._latest:
            raise ValueError(
                f"now must not be before the latest time seen ({self._latest}), got {tick}"
            )
        return tick

    def _cutoff(self) -> Int64Array:
        """The last time that no window reaches; an array, for kernels that take one per key."""
        return cutoffs(np.array([self._latest]), self._window)

    def _description(self, seen: str) -> str:
        """``repr``: class, guarantee, window, what was seen, bytes."""
        config = self.config
        by_count = getattr(config, "by", "time") == "count"
        unit = config.unit or ("updates" if by_count else "ticks")
        window = "unbounded" if self._window is None else f"{self._window} {unit}"
        try:
            size = f"{self.nbytes} bytes"
        except ValueError:  # a configuration that cannot be written
            size = "not for bytes"
        return (
            f"{type(self).__name__}(guarantee={self.guarantee:.4g}, window={window}, "
            f"{'empty' if self.is_empty else seen}, {size})"
        )
