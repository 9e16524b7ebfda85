"""``sketch_df`` and ``merge_df``: the plan. What runs on executors is in ``build`` and ``tree``.

A *leaf* is a row (groups…, order, done, sketch) that a partition makes of its rows. Leaves go up a
tree: at each level those of up to 32 partitions meet in one node, in the order of their partitions,
which is one ``merge_all``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypedDict, TypeVar, Unpack, overload

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    StructField,
    StructType,
)

from recency.core import validate
from recency.sketch import Sketch
from recency.spark.build import ORDER_BITS, Limits, explained, group_leaves
from recency.spark.checks import (
    By,
    ColumnLike,
    Source,
    Wanted,
    check_frame,
    check_prototype,
    event_source,
    sketch_source,
)
from recency.spark.job_number import given_number
from recency.spark.tree import merge_on_driver, merge_partition, merge_rows

S = TypeVar("S", bound=Sketch)
S_co = TypeVar("S_co", bound=Sketch, covariant=True)


class _Plan(TypedDict, total=False):
    depth: int
    shuffle: Literal["auto", "rows", "partials"]
    stream: int | str | None


class _Options(_Plan, total=False):
    at: ColumnLike | None
    item: ColumnLike | None
    value: ColumnLike | None
    weight: ColumnLike | None
    id: ColumnLike | None


_FAN_IN_BITS = 5  # a node merges the leaves of up to 32 partitions
_LOOK_AT = 1 << 14  # rows that tell whether groups are many
_LIMITS = Limits()
_WHICH = StructField("which", IntegerType())
_LEAF = [
    StructField("order", LongType()),
    StructField("done", BooleanType()),
    StructField("sketch", BinaryType()),
]


@overload
def sketch_df(
    df: DataFrame, prototype: S, *, by: None = None, **options: Unpack[_Options]
) -> S: ...
@overload
def sketch_df(
    df: DataFrame, prototype: Sketch, *, by: By, **options: Unpack[_Options]
) -> DataFrame: ...
@explained("sketch_df")
def sketch_df(
    df: DataFrame,
    prototype: Sketch,
    *,
    at: ColumnLike | None = None,
    item: ColumnLike | None = None,
    value: ColumnLike | None = None,
    weight: ColumnLike | None = None,
    id: ColumnLike | None = None,
    by: By | None = None,
    depth: int = 2,
    shuffle: Literal["auto", "rows", "partials"] = "auto",
    stream: int | str | None = None,
) -> Sketch | DataFrame:
    """Build a sketch of the rows of a DataFrame, or one sketch per group.

    The result meets the error bound of the prototype: where merging increases the error, the
    sketches of partitions are built with a smaller one. Rows with NULL in any of the columns
    ``at``, ``item``, ``value``, ``weight`` and ``id`` that are given are left out. NULL in ``by``
    is a group of its own.

    Parameters
    ----------
    df
        A DataFrame, but not a streaming one.
    prototype
        An empty sketch with the class and configuration of the result.
    at
        The column of times: timestamps or dates if the prototype has a ``unit``, otherwise integers
        in ticks. Timestamps without a time zone are read as UTC. The session's time zone has no
        effect.
    item, value, weight, id
        Columns for the parameters of the same names of the sketch's ``update``, as far as it has
        them. Like ``at``, each is a name or a ``Column``.
    by
        One or several columns to group by. None: one sketch of all rows.
    depth
        Number of levels in the tree of merges; the last level runs on the driver or, with ``by``,
        on executors. A node merges up to 32 sketches, so thousands of partitions need more levels.
        If rows are shuffled there is always one level.
    shuffle
        With ``by``, what the shuffle moves. ``"partials"``: one sketch per group and partition,
        which is better for few groups. ``"rows"``: the rows, which is better for many groups, since
        the sketch of a few rows is hardly smaller than the rows. ``"auto"`` runs a small job on the
        first 16 384 rows and chooses ``"rows"`` if they have more than 4 096 groups. That job is
        slow if ``df`` cannot deliver its first rows quickly.
    stream
        Number or name of this job, from which its events draw coins (``SumWave``, ``QuantileWave``,
        ``WeightBasedMergingHistogram``, ``counter="rw"``, ``names=True``). Jobs whose sketches are
        to be merged with each other need different ones. None: computed from the plan of ``df`` and
        the files it reads, so that different jobs draw different coins and the same job draws the
        same coins again. Has no effect if ``id`` is given, which must identify *events*.

    Returns
    -------
    Sketch or DataFrame
        Without ``by`` the sketch, on the driver. With ``by`` a DataFrame of the columns of ``by``
        and a binary column ``sketch``, evaluated lazily. Read its values with
        :func:`recency.loads`, store them, or merge them with :func:`merge_df`.

    Raises
    ------
    TypeError, ValueError
        If a column is missing, has a type that the sketch does not take, or is not a parameter of
        ``update``; if the prototype is not empty; or if it cannot be merged (windows by count). All
        of these are found before any job starts. Values that the sketch refuses fail the job.

    Examples
    --------
    ::

        visitors = sketch_df(clicks, RandomizedWave("7 days", unit="s"), at="time", item="user")
        visitors.query("90 minutes")
        per_page = sketch_df(clicks, RandomizedWave("7 days", unit="s"), at="time", item="user",
                             by="page")
    """
    columns = {"at": at, "item": item, "value": value, "weight": weight, "id": id}
    wanted = {"sketch": Wanted(check_prototype(prototype), columns, "sketch_df")}
    made = _sketches(df, wanted, by, depth, shuffle, stream, "sketch_df")
    return made["sketch"] if isinstance(made, dict) else made


@dataclass(frozen=True)
class On(Generic[S_co]):
    """A sketch to build and the columns to build it from; made by :func:`on`."""

    prototype: S_co
    columns: dict[str, ColumnLike | None]


def on(
    prototype: S,
    *,
    at: ColumnLike | None = None,
    item: ColumnLike | None = None,
    value: ColumnLike | None = None,
    weight: ColumnLike | None = None,
    id: ColumnLike | None = None,
) -> On[S]:
    """Return a prototype with its columns, for :func:`sketch_many`.

    Parameters are those of :func:`sketch_df`.
    """
    return On(prototype, {"at": at, "item": item, "value": value, "weight": weight, "id": id})


@overload
def sketch_many(
    df: DataFrame, sketches: Mapping[str, On[S]], *, by: None = None, **options: Unpack[_Plan]
) -> dict[str, S]: ...
@overload
def sketch_many(
    df: DataFrame, sketches: Mapping[str, On[Any]], *, by: By, **options: Unpack[_Plan]
) -> DataFrame: ...
@explained("sketch_many")
def sketch_many(
    df: DataFrame,
    sketches: Mapping[str, On[Any]],
    *,
    by: By | None = None,
    depth: int = 2,
    shuffle: Literal["auto", "rows", "partials"] = "auto",
    stream: int | str | None = None,
) -> dict[str, Any] | DataFrame:
    """Build several sketches of the rows of a DataFrame in one scan.

    Each column is moved from the JVM to Python once, even if several sketches use it. A row with
    NULL in a column is left out of the sketches that use this column.

    Parameters
    ----------
    df, by, depth, shuffle
        As in :func:`sketch_df`.
    sketches
        For each name in the result, a prototype and its columns: ``on(prototype, at=…, …)``.
    stream
        As in :func:`sketch_df`, for all sketches. None: each sketch gets the number that
        ``sketch_df`` would give it.

    Returns
    -------
    dict or DataFrame
        Without ``by`` a dict of sketches, on the driver. With ``by`` a DataFrame of the columns of
        ``by`` and one binary column per sketch, under its name. If all rows of a group are left out
        of a sketch, it is empty.

    Examples
    --------
    ::

        sketch_many(
            clicks,
            {
                "users": on(RandomizedWave("7 days", unit="s"), at="time", item="user"),
                "clicks": on(ExponentialHistogram("7 days", unit="s"), at="time"),
            },
            by="page",
        )
    """
    wanted = {}
    for name, each in _checked_names(sketches).items():
        label = f"sketch_many: {name}"
        with explained(label):
            wanted[name] = Wanted(check_prototype(each.prototype), each.columns, label)
    return _sketches(df, wanted, by, depth, shuffle, stream, "sketch_many")


def _checked_names(sketches: object) -> Mapping[str, On[Any]]:
    if not isinstance(sketches, Mapping) or not sketches:
        raise TypeError(f"sketches must be a dict of names and on(…), got {sketches!r}")
    for name, each in sketches.items():
        if not isinstance(name, str) or not name:
            raise TypeError(f"names of sketches must be strings, got {name!r}")
        if not isinstance(each, On):
            kind = type(each).__name__
            raise TypeError(f"{name} must be on(prototype, at=…, …), got {kind}")
    return sketches


@overload
def merge_df(df: DataFrame, by: None = None, column: ColumnLike = "sketch") -> Sketch: ...
@overload
def merge_df(df: DataFrame, by: By, column: ColumnLike = "sketch") -> DataFrame: ...
@explained("merge_df")
def merge_df(
    df: DataFrame, by: By | None = None, column: ColumnLike = "sketch"
) -> Sketch | DataFrame:
    """Merge stored sketches: all of a column, or those of each group.

    All sketches of a group are merged at once. Where merging increases the error, this is one level
    of merging.

    Parameters
    ----------
    df
        A DataFrame with a column of stored sketches. NULLs are left out.
    by
        One or several columns to group by, each a name or a ``Column``. None: merge all sketches.
    column
        The column of sketches.

    Returns
    -------
    Sketch or DataFrame
        Without ``by`` the sketch, on the driver. With ``by`` a DataFrame of the columns of ``by``
        and a binary column ``sketch``.

    Raises
    ------
    ValueError
        Without ``by``, if there are no sketches.

    Notes
    -----
    Sketches of one group with different configurations, or bytes that are not a sketch, fail the
    job.

    Examples
    --------
    ::

        days = spark.read.parquet("visitors_by_day")
        merge_df(days.where("day >= '2026-11-10'")).query("3 days")
        merge_df(days, by="page")
    """
    function = "merge_df"
    source = sketch_source(check_frame(df), column, by)
    if by is None:
        rows = source.rows.select("order", "done", "sketch")
        leaves = rows.mapInArrow(merge_partition(function, _LIMITS), StructType(_LEAF))
        sketch = merge_on_driver(leaves.collect())
        if sketch is None:
            raise ValueError("there are no sketches to merge")
        return sketch
    leaves = source.rows.repartition(*source.groups)
    return _last_level(leaves, source, ["sketch"], function)


def _sketches(
    df: DataFrame,
    wanted: Mapping[str, Wanted],
    by: By | None,
    depth: int,
    shuffle: str,
    stream: int | str | None,
    function: str,
) -> dict[str, Sketch] | DataFrame:
    """Without ``by`` a dict of sketches, else a DataFrame with a column for each of them."""
    validate.one_of(shuffle, "shuffle", ("auto", "rows", "partials"))
    validate.integer(depth, "depth", 1, 6)
    source = event_source(check_frame(df), wanted, by, given_number(stream))
    keys, names = source.groups, list(wanted)
    by_rows = by is not None and shuffle != "partials"
    if by_rows and shuffle == "auto":
        by_rows = _groups_are_many(source)
    if by_rows:
        depth, source = 1, replace(source, rows=source.rows.repartition(*keys))
    schema = StructType([*(source.rows.schema[key] for key in keys), _WHICH, *_LEAF])
    is_sorted = len(source.jobs) == 1
    build = group_leaves(source.jobs, depth, by_rows, _LIMITS, is_sorted, function)
    rows = _in_order(source) if is_sorted else source.rows
    leaves = _up_the_tree(rows.mapInArrow(build, schema), keys, source, depth, function)
    if by is None:
        return dict(zip(names, _collected(leaves, source), strict=True))
    leaves = leaves if by_rows else leaves.repartition(*keys)
    return _last_level(leaves, source, names, function)


def _collected(leaves: DataFrame, source: Source) -> list[Sketch]:
    """The sketch of each job, on the driver, of leaves (which, order, done, sketch)."""
    rows = leaves.collect()
    sketches = []
    for which, job in enumerate(source.jobs):
        sketch = merge_on_driver([row for row in rows if row["which"] == which])
        if sketch is not None:
            sketch._finalize(job.prototype)
        sketches.append(job.prototype.copy() if sketch is None else sketch)
    return sketches


def _up_the_tree(
    leaves: DataFrame, keys: list[str], source: Source, depth: int, function: str
) -> DataFrame:
    """Merge leaves, level by level, all but the last."""
    merge = merge_rows(len(keys) + 1, source.jobs, function, _LIMITS)
    by = [*keys, "node", "which"]
    for level in range(1, depth):
        node = F.shiftright("order", ORDER_BITS + _FAN_IN_BITS * level).alias("node")
        nodes = leaves.select(*keys, node, "which", "order", "done", "sketch").repartition(*by)
        nodes = nodes.sortWithinPartitions(*by, "order").mapInArrow(merge, nodes.schema)
        leaves = nodes.drop("node")
    return leaves


def _last_level(leaves: DataFrame, source: Source, names: list[str], function: str) -> DataFrame:
    """One row for each group, under the names that the caller gave, and its sketches."""
    keys = source.groups
    merge = merge_rows(len(keys), source.jobs, function, _LIMITS, last=True)
    sketches = [StructField(f"s{i}", BinaryType()) for i in range(len(names))]
    schema = StructType([*(leaves.schema[key] for key in keys), *sketches])
    merged = leaves.sortWithinPartitions(*keys, "which", "order").mapInArrow(merge, schema)
    return merged.toDF(*source.names, *names)


def _in_order(source: Source) -> DataFrame:
    job = source.jobs[0]
    if not job.prototype.needs_order:
        return source.rows
    return source.rows.sortWithinPartitions(source.rows.columns[job.places[job.roles.index("at")]])


def _groups_are_many(source: Source) -> bool:
    some = source.rows.select(F.xxhash64(*source.groups).alias("group")).limit(_LOOK_AT).collect()
    return 4 * len({row["group"] for row in some}) > _LOOK_AT
