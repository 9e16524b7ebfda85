"""How many failures of probability at most p may be seen before the promise is in doubt."""

import math


def most_failures(trials, p, false_alarm):
    """The smallest k with P[Binomial(trials, p) > k] ≤ false_alarm."""
    tail, k = 1.0, -1
    while tail > false_alarm:
        k += 1
        log_term = (
            math.lgamma(trials + 1)
            - math.lgamma(k + 1)
            - math.lgamma(trials - k + 1)
            + k * math.log(p)
            + (trials - k) * math.log1p(-p)
        )
        tail -= math.exp(log_term)
    return k


def assert_rare(failures, trials, doubt, false_alarm=1e-6):
    """No kind of failure is more frequent than a true probability of ``doubt`` allows."""
    allowed = most_failures(trials, doubt, false_alarm / len(failures))
    worst = max(failures, key=failures.get)
    assert failures[worst] <= allowed, (worst, failures[worst] / trials, doubt)
