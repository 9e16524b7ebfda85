"""Sums over asynchronous streams (Xu, Tirthapura & Busch 2008, §2)."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from recency.algorithm import View
from recency.core import validate
from recency.core.sizing import capacity_for_count, kept_relative_error
from recency.estimate import Estimate
from recency.questions import question
from recency.samples.age_sums import AgeSums
from recency.samples.algorithm import SampleAlgorithm
from recency.samples.events import Events, ValueElements, WeightLevels
from recency.samples.intake import MOST_SUMMAND, check_of
from recency.samples.retention import ByTime
from recency.samples.window_sums import window_sums
from recency.sketch import Sketch
from recency.timeunit import Duration, Time, largest_window


@dataclass(frozen=True)
class SumWaveConfig:
    """Configuration of a sum wave; ``window`` in ticks."""

    window: int | None
    relative_error: float
    confidence: float
    capacity: int
    seed: int
    unit: str | None


class SumWave(Sketch):
    """Sum or count over any recent window of a stream that arrives in any order.

    Every event draws a *coin*, a hash that decides in which levels of the sample it is kept.

    **Guarantee.** For any one window up to ``window``, the relative error is at most
    ``relative_error`` with probability ``confidence`` (Theorem 1). The answer is exact while no
    event of the window was discarded, hence at least while the window holds at most ``capacity``
    events (Lemma 4). Numbers are float64: where a sum is 2⁵³ or more, bounds allow for integers
    that were rounded.

    **Cost.** ``capacity`` is 1 677 at the defaults. The sketch keeps about log₂(sum / capacity)
    levels, each with up to ``capacity`` events.

    **Merging** is exact. Sketches that are built separately and merged need different ``stream``
    numbers, or events with ids. Otherwise the first events of all of them share one coin, so do the
    second ones, and so on, and sampling errors add up instead of averaging out.

    **Ids.** If all events have ids, the sketch also keeps exact sums by age. Intervals are then
    narrower, and cover however often an event is repeated with its id.

    **Time.** Events may arrive in any order; each counts at its own time. Windows are half-open,
    (now − window, now].

    Parameters
    ----------
    window
        Longest window that can be queried, in ticks or, with ``unit``, a duration such as
        ``"90 minutes"``. None: no limit.
    relative_error, confidence
        Error bound ε, and the least probability with which it holds. Both in (0, 1).
    stream
        Stream number, from which events without an ``id`` draw their coins. Sketches that are
        built separately and merged later need different numbers.
    capacity
        Events per level; None: as many as ``relative_error`` and ``confidence`` require.
    seed
        Seed of the hash functions. Sketches with different seeds do not merge.
    unit
        What a tick is: ``"s"``, ``"ms"`` or ``"us"`` since 1970. None: times are plain integers.

    Examples
    --------
    >>> from recency import SumWave
    >>> sales = SumWave(window=10_000)
    >>> sales.update_many([2.5] * 50_000, at=[n * 7919 % 50_000 for n in range(50_000)])
    >>> answer = sales.query(8_000)  # exact: 20,000
    >>> answer.lower <= 20_000 <= answer.upper
    True

    References
    ----------
    Xu, Tirthapura & Busch, *Sketching Asynchronous Data Streams over Sliding Windows*, Distributed
    Computing 2008, §2.
    """

    family = 4
    config: SumWaveConfig
    config_class = SumWaveConfig

    def __init__(
        self,
        window: Duration | None = None,
        relative_error: float = 0.05,
        confidence: float = 0.95,
        *,
        stream: int = 0,
        capacity: int | None = None,
        seed: int = 0,
        unit: Literal["s", "ms", "us"] | None = None,
    ) -> None:
        ticks = largest_window(window, unit)
        error = validate.fraction(relative_error, "relative_error")
        confidence = validate.confidence(confidence)
        self.config = SumWaveConfig(
            ticks,
            error,
            confidence,
            validate.capacity(capacity) or capacity_for_count(error, 1 - confidence),
            validate.integer(seed, "seed"),
            unit,
        )
        config = self.config
        value = check_of("value", 1, least=0.0, most=MOST_SUMMAND)
        super().__init__(
            SampleAlgorithm(
                config,
                Events(config.seed, unit, value, drops_zeros=True),
                ByTime(ValueElements(WeightLevels()), ticks),
                partial(kept_relative_error, config.capacity, error, 1 - confidence),
                sums=AgeSums(ticks, lambda values: values, MOST_SUMMAND),
            ),
            stream,
        )

    def update(self, value: float = 1, *, at: Time, id: Any = None) -> None:
        """Add ``value`` at time ``at``.

        Parameters
        ----------
        value
            A number ≥ 0.
        id
            Identifies the event: integer, string or bytes. The coin is then a hash of id, time and
            value, instead of the stream number and the position in the stream. Events with equal
            ids all count.
        """
        self._keyed.add_row(value, at, id)

    def update_many(self, value: Any = 1, *, at: Any, id: Any = None) -> None:
        """Add one event per row; scalars are broadcast to the length of the arrays."""
        self._keyed.update_many(None, {"value": value, "at": at, "id": id})

    @question
    def query(view: View, window: Duration | None = None, now: Time | None = None) -> Estimate:
        """Return the sum of the values in (now − window, now].

        ``window`` and ``now`` are described in :class:`~recency.Sketch`.

        Raises
        ------
        NoAnswerError
            If the sample contradicts the assumption of independent coins: equal stream numbers.
        """
        return window_sums(view, view.since(window, now), view.state.body.sample.columns[0])
