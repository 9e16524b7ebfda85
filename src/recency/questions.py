"""Questions: declared once, with the function that answers; asked of sketches, banks and in Spark.

A question is a function of a :class:`~recency.algorithm.View` of n keys, and of its own arguments.
Declared in a class of sketches, it is a method of these.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, signature
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, get_args, get_origin

import numpy as np

from recency.algorithm import View
from recency.core.arrays import BoolArray
from recency.errors import NoAnswerError
from recency.estimate import Estimate

P = ParamSpec("P")
R = TypeVar("R")

Gives = Literal["estimate", "estimates", "items", "other"]


@dataclass(frozen=True)
class Question:
    """A question that was declared in a class of sketches."""

    name: str
    answer: Callable[..., Any]
    """The function of a view."""
    gives: Gives
    """Of each key one estimate, several, or a list of items with estimates."""
    is_per_key: bool
    """Whether the function takes views of one key alone."""

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """The arguments of the question."""
        _, *arguments = signature(self.answer).parameters.values()
        return {each.name: each for each in arguments}

    @property
    def literals(self) -> list[str]:
        """Names of the arguments that are plain values: all but predicates and sketches."""
        return [name for name in self.parameters if name not in ("where", "other")]

    def takes(self, given: Mapping[str, Any]) -> bool:
        """Whether it can be asked with these arguments, by name."""
        needed = {n for n, each in self.parameters.items() if each.default is Parameter.empty}
        return needed <= set(given) <= set(self.literals)


def question(answer: Callable[Concatenate[View, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Declare a question, in a class of sketches: a function of a :class:`View` of n keys.

    It answers with an :class:`~recency.Estimate` whose fields are arrays of n elements. Asked of a
    sketch, which has one key, the fields are numbers; a bank and Spark ask all keys at once::

        @question
        def query(view, window=None, now=None) -> Estimate: ...
    """
    return _declared(answer, "estimate", is_per_key=False)


def question_of_many(answer: Callable[Concatenate[View, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Declare a question about several things, such as items: the arrays have a row for each key.

    Asked of a sketch, the fields are the only row.
    """
    return _declared(answer, "estimates", is_per_key=False)


def question_of_a_key(
    answer: Callable[Concatenate[View, P], R],
) -> Callable[Concatenate[Any, P], R]:
    """Declare a question that is put to one key at a time: a function of a view of one key.

    For what cannot be answered for many keys at once. It may answer anything; if it is declared to
    return ``list[tuple[item, Estimate]]``, Spark's ``frequent`` can ask it. An estimate has floats,
    or arrays of one element.
    """
    returned = answer.__annotations__.get("return")
    gives: Gives = "estimate" if returned is Estimate else "other"
    if get_origin(returned) is list and get_origin(get_args(returned)[0]) is tuple:
        gives = "items"
    return _declared(answer, gives, is_per_key=True)


def _declared(
    answer: Callable[Concatenate[View, P], R], gives: Gives, is_per_key: bool
) -> Callable[Concatenate[Any, P], R]:
    @wraps(answer)
    def ask(self: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._ask(answer, *args, **kwargs)  # type: ignore[no-any-return]

    ask.question = Question(answer.__name__, answer, gives, is_per_key)  # type: ignore[attr-defined]
    return ask  # type: ignore[return-value]


def questions_of(cls: type) -> Mapping[str, Question]:
    """The questions of a class of sketches, by name."""
    methods = {name: getattr(cls, name) for name in dir(cls) if not name.startswith("_")}
    return {
        name: method.question for name, method in methods.items() if hasattr(method, "question")
    }


def unanswered(estimate: Estimate, missing: BoolArray, reason: str) -> Estimate:
    """The estimate, with NaN in (−∞, ∞) for keys that have no answer.

    Of a single key it is a ``NoAnswerError`` with the reason.
    """
    if not missing.any():
        return estimate
    if missing.size == 1:
        raise NoAnswerError(reason)
    return Estimate(
        np.where(missing, np.nan, estimate.value),
        np.where(missing, -np.inf, estimate.lower),
        np.where(missing, np.inf, estimate.upper),
        estimate.confidence,
    )
