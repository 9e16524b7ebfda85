"""How questions read decayed samples: under which decay, and with medians over copies."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from recency.algorithm import View
from recency.core.level_sample import LevelSample
from recency.decay import Decay, Exponential, NoDecay, SlidingWindow, checked_decay
from recency.errors import NoAnswerError
from recency.estimate import Estimate
from recency.samples.weighted import Triple, Weighed, by_expiry, by_time
from recency.samples.weighted_tuples import Weights, WeightTally


class Reading(ABC):
    """Which decays a question may have, and the decayed weights of elements under one."""

    @abstractmethod
    def chosen(self, decay: Decay | None) -> Decay:
        """Return the decay of a question, given its argument."""

    @abstractmethod
    def weighed(self, sample: LevelSample, tally: WeightTally, decay: Decay, now: int) -> Weighed:
        """Return the elements of one sample of a key, with their decayed weights."""


@dataclass(frozen=True)
class AnyDecay(Reading):
    """For elements kept by time: any decay that is 0 from the age ``window`` on."""

    weights: Weights
    window: int | None

    def chosen(self, decay: Decay | None) -> Decay:
        """Return the given decay; by default the sliding window, or no decay without one."""
        if decay is None:
            return NoDecay() if self.window is None else SlidingWindow(self.window)
        check_decay(decay, self.window)
        return decay

    def weighed(self, sample: LevelSample, tally: WeightTally, decay: Decay, now: int) -> Weighed:
        """Return the elements of one sample; see :func:`by_time`."""
        return by_time(sample, self.weights.sampler, decay, now)


@dataclass(frozen=True)
class OneDecay(Reading):
    """For elements kept by expiry under one decay: only this decay."""

    weights: Weights
    decay: Decay

    def chosen(self, decay: Decay | None) -> Decay:
        """Return the decay of the sketch; refuse another."""
        if decay is not None and decay != self.decay:
            raise ValueError(
                f"decay must be left out, or be that of the constructor, {self.decay}; got {decay}"
            )
        return self.decay

    def weighed(self, sample: LevelSample, tally: WeightTally, decay: Decay, now: int) -> Weighed:
        """Return the elements of one sample; see :func:`by_expiry`."""
        bottom, latest = int(self.weights.bottoms(tally.largest)[0]), int(tally.latest[0])
        sampler, sink_together = self.weights.sampler, self.weights.sink_together
        weighed = by_expiry(sample, sampler, decay, now, latest, bottom)
        is_over = isinstance(decay, Exponential) and weighed.most and not weighed.shares.any()
        if is_over and sink_together:
            # All elements are below the levels that are kept. Exponential decay keeps the ratios
            # of weights, so scale the answer at the latest time.
            then = by_expiry(sample, sampler, decay, latest, latest, bottom)
            return then.times(float(decay.at(np.array([float(now - latest)]))[0]))
        return weighed


def check_decay(given: object, window: int | None) -> None:
    """Refuse what is not a decay, or is above 0 at ages from ``window`` on."""
    decay = checked_decay(given)
    if window is not None and (decay.reach is None or decay.reach > window):
        raise ValueError(f"decay must not reach beyond the window of {window} ticks, got {decay}")


@dataclass(frozen=True)
class Copies:
    """Several samples of one key; answers are medians over them."""

    reading: Reading
    copies: int
    confidence: float
    of_each: float
    """The confidence of each copy."""

    def weighed(self, view: View, decay: Decay | None, now: Any) -> list[Weighed]:
        """Return the elements of each copy under a decay; none if the key is empty."""
        decay, tick = self.reading.chosen(decay), int(view.now(now)[0])
        tally, body = view.state
        if not tally.seen[0]:
            return []
        samples = [body.sample]
        if self.copies > 1:
            samples = [body.sample.take(np.array([copy])) for copy in range(self.copies)]
        return [self.reading.weighed(each, tally, decay, tick) for each in samples]

    def answer(
        self,
        copies: Sequence[Weighed],
        ask: Callable[[Weighed, float], Triple],
        needs_data: bool = False,
    ) -> Estimate:
        """Return the median of the answers of all copies."""
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
        """Return the median estimate, and the medians of both ends."""
        # Some copies may have no answer. Of an even number, take the lower of both in the middle,
        # since a quantile must be a value of the stream.
        in_order, middle = np.sort(answers, axis=0), (len(answers) - 1) // 2
        value, lower = (float(x) for x in in_order[middle, :2])
        upper = float(in_order[len(answers) // 2, 2])
        is_certain = not any(each.most for each in copies)
        return Estimate(value, lower, upper, 1.0 if is_certain else self.confidence)
