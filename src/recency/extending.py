"""All names that the author of a sketch needs. They will not change.

Sketches of your own have merging, bytes, banks, Spark and SQL like those of this package.
``docs/extending.md`` builds one; ``recency.testing`` tests it.

**The sketch** is a subclass of :class:`Sketch`. It has settings, ``update``, ``update_many`` and
questions (:func:`question`, :func:`question_of_many`, :func:`question_of_a_key`), which take a
:class:`View` and return an :class:`Estimate`.

**The algorithm** implements the settings, as functions over arrays that modify nothing. Derive it
from :class:`TallyAlgorithm` if the state is a few numbers per key, and from
:class:`BatchAlgorithm` if it is more and single updates need not be fast. Derive it from
:class:`Algorithm` to write all methods. Its states are of class :class:`State`: a tally
(:class:`PerKey`) and a body (:class:`NoBody` if there is none).

**Helpers.** ``validate`` checks arguments, with messages that name the parameter and what is
accepted. ``by_key`` computes sums and maxima by key. :func:`to_tick`, :func:`to_ticks` and
:func:`to_duration` convert times and durations of all accepted types to ticks.
:class:`RecordWriter` and :class:`RecordReader` write and read bytes, and :func:`corrupt` raises a
``CorruptSketchError``. :func:`zigzag` and :func:`float_bits` turn numbers into unsigned integers
for them.

``NEVER`` is the latest time of a key without events. ``INT64_MIN`` and ``INT64_MAX`` are the
limits of int64. ``UNITS`` are the units of time that sketches may have.
"""

from recency.algorithm import NEVER, Admitted, Algorithm, Columns, PerKey, State, View, described
from recency.batch_algorithm import BatchAlgorithm, NoBody, TallyAlgorithm
from recency.core import by_key, validate
from recency.core.arrays import (
    INT64_MAX,
    INT64_MIN,
    BoolArray,
    FloatArray,
    Int64Array,
    UInt64Array,
    floats_above,
    floats_below,
    highest_bit,
    offsets,
    ranges,
    ticks_between,
)
from recency.core.codec import RecordReader, RecordWriter, corrupt, float_bits, unzigzag, zigzag
from recency.core.hashing import hash_items
from recency.errors import (
    CorruptSketchError,
    IncompatibleSketchError,
    NoAnswerError,
    OutOfOrderError,
)
from recency.estimate import Estimate
from recency.keyed import only_key
from recency.questions import question, question_of_a_key, question_of_many, unanswered
from recency.sketch import NoSettings, Sketch
from recency.timeunit import UNITS, Duration, Time, to_duration, to_tick, to_ticks

__all__ = [
    "INT64_MAX",
    "INT64_MIN",
    "NEVER",
    "UNITS",
    "Admitted",
    "Algorithm",
    "BatchAlgorithm",
    "BoolArray",
    "Columns",
    "CorruptSketchError",
    "Duration",
    "Estimate",
    "FloatArray",
    "IncompatibleSketchError",
    "Int64Array",
    "NoAnswerError",
    "NoBody",
    "NoSettings",
    "OutOfOrderError",
    "PerKey",
    "RecordReader",
    "RecordWriter",
    "Sketch",
    "State",
    "TallyAlgorithm",
    "Time",
    "UInt64Array",
    "View",
    "by_key",
    "corrupt",
    "described",
    "float_bits",
    "floats_above",
    "floats_below",
    "hash_items",
    "highest_bit",
    "offsets",
    "only_key",
    "question",
    "question_of_a_key",
    "question_of_many",
    "ranges",
    "ticks_between",
    "to_duration",
    "to_tick",
    "to_ticks",
    "unanswered",
    "unzigzag",
    "validate",
    "zigzag",
]
