"""Sketches in expressions: for ``groupBy().agg()``, ``select``, ``withColumn``, and in SQL.

::

    from recency.spark import functions as R

    users = R.sketch_agg(RandomizedWave("7 days", unit="s"), at="time", item="user")
    clicks.groupBy("page").agg(users.alias("sketch"))
    stored.groupBy("page").agg(R.merge_agg("sketch").alias("sketch"))
    stored.select("page", R.estimate("sketch", window="1 hour"))

An aggregate here gets all rows of a group at once, in the memory of one worker: for large groups
:func:`~recency.spark.sketch_df` builds sketches where the rows are. It must not be mixed with the
aggregates of Spark itself in one ``agg``.
"""

import datetime
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Parameter
from itertools import count
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    StringType,
    StructField,
    StructType,
)

from recency.core import validate
from recency.decay import Decay
from recency.estimate import Estimate
from recency.questions import Gives, Question, questions_of
from recency.serialization import known_classes, merge_frames, read_frames
from recency.sketch import Sketch, descriptions
from recency.spark.build import ORDER_BITS, Job, explained, partition_id
from recency.spark.checks import ColumnLike, check_prototype, check_roles, check_type, parameters
from recency.spark.job_number import draws_coins, first_stream, given_number, number_of
from recency.spark.tree import knowing_all
from recency.timeunit import to_duration

_ANSWER = StructType(
    [StructField(name, DoubleType()) for name in ("estimate", "lower", "upper", "confidence")]
)
_ANSWERS = ArrayType(StructType([StructField("item", StringType()), *_ANSWER.fields]))
_LITERALS = (int, float, str, bytes, datetime.date, datetime.timedelta, np.generic, Decay)
_calls = count()
_udfs: Any = F  # what there is of them depends on the version
T = TypeVar("T")


# --- aggregates ---------------------------------------------------------------------------------


@explained("functions.sketch_agg")
def sketch_agg(
    prototype: Sketch,
    *,
    at: ColumnLike | None = None,
    item: ColumnLike | None = None,
    value: ColumnLike | None = None,
    weight: ColumnLike | None = None,
    id: ColumnLike | None = None,
    stream: int | str | None = None,
) -> Column:
    """Return an aggregate that builds one sketch per group, as bytes.

    All parameters but ``stream`` are those of :func:`~recency.spark.sketch_df`.

    Parameters
    ----------
    stream
        Number or name from which events draw coins, where they do. None: each call of this function
        in a process gets the next number, and groups whose rows differ draw different coins. A
        column does not know its DataFrame. So groups of *equal* rows draw the same coins if the
        same column is used with several DataFrames, or if separate programs build it. Give such
        columns a ``stream`` of their own before their sketches are merged.

    Returns
    -------
    Column
        Binary, named ``sketch``.
    """
    function = "functions.sketch_agg"
    check_prototype(prototype)
    number = given_number(stream)
    if number is None:
        number = number_of(prototype, function, str(next(_calls)))
    columns = {"at": at, "item": item, "value": value, "weight": weight, "id": id}
    given = {role: column for role, column in columns.items() if column is not None}
    check_roles(prototype, given)
    for role, column in given.items():
        _check_column(column, role)
    build = _built(prototype, tuple(given), number, function)
    arguments: list[Any] = list(given.values())
    if not hasattr(_udfs, "arrow_udf") and "at" in given:
        build, arguments = _with_exact_times(build), [*_as_integers(at), *arguments[1:]]
    built: Column = _aggregate(build, BinaryType())(*arguments)
    return built.alias("sketch")


@explained("functions.merge_agg")
def merge_agg(column: ColumnLike) -> Column:
    """Return an aggregate that merges the stored sketches of each group; NULLs are left out."""
    _check_column(column, "column")
    merged: Column = _aggregate(_reading("functions.merge_agg", _merged), BinaryType())(column)
    return merged.alias("sketch")


# --- questions ----------------------------------------------------------------------------------


@explained("functions.estimate")
def estimate(column: ColumnLike, question: str | None = None, **literals: Any) -> Column:
    """Ask each stored sketch a question: ``estimate("sketch", "quantile", q=0.5)``.

    Parameters
    ----------
    column
        The column of sketches.
    question
        Name of a method of the sketch that returns one ``Estimate``. None: ``query``.
    literals
        Arguments of that method, by name: plain values, durations, times or a decay.

    Returns
    -------
    Column
        struct<estimate, lower, upper, confidence>. It is NULL where the sketch is NULL or has no
        answer, such as the median of an empty window.
    """
    return _question(_ONE, column, question, literals)


@explained("functions.frequent")
def frequent(column: ColumnLike, question: str | None = None, **literals: Any) -> Column:
    """Ask each stored sketch for a list of items: ``frequent("sketch", threshold=0.01)``.

    Parameters
    ----------
    column
        The column of sketches.
    question
        Name of a method of the sketch that returns a list of items and estimates. None:
        ``frequent_items`` or ``heavy_hitters``, whichever it has.
    literals
        Arguments of that method, by name.

    Returns
    -------
    Column
        array<struct<item, estimate, lower, upper, confidence>>, in the order of the list. Items are
        strings. It is NULL where the sketch is NULL.
    """
    return _question(_LIST, column, question, literals)


@explained("functions.describe")
def describe(column: ColumnLike) -> Column:
    """Return the ``repr`` of each stored sketch: class, guarantee, window, state and size."""
    _check_column(column, "column")
    text: Column = _scalar(_reading("functions.describe", _described), StringType())(column)
    return text.alias("description")


# --- SQL ----------------------------------------------------------------------------------------


@explained("register")
def register(spark: SparkSession, prototypes: Mapping[str, Sketch] | None = None) -> None:
    """Register the functions of this module for SQL, in one session.

    They are ``recency_merge_agg(sketch)``, ``recency_estimate(sketch, question, json)``,
    ``recency_frequent(sketch, question, json)`` and ``recency_describe(sketch)``. ``question`` and
    ``json`` may be NULL or left out. ``json`` has the arguments of the question, such as
    ``'{"window": "1 hour"}'``; a decay is written
    ``{"decay": {"kind": "Exponential", "half_life": 3600}}``.

    Parameters
    ----------
    spark
        The session, classic or Connect.
    prototypes
        For each name an empty sketch. The aggregate ``name_agg(at, …)`` then builds such sketches:
        it takes the time first, then the other parameters of the sketch's ``update`` in their
        order; trailing ones may be left out. Where events draw coins, aggregates of different names
        draw different ones, and so do groups whose rows differ; see :func:`sketch_agg`.

    Raises
    ------
    ValueError
        If a name is not an SQL identifier, or begins with ``recency_``.
    """
    if not (hasattr(spark, "udf") and hasattr(spark, "sql")):  # classic and Connect are not kin
        raise TypeError(f"spark must be a SparkSession, got {type(spark).__name__}")
    if not isinstance(prototypes, Mapping | None):
        kind = type(prototypes).__name__
        raise TypeError(f"prototypes must be a dict of names and sketches, got {kind}")
    for name, prototype in (prototypes or {}).items():
        if not isinstance(name, str) or not re.fullmatch(r"(?!(?i:recency_))[A-Za-z_]\w*", name):
            raise ValueError(
                f"a name must be one in SQL, and not start with recency_, got {name!r}"
            )
        with explained(name):
            check_prototype(prototype)
        order = sorted(parameters(prototype), key=lambda name: name != "at")
        number = number_of(prototype, "register", name)
        built = _built_by_position(prototype, order, number, f"{name}_agg")
        spark.udf.register(f"{name}_agg", _aggregate(built, BinaryType()))
    merge_name, describe_name = "recency_merge_agg", "recency_describe"
    for name, udf in {
        merge_name: _aggregate(_reading(merge_name, _merged), BinaryType()),
        "recency_estimate": _asked_in_sql("recency_estimate", _ONE),
        "recency_frequent": _asked_in_sql("recency_frequent", _LIST),
        describe_name: _scalar(_reading(describe_name, _described), StringType()),
    }.items():
        spark.udf.register(name, udf)


# --- what runs on executors: arrays in, arrays or bytes out --------------------------------------


def _built(
    prototype: Sketch, roles: tuple[str, ...], number: int, function: str
) -> Callable[..., bytes | None]:
    by_number = draws_coins(prototype) and "id" not in roles
    job = Job(prototype, roles, tuple(range(len(roles))), number if by_number else None)

    def build(*columns: Any) -> bytes:
        with explained(function):
            if hasattr(_udfs, "arrow_udf"):  # pandas does not say
                for role, column in zip(roles, columns, strict=True):
                    check_type(role, from_arrow_type(column.type), role, prototype)
            order = _next_order()
            events, _ = job.events(columns)
            first = first_stream(number, _contents(events)) if by_number else 0
            sketch = prototype.empty_like(stream=first + order)
            sketch.update_many(**events)
            if sketch.is_empty:
                return prototype.to_bytes()
            sketch._finalize(job.prototype)
            return sketch.to_bytes()

    return build


def _contents(events: Mapping[str, Any]) -> bytes:
    """All that coins are drawn for: a job in SQL is told by nothing else."""
    columns = [each if isinstance(each, pa.Array) else pa.array(each) for each in events.values()]
    batch: bytes = pa.record_batch(columns, list(events)).serialize().to_pybytes()
    return batch


_groups_of_task = (-1, 0)  # the attempt, and how many groups it has built


def _next_order() -> int:
    """Groups are built side by side, and may be merged later: each draws coins of its own.

    Spark hands a task its groups one after the other, always in the same order.
    """
    global _groups_of_task
    context = TaskContext.get()
    attempt = 0 if context is None else context.taskAttemptId()
    before = _groups_of_task[1] if _groups_of_task[0] == attempt else 0
    _groups_of_task = (attempt, before + 1)
    return (partition_id() << ORDER_BITS) + before


def _built_by_position(
    prototype: Sketch, order: Sequence[str], number: int, function: str
) -> Callable[..., bytes | None]:
    def build(*columns: Any) -> bytes | None:
        with explained(function):
            if len(columns) > len(order):
                raise TypeError(f"it takes {', '.join(order)}, got {len(columns)} arguments")
            check_roles(prototype, dict.fromkeys(order[: len(columns)]))
        return _built(prototype, tuple(order[: len(columns)]), number, function)(*columns)

    return build


def _reading(function: str, body: Callable[..., T]) -> Callable[..., T]:
    """The body for workers that have to read sketches; its errors name the function."""
    know = knowing_all()

    def run(*columns: Any) -> T:
        know()
        with explained(function):
            return body(*columns)

    return run


def _merged(column: Any) -> bytes | None:
    frames = [frame for frame in column.to_pylist() if frame is not None]
    into = np.zeros(len(frames), dtype=np.int64)
    return merge_frames(frames, into, 1)[0] if frames else None


class Kind(NamedTuple):
    """A kind of answers, and what asks for it."""

    gives: Gives
    main: tuple[str, ...]
    """What is asked where nothing is said: the first of them that a sketch has."""
    function: str
    schema: DataType


_ONE = Kind("estimate", ("query",), "functions.estimate", _ANSWER)
_LIST = Kind("items", ("frequent_items", "heavy_hitters"), "functions.frequent", _ANSWERS)


def _asked_in_sql(function: str, kind: Kind) -> Any:
    def ask(column: Any, *questions_and_arguments: Any) -> pa.Array:
        if len(questions_and_arguments) > 2:
            size = 1 + len(questions_and_arguments)
            raise TypeError(f"it takes a sketch, a question and JSON, got {size} arguments")
        given = [each.to_pylist() for each in questions_and_arguments]
        given += [[None] * len(column)] * (2 - len(given))
        rows_of: dict[tuple[Any, Any], list[int]] = {}
        for row, asked in enumerate(zip(given[0], given[1], strict=True)):
            rows_of.setdefault(asked, []).append(row)
        answers = _Answers(column, kind)
        for (question, text), rows in rows_of.items():
            literals = _from_json(text)
            _check_question(question, literals, kind)
            answers.ask(rows, question, literals)
        return answers.arrow()

    return _scalar(_reading(function, ask), kind.schema)


class _Answers:
    """Answers of the sketches of rows: those of one configuration are asked at once."""

    def __init__(self, column: Any, kind: Kind) -> None:
        self._frames, self._kind = column.to_pylist(), kind
        self._estimates = np.full((len(_ANSWER), len(column)), np.nan)
        self._lists: list[Any] = [None] * len(column)
        self._has_one = np.zeros(len(column), dtype=np.bool_)

    def ask(self, rows: Iterable[int], question: str | None, literals: Mapping[str, Any]) -> None:
        """Answer for some rows; there is no answer for None."""
        filled = [row for row in rows if self._frames[row] is not None]
        names = self._kind.main if question is None else (question,)
        for prototype, keyed, places in read_frames(self._frames[row] for row in filled):
            declared = questions_of(type(prototype))
            asked = next((declared[name] for name in names if name in declared), None)
            if asked is None or asked.gives != self._kind.gives:
                meant = " or ".join(map(repr, names))
                raise TypeError(f"{type(prototype).__name__} has no question {meant}")
            self._put(np.array(filled)[places], keyed.ask(asked, **literals))

    def _put(self, rows: Any, given: Any) -> None:
        if self._kind.gives == "items":
            for row, answer in zip(rows.tolist(), given, strict=True):
                self._lists[row] = None if answer is None else _listed(answer)
            return
        for field, values in zip(self._estimates, vars(given).values(), strict=True):
            field[rows] = values
        self._has_one[rows] = ~(np.isnan(given.value) & np.isinf(given.lower))

    def arrow(self) -> pa.Array:
        """As a column."""
        if self._kind.gives == "items":
            return pa.array(self._lists, to_arrow_type(_ANSWERS))
        fields = [pa.array(field) for field in self._estimates]
        return pa.StructArray.from_arrays(fields, _ANSWER.names, mask=pa.array(~self._has_one))


def _described(column: Any) -> pa.Array:
    """What the sketches of rows say of themselves."""
    frames = column.to_pylist()
    texts: list[str | None] = [None] * len(frames)
    filled = [row for row, frame in enumerate(frames) if frame is not None]
    for prototype, keyed, places in read_frames(frames[row] for row in filled):
        rows = np.array(filled)[places].tolist()
        sizes = [f"{len(frames[row])} bytes" for row in rows]
        for row, text in zip(rows, descriptions(prototype, keyed, sizes), strict=True):
            texts[row] = text
    return pa.array(texts, pa.string())


def _listed(answer: list[tuple[Any, Estimate]]) -> list[dict[str, Any]]:
    return [
        {"item": _as_text(item), **dict(zip(_ANSWER.names, vars(each).values(), strict=True))}
        for item, each in answer
    ]


def _as_text(item: Any) -> str:
    if isinstance(item, bytes):
        return item.decode("utf-8", "backslashreplace")
    return f"{item:.0f}" if isinstance(item, float) and item.is_integer() else str(item)


# --- checks, on the driver ----------------------------------------------------------------------


def _question(
    kind: Kind, column: ColumnLike, question: str | None, literals: dict[str, Any]
) -> Column:
    _check_column(column, "column")
    _check_question(question, literals, kind)
    for key, literal in literals.items():
        if not isinstance(literal, _LITERALS) and literal is not None:
            raise TypeError(f"{key} must be a plain value, got {type(literal).__name__}")
        if isinstance(literal, Decay):
            literal.encoded()

    def ask(column: Any) -> pa.Array:
        answers = _Answers(column, kind)
        answers.ask(range(len(column)), question, literals)
        return answers.arrow()

    sketches = F.col(column) if isinstance(column, str) else column
    answered = _scalar(_reading(kind.function, ask), kind.schema)(sketches)
    return F.when(sketches.isNotNull(), answered).alias(kind.function.rpartition(".")[2])


def _check_question(question: object, literals: Mapping[str, Any], kind: Kind) -> None:
    """That some sketch has such a question, with such an answer, and takes such arguments."""
    if not isinstance(question, str | None):
        raise TypeError(f"question must be a name, got {type(question).__name__}")
    names = kind.main if question is None else (question,)
    declared = [questions_of(cls) for cls in known_classes()]
    asked = [each[name] for each in declared for name in names if name in each]
    question = " or ".join(names)
    if not asked:
        raise ValueError(f"no sketch has a question {question!r}")
    fitting = [each for each in asked if each.gives == kind.gives]
    if not fitting:
        other = next((each for each in (_ONE, _LIST) if each.gives == asked[0].gives), None)
        advice = f"{other.function} may be what you want" if other else "ask sketches themselves"
        raise TypeError(f"{question} has another kind of answer: {advice}")
    if all(_needs_function(each) for each in fitting):
        raise TypeError(
            f"{question} needs where=, a Python function, which a column cannot ask: read the "
            "sketches with recency.loads"
        )
    if not any(each.takes(literals) for each in fitting):
        known = sorted(set().union(*(each.literals for each in fitting)))
        wrong = [name for name in literals if name not in known] or list(literals)
        got = f"not {', '.join(wrong)}" if wrong else "and got none that it needs"
        raise TypeError(f"{question} takes {', '.join(known)}, {got}")
    if isinstance(literals.get("q"), int | float | str):
        validate.number(literals["q"], "q", 0, 1)
    window = literals.get("window")
    if window is not None:
        to_duration(window, None if validate.is_integer(window) else "us")


def _needs_function(question: Question) -> bool:
    where = question.parameters.get("where")
    return where is not None and where.default is Parameter.empty


def _check_column(column: object, role: str) -> None:
    if not isinstance(column, str | Column):
        kind = type(column).__name__
        raise TypeError(f"{role} must be a column or its name, got {kind}")


def _from_json(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        literals = json.loads(text)
    except ValueError as error:
        raise ValueError(f"the arguments must be JSON, got {text!r} ({error})") from None
    if not isinstance(literals, dict):
        raise ValueError(f"the arguments must be a JSON object, got {text!r}")
    if "decay" in literals:
        literals["decay"] = _decay_of(literals["decay"])
    return literals


def _decay_of(given: Any) -> Decay:
    kinds = {cls.__name__: cls for cls in Decay.__subclasses__() if cls.__name__ != "Custom"}
    if not isinstance(given, dict) or given.get("kind") not in kinds:
        raise ValueError(f'a decay is {{"kind": …}} with one of {", ".join(kinds)}, got {given}')
    parameters = {name: value for name, value in given.items() if name != "kind"}
    return kinds[given["kind"]](**parameters)


# --- Spark's own ways of calling ----------------------------------------------------------------


def _aggregate(function: Callable[..., bytes | None], kind: DataType) -> Any:
    """A UDF that gets all rows of a group as arrays."""
    if hasattr(_udfs, "arrow_udf"):

        def over_arrow(*columns: pa.Array) -> bytes:
            return function(*columns)  # type: ignore[return-value]

        return _udfs.arrow_udf(over_arrow, kind)
    import pandas as pd

    def over_pandas(*columns: pd.Series) -> bytes:
        return function(*map(_from_pandas, columns))  # type: ignore[return-value]

    return _udfs.pandas_udf(over_pandas, kind)


def _scalar(function: Callable[..., pa.Array], kind: DataType) -> Any:
    """A UDF that gets rows as arrays and gives one answer for each."""
    if hasattr(_udfs, "arrow_udf"):

        def over_arrow(*columns: pa.Array) -> pa.Array:
            return function(*columns)

        return _udfs.arrow_udf(over_arrow, kind)
    import pandas as pd

    def over_pandas(*columns: pd.Series) -> pd.Series:
        return pd.Series(function(*map(_from_pandas, columns)).to_pylist(), dtype=object)

    def structs_over_pandas(*columns: pd.Series) -> pd.DataFrame:
        nothing = dict.fromkeys(_ANSWER.names)
        answers = function(*map(_from_pandas, columns)).to_pylist()
        return pd.DataFrame([each or nothing for each in answers], columns=_ANSWER.names)

    return _udfs.pandas_udf(structs_over_pandas if kind == _ANSWER else over_pandas, kind)


def _as_integers(at: Any) -> list[Column]:
    """A column of times for pandas, which has none that are exact: as integers, with its type."""
    column = F.col(at) if isinstance(at, str) else at
    micros, whole = F.unix_micros(column.try_cast("timestamp")), column.try_cast("bigint")
    zero = F.lit(0).cast("bigint")
    return [F.coalesce(micros, zero), F.coalesce(whole, zero), column.isNull(), F.typeof(column)]


def _with_exact_times(build: Callable[..., bytes | None]) -> Callable[..., bytes | None]:
    """The inverse of :func:`_as_integers`, on a worker."""

    def rebuilt(micros: Any, whole: Any, missing: Any, kinds: Any, *others: Any) -> bytes | None:
        kind = kinds[0].as_py() if len(kinds) else "bigint"
        if kind not in ("timestamp", "tinyint", "smallint", "int", "bigint"):
            raise TypeError(
                f"functions.sketch_agg: at is of type {kind}, on this Spark it must be a timestamp "
                "or an integer; use sketch_df, or Spark 4.1"
            )
        is_instant = kind == "timestamp"
        times = (micros if is_instant else whole).to_numpy(zero_copy_only=False)
        arrow_kind = pa.timestamp("us") if is_instant else pa.int64()
        absent = missing.to_numpy(zero_copy_only=False)
        return build(pa.array(times, pa.int64(), mask=absent).cast(arrow_kind), *others)

    return rebuilt


def _from_pandas(column: Any) -> Any:
    return pa.Array.from_pandas(_in_utc(column) if column.dtype.kind == "M" else column)


def _in_utc(times: Any) -> Any:
    """Times that come as clocks showed them in the session's zone: those shown twice are refused.

    Spark sends the settings of a session along with its tasks.
    """
    context = TaskContext.get()
    zone = context and context.getLocalProperty("spark.sql.session.timeZone")
    if not zone:
        raise TypeError(
            "this Spark hands times to SQL aggregates in the session's time zone, which is not "
            "known here: set spark.sql.session.timeZone, or use Spark 4.1"
        )
    try:
        return times.dt.tz_localize(zone, ambiguous="raise").dt.tz_convert("UTC").dt.as_unit("us")
    except Exception as error:
        raise ValueError(
            "this Spark hands times to SQL aggregates in the session's time zone, where one of "
            f"them is ambiguous ({error}): set spark.sql.session.timeZone to UTC, use "
            "functions.sketch_agg, sketch_df, or Spark 4.1"
        ) from None
