"""Everything that can be wrong with a call is found here, on the driver, before any job starts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from recency.sketch import Sketch
from recency.spark.build import Job, explained
from recency.spark.job_number import draws_coins, number_of_frame

ColumnLike = str | Column
By = ColumnLike | Sequence[ColumnLike]

_INTEGERS = (ByteType, ShortType, IntegerType, LongType)
_CALENDAR = (TimestampType, TimestampNTZType, DateType)
_GROUPS = (
    *_INTEGERS, *_CALENDAR, StringType, BinaryType, BooleanType, FloatType, DoubleType, DecimalType,
)  # fmt: skip
_ACCEPTED = {
    "at": "an integer, timestamp, timestamp_ntz or date",
    "item": "an integer, string or binary",
    "id": "an integer, string or binary",
    "value": "an integer, a decimal without fraction, or, where the sketch takes them, a float",
    "weight": "an integer, a decimal without fraction, or, where the sketch takes them, a float",
    "by": "an integer, string, binary, boolean, float, decimal, date or timestamp",
    "column": "binary",
}


class Chosen(NamedTuple):
    """A column that was asked for."""

    column: Column
    name: str
    kind: DataType
    label: str  # for messages


@dataclass(frozen=True)
class Source:
    """Rows that are fit for sketches: the columns they are made of, then the groups, g0, g1, …"""

    rows: DataFrame
    jobs: tuple[Job, ...]
    names: tuple[str, ...]  # of the groups, as the caller knows them

    @property
    def groups(self) -> list[str]:
        """The names of the group columns in ``rows``."""
        return [f"g{i}" for i in range(len(self.names))]


def parameters(prototype: Sketch) -> Mapping[str, Parameter]:
    """The parameters of ``update_many``."""
    return signature(prototype.update_many).parameters


def check_prototype(prototype: object) -> Sketch:
    """An empty sketch that can be merged."""
    if not isinstance(prototype, Sketch):
        kind = type(prototype).__name__
        if isinstance(prototype, type):
            kind = f"the class {prototype.__name__}: make one, {prototype.__name__}(…)"
        raise TypeError(f"prototype must be a sketch, got {kind}")
    if not prototype.is_empty:
        raise ValueError(f"prototype must be empty, got {prototype!r}; use prototype.empty_like()")
    prototype._check_mergeable(prototype)
    prototype.to_bytes()  # as it travels
    return prototype


def check_frame(df: object) -> DataFrame:
    """A DataFrame that is not a stream."""
    if not isinstance(df, DataFrame):
        kind = f"{type(df).__module__}.{type(df).__name__}".removeprefix("builtins.")
        raise TypeError(f"df must be a Spark DataFrame, got {kind}")
    if df.isStreaming:
        raise ValueError("df must not be a stream; use foreachBatch")
    return df


class Wanted(NamedTuple):
    """A sketch that was asked for."""

    prototype: Sketch
    columns: Mapping[str, ColumnLike | None]  # by role
    label: str  # how messages about it begin


def event_source(
    df: DataFrame,
    wanted: Mapping[str, Wanted],
    by: By | None,
    number: int | None,
) -> Source:
    """The rows of ``df`` to build sketches from: each column once.

    Columns are the same if they are one name or one object: two may print alike and differ. For a
    single sketch, rows with a NULL in any role are left out.
    """
    places: dict[str | int, int] = {}
    columns: list[Column] = []
    groups = _groups(df, by, tuple(wanted))
    jobs = []
    for prototype, given, label in wanted.values():
        with explained(label):
            chosen = _chosen(df, prototype, given)
        used = []
        for role, each in chosen.items():
            column = given[role]
            key = column if isinstance(column, str) else id(column)
            if key not in places:
                places[key] = len(columns)
                columns.append(each.column.alias(f"c{len(columns)}"))
            used.append(places[key])
        own_number = _number(prototype, df, chosen, groups, number)
        jobs.append(Job(prototype, tuple(chosen), tuple(used), own_number))
    rows = _with_equal_floats(df.select(*columns, *_keys(groups)), groups)
    if len(jobs) == 1:
        for place in places.values():
            rows = rows.filter(F.col(f"c{place}").isNotNull())
    return Source(rows, tuple(jobs), tuple(group.name for group in groups))


def _number(
    prototype: Sketch,
    df: DataFrame,
    chosen: Mapping[str, Chosen],
    groups: Sequence[Chosen],
    number: int | None,
) -> int | None:
    """The number that coins are drawn by, if they are: that of a job with these columns alone."""
    if "id" in chosen or not draws_coins(prototype):
        return None
    if number is None:
        used = [each.column.alias(role) for role, each in chosen.items()]
        number = number_of_frame(df.select(*used, *_keys(groups)), prototype)
    return number


def _chosen(
    df: DataFrame,
    prototype: Sketch,
    columns: Mapping[str, ColumnLike | None],
) -> dict[str, Chosen]:
    """The columns that a sketch is to be built from, by role, if they fit."""
    given = {role: column for role, column in columns.items() if column is not None}
    check_roles(prototype, given)
    chosen = {role: _resolve(df, column, role) for role, column in given.items()}
    for role, each in chosen.items():
        check_type(role, each.kind, each.label, prototype)
    _try_out(prototype, chosen)
    return chosen


def sketch_source(df: DataFrame, column: ColumnLike, by: By | None) -> Source:
    """The groups and the sketches of ``df`` that are not NULL, with their ``order``."""
    sketches = _resolve(df, column, "column")
    if not isinstance(sketches.kind, BinaryType):
        _refuse_type("column", sketches.kind, sketches.label)
    groups = _groups(df, by)
    rows = df.select(
        *_keys(groups),
        F.lit(0).cast("int").alias("which"),
        F.monotonically_increasing_id().alias("order"),
        F.lit(False).alias("done"),
        sketches.column.alias("sketch"),
    ).filter(F.col("sketch").isNotNull())
    rows = _with_equal_floats(rows, groups)
    return Source(rows, (), tuple(group.name for group in groups))


def check_roles(prototype: Sketch, given: Mapping[str, Any]) -> None:
    """That a sketch takes columns for these parameters, and needs no others."""
    name = type(prototype).__name__
    known = parameters(prototype)
    for role in given:
        if role not in known:
            raise TypeError(f"{name} takes no {role}, it takes {', '.join(known)}")
    for role, parameter in known.items():
        needed = parameter.default is Parameter.empty or role == "at"
        if needed and role not in given and parameter.kind != Parameter.VAR_KEYWORD:
            raise TypeError(f"{name} needs {role}=, the column to take it from")


def _resolve(df: DataFrame, column: object, role: str) -> Chosen:
    if isinstance(column, str):
        quoted = "`" + column.replace("`", "``") + "`" if column in df.columns else column
        expression = F.col(quoted)
    elif isinstance(column, Column):
        expression = column
    else:
        kind = type(column).__name__
        raise TypeError(f"{role} must be a column or its name, got {kind}")
    label = repr(column) if isinstance(column, str) else str(column)
    try:
        fields = df.select(expression).schema.fields
        reason = f"it names {len(fields)}"
    except AnalysisException as error:
        fields, reason = [], str(error).splitlines()[0]
    if len(fields) != 1:
        raise ValueError(
            f"{role}={label} does not name a column of the DataFrame, "
            f"which has {', '.join(df.columns)} ({reason})"
        ) from None
    return Chosen(expression, fields[0].name, fields[0].dataType, label)


def check_type(role: str, kind: DataType, label: str, prototype: Sketch) -> None:
    """That a column of this type can be what a sketch is built from."""
    accepted: tuple[type[DataType], ...] = _INTEGERS
    if role == "at":
        accepted += _CALENDAR
    elif role in ("item", "id"):
        accepted += (StringType, BinaryType)
    else:
        accepted += (FloatType, DoubleType)
        if isinstance(kind, DecimalType) and kind.scale == 0:
            return
    if not isinstance(kind, accepted) or _is_collated(kind):
        _refuse_type(role, kind, label)
    if isinstance(kind, _CALENDAR) and getattr(prototype.config, "unit", None) is None:
        raise TypeError(
            f"{role}={label} is of type {kind.simpleString()}, and the prototype has "
            "no unit: give it one, such as unit='s', or a column of integers"
        )


def _refuse_type(role: str, kind: DataType, label: str) -> None:
    raise TypeError(
        f"{role}={label} is of type {kind.simpleString()}, "
        f"it must be {_ACCEPTED.get(role, _ACCEPTED['value'])}"
    )


def _is_collated(kind: DataType) -> bool:
    """Whether strings that differ in their bytes may be equal."""
    return isinstance(kind, StringType) and kind != StringType()


def _try_out(prototype: Sketch, columns: Mapping[str, Chosen]) -> None:
    """Let the sketch itself say whether it takes values of these types."""
    row = {role: _example(each.kind) for role, each in columns.items()}
    try:
        prototype.empty_like().update_many(**row)
    except TypeError as error:
        name, which = type(prototype).__name__, ""
        role = str(error).split()[0]
        if role in columns:
            kind = columns[role].kind.simpleString()
            which = f"{role}={columns[role].label} is of type {kind}: "
        raise TypeError(f"{which}{name}: {error}") from None
    except ValueError:
        return  # the value that was made up does not suit, its type does


def _example(kind: DataType) -> Any:
    if isinstance(kind, StringType):
        return pa.array(["a"])
    if isinstance(kind, BinaryType):
        return pa.array([b"a"])
    return np.array([1.0]) if isinstance(kind, FloatType | DoubleType) else np.array([1])


def _groups(df: DataFrame, by: By | None, results: Sequence[str] = ("sketch",)) -> list[Chosen]:
    if by is None:
        return []
    columns = [by] if isinstance(by, str | Column) else by
    if not isinstance(columns, Sequence) or not columns:
        raise TypeError(f"by must be a column, or a list of columns, got {by!r}")
    groups = [_resolve(df, column, "by") for column in columns]
    for each in groups:
        if not isinstance(each.kind, _GROUPS) or _is_collated(each.kind):
            _refuse_type("by", each.kind, each.label)
    names = [each.name for each in groups]
    if len({name.lower() for name in (*names, *results)}) < len(names) + len(results):
        raise ValueError(
            f"the columns of by must have different names, and none be called "
            f"{' or '.join(results)}, got {', '.join(names)}; use Column.alias"
        )
    return groups


def _keys(groups: Sequence[Chosen]) -> list[Column]:
    return [each.column.alias(f"g{i}") for i, each in enumerate(groups)]


def _with_equal_floats(rows: DataFrame, groups: Sequence[Chosen]) -> DataFrame:
    """As in GROUP BY, zero has one sign and NaN one form."""
    for i, each in enumerate(groups):
        if isinstance(each.kind, FloatType | DoubleType):
            key = F.col(f"g{i}")
            nan, zero = (F.lit(number).cast(each.kind) for number in (float("nan"), 0.0))
            rows = rows.withColumn(f"g{i}", F.when(F.isnan(key), nan).otherwise(key + zero))
    return rows
