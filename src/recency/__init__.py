"""Questions about recent data, answered from small mergeable summaries.

How many, how much, over the last X, where X is chosen when the question is asked. Every answer is
an :class:`Estimate` with an interval that covers the truth.
"""

from recency.bank import Bank
from recency.counters.deterministic_wave import DeterministicWave
from recency.counters.exponential_histogram import ExponentialHistogram
from recency.counters.nth_recent_wave import NthRecentWave
from recency.errors import (
    CorruptSketchError,
    IncompatibleSketchError,
    NoAnswerError,
    OutOfOrderError,
)
from recency.estimate import Estimate
from recency.frequencies.dyadic_ecm import DyadicEcm
from recency.frequencies.ecm_sketch import EcmSketch
from recency.moved import MOVED as _MOVED  # noqa: F401  (old names in pickles)
from recency.samples.decayed_sample import DecayedSample
from recency.samples.quantile_wave import QuantileWave
from recency.samples.randomized_wave import RandomizedWave
from recency.samples.sum_wave import SumWave
from recency.samples.weight_based_merging_histogram import WeightBasedMergingHistogram
from recency.sketch import Sketch, decode_many, encode_many, loads, merge_all

__version__ = "0.1.0"

__all__ = [
    "Bank",
    "CorruptSketchError",
    "DecayedSample",
    "DeterministicWave",
    "DyadicEcm",
    "EcmSketch",
    "Estimate",
    "ExponentialHistogram",
    "IncompatibleSketchError",
    "NoAnswerError",
    "NthRecentWave",
    "OutOfOrderError",
    "QuantileWave",
    "RandomizedWave",
    "Sketch",
    "SumWave",
    "WeightBasedMergingHistogram",
    "decode_many",
    "encode_many",
    "loads",
    "merge_all",
]
