"""How decayed samples are read: under which decay, and what the median of copies says."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from recency.algorithm import View
from recency.core.level_sample import LevelSample
from recency.decay import Decay, Exponential, NoDecay, SlidingWindow, checked_decay
from recency.errors import NoAnswerError
from recency.estimate import Estimate
from recency.samples.weighted import Triple, Weighed, by_expiry, by_time
from recency.samples.weighted_tuples import Weights, WeightTally


class Reading(Protocol):
    """Which decays may be asked for, and what elements weigh under one."""

    def chosen(self, decay: Decay | None) -> Decay:
        """The decay that is meant."""
        ...

    def weighed(self, sample: LevelSample, tally: WeightTally, decay: Decay, now: int) -> Weighed:
        """The elements of one sample of a key."""
        ...


@dataclass(frozen=True)
class AnyDecay:
    """Elements are kept by time: all decays that end within the window."""

    weights: Weights
    window: int | None

    def chosen(self, decay: Decay | None) -> Decay:
        """By default, no decay but for the window."""
        if decay is None:
            return NoDecay() if self.window is None else SlidingWindow(self.window)
        check_decay(decay, self.window)
        return decay

    def weighed(self, sample: LevelSample, tally: WeightTally, decay: Decay, now: int) -> Weighed:
        """See :func:`by_time`."""
        return by_time(sample, self.weights.sampler, decay, now)


@dataclass(frozen=True)
class OneDecay:
    """Elements are kept by when they expire under one decay."""

    weights: Weights
    decay: Decay

    def chosen(self, decay: Decay | None) -> Decay:
        """That one."""
        if decay is not None and decay != self.decay:
            raise ValueError(
                f"decay must be left out, or {self.decay}: elements were kept for it alone"
            )
        return self.decay

    def weighed(self, sample: LevelSample, tally: WeightTally, decay: Decay, now: int) -> Weighed:
        """See :func:`by_expiry`."""
        bottom, latest = int(self.weights.bottoms(tally.largest)[0]), int(tally.latest[0])
        sampler, sink_together = self.weights.sampler, self.weights.sink_together
        weighed = by_expiry(sample, sampler, decay, now, latest, bottom)
        is_over = isinstance(decay, Exponential) and weighed.most and not weighed.shares.any()
        if is_over and sink_together:
            # All have sunk below the levels that are kept. At the latest time they were as heavy,
            # compared with each other, as now.
            then = by_expiry(sample, sampler, decay, latest, latest, bottom)
            return then.times(float(decay.at(np.array([float(now - latest)]))[0]))
        return weighed


def check_decay(given: object, window: int | None) -> None:
    """Refuse what is not a decay, or reaches beyond the window."""
    decay = checked_decay(given)
    if window is not None and (decay.reach is None or decay.reach > window):
        raise ValueError(f"decay must not reach beyond the window of {window} ticks, got {decay}")


@dataclass(frozen=True)
class Copies:
    """Several samples of one key, of which the median answers."""

    reading: Reading
    copies: int
    confidence: float
    of_each: float
    """The confidence of each copy."""

    def weighed(self, view: View, decay: Decay | None, now: Any) -> list[Weighed]:
        """The elements of each copy under a decay; none if nothing was seen."""
        decay, tick = self.reading.chosen(decay), int(view.now(now)[0])
        tally, body = view.state
        if not tally.seen[0]:
            return []
        numbers = range(self.copies)
        samples = map(body.sample.at, numbers) if self.copies > 1 else [body.sample]
        return [self.reading.weighed(each, tally, decay, tick) for each in samples]

    def answer(
        self,
        copies: Sequence[Weighed],
        ask: Callable[[Weighed, float], Triple],
        needs_data: bool = False,
    ) -> Estimate:
        """The median of what the copies say."""
        if not copies:
            if needs_data:
                raise NoAnswerError("this question needs elements, and there are none")
            return Estimate(0.0, 0.0, 0.0)
        answers, nothing = [], None
        for each in copies:
            try:
                answers.append(ask(each, self.of_each))
            except NoAnswerError as error:
                nothing = error
        if nothing is not None and not answers:
            raise nothing
        return self.middle(copies, answers)

    def middle(self, copies: Sequence[Weighed], answers: Sequence[Triple]) -> Estimate:
        """The answer in the middle."""
        # Some copies may have no answer. Of an even number, the lower of both in the middle: it is
        # a value of the stream where the question asks for one.
        in_order, middle = np.sort(answers, axis=0), (len(answers) - 1) // 2
        value, lower = (float(x) for x in in_order[middle, :2])
        upper = float(in_order[len(answers) // 2, 2])
        is_certain = not any(each.most for each in copies)
        return Estimate(value, lower, upper, 1.0 if is_certain else self.confidence)
