"""Which decays have a small summary with relative errors, and why the others have none.

A correlated sum is that of the elements with values from a threshold on, where the question gives
the threshold. Cormode, Tirthapura & Xu 2009 (*Time-Decayed Correlated Aggregates*, §4) prove for
which decays a small summary can answer with an error relative to the answer.

Error texts mention ``DecayedSample``, whose error is relative to the sum of all elements. That one
capacity of it is enough for any decay is measured (``tests/accuracy/test_decayed_sample.py``), not
proved: the theorems are about windows, and about integral decays.
"""

from typing import NoReturn

from recency.decay import FiniteExponential, checked_decay

_INSTEAD = (
    "use DecayedSample, whose correlated_sum has an error relative to the sum of all elements "
    "under any decay, or a converging decay such as Polynomial"
)


def check_converging(given: object) -> None:
    """Refuse decays for which no small summary has relative errors, with the reason."""
    decay = checked_decay(given)

    def refuse(kind: str, reason: str, theorem: str, instead: str = "") -> NoReturn:
        raise ValueError(
            f"decay must be converging and not exponential, but {decay} is {kind}: {reason} "
            f"(Cormode, Tirthapura & Xu 2009, Theorem {theorem}); {_INSTEAD}{instead}"
        )

    if isinstance(decay, FiniteExponential):
        return
    if "finite" in decay.kinds:
        refuse(
            "finite",
            "relative errors need Ω(N log(m/N)) bits for N ticks with weight and m values, "
            "as much as storing them",
            "4.1",
        )
    finite = ", or FiniteExponential, under which every element that still counts is kept"
    linear = "relative errors need Ω(m log(n/m)) bits for m values in n = Θ(m) elements"
    if "exponential" in decay.kinds:
        refuse("exponential", linear, "4.2", finite)
    if "super_exponential" in decay.kinds:
        refuse("super-exponential", linear, "4.3", finite)
    if "converging" not in decay.kinds:
        raise ValueError(
            f"decay must be converging, but the kinds of {decay} do not include it: where "
            f"f(x + 1)/f(x) decreases, a bucket does not stay within its spread; {_INSTEAD}"
        )
