"""Everything that the author of a sketch needs, under names that stay.

Your own sketches have all that those of this package have: merging, bytes, banks, Spark and
SQL. ``docs/extending.md`` builds one; ``recency.testing`` puts it through the laws.

**The sketch** is a subclass of :class:`Sketch`: settings, ``update``, ``update_many`` and questions
(:func:`question`, :func:`question_of_many`, :func:`question_of_a_key`), which see a :class:`View`
and answer with an :class:`Estimate`.

**The algorithm** says what its settings mean, as functions over arrays that change nothing. Derive
from :class:`TallyAlgorithm` if a few numbers for each key are all that you keep; from
:class:`BatchAlgorithm` if you keep more, and updates one by one need not be fast; from
:class:`Algorithm` to write everything. Its states are a :class:`State`: a tally (:class:`PerKey`)
and a body (:class:`NoBody` if there is none).

**Helpers.** ``validate`` has checks of arguments that name the parameter and what is accepted.
``by_key`` has sums and maxima by key. :func:`to_tick`, :func:`to_ticks` and :func:`to_duration`
understand whatever time is given as. :class:`RecordWriter` and :class:`RecordReader` are for bytes,
which :func:`corrupt` refuses; :func:`zigzag` and :func:`float_bits` make numbers fit for them.

``NEVER`` is the latest time of a key that has seen nothing; ``INT64_MIN`` and ``INT64_MAX`` are the
ends of integers. ``UNITS`` are the units of time that sketches may have.
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
