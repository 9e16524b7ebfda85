"""How many failures are allowed, given a failure probability and a rate of false alarms."""

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
    """Assert that no kind of failure is more frequent than the failure probability allows."""
    allowed = most_failures(trials, doubt, false_alarm / len(failures))
    worst = max(failures, key=failures.get)
    assert failures[worst] <= allowed, (worst, failures[worst] / trials, doubt)
