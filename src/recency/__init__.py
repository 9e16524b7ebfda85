"""Questions about recent data, answered from small mergeable summaries.

How many, how much, over the last X, where X is chosen when the question is asked. Every answer is
an :class:`Estimate` with an interval that covers the truth.
"""

from recency.deterministic_wave import DeterministicWave
from recency.errors import CorruptSketchError, IncompatibleSketchError, OutOfOrderError
from recency.estimate import Estimate
from recency.exponential_histogram import ExponentialHistogram
from recency.sketch import Sketch, decode_many, encode_many, loads, merge_all

__version__ = "0.1.0"

__all__ = [
    "CorruptSketchError",
    "DeterministicWave",
    "Estimate",
    "ExponentialHistogram",
    "IncompatibleSketchError",
    "OutOfOrderError",
    "Sketch",
    "decode_many",
    "encode_many",
    "loads",
    "merge_all",
]
