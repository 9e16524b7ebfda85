"""Questions about recent data, answered from small mergeable summaries.

How many, how much, over the last X, where X is chosen when the question is asked. Every answer is
an :class:`Estimate` with an interval that covers the truth.
"""

from recency.bank import Bank
from recency.decayed_sample import DecayedSample
from recency.deterministic_wave import DeterministicWave
from recency.dyadic_ecm import DyadicEcm
from recency.ecm import EcmSketch
from recency.errors import (
    CorruptSketchError,
    IncompatibleSketchError,
    NoAnswerError,
    OutOfOrderError,
)
from recency.estimate import Estimate
from recency.exponential_histogram import ExponentialHistogram
from recency.nth_recent_wave import NthRecentWave
from recency.quantile_wave import QuantileWave
from recency.randomized_wave import RandomizedWave
from recency.sketch import Sketch, decode_many, encode_many, loads, merge_all
from recency.sum_wave import SumWave
from recency.wbmh import WeightBasedMergingHistogram

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
