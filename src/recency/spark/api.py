"""``sketch_df`` and ``merge_df``: the plan. What runs on executors is in ``build`` and ``tree``.

A *leaf* is a row (groups…, order, done, sketch) that a partition makes of its rows. Leaves go up a
tree: at each level those of up to 32 partitions meet in one node, in the order of their partitions,
which is one ``merge_all``.
"""

from collections.abc import Sequence
from typing import Any, Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, BooleanType, LongType, StructField, StructType

from recency.core import validate
from recency.sketch import Sketch
from recency.spark.build import ORDER_BITS, Limits, explained, group_leaves, one_leaf
from recency.spark.checks import (
    ColumnLike,
    Source,
    check_frame,
    check_prototype,
    event_source,
    sketch_source,
)
from recency.spark.tree import merge_on_driver, merge_partition, merge_rows

_FAN_IN_BITS = 5  # a node merges the leaves of up to 32 partitions
_LOOK_AT = 1 << 14  # rows that tell whether groups are many
_LIMITS = Limits()
_LEAF = [
    StructField("order", LongType()),
    StructField("done", BooleanType()),
    StructField("sketch", BinaryType()),
]


def sketch_df(
    df: DataFrame,
    prototype: Sketch,
    *,
    at: ColumnLike | None = None,
    item: ColumnLike | None = None,
    value: ColumnLike | None = None,
    weight: ColumnLike | None = None,
    id: ColumnLike | None = None,
    by: ColumnLike | Sequence[ColumnLike] | None = None,
    depth: int = 2,
    shuffle: Literal["auto", "rows", "partials"] = "auto",
) -> Any:
    """A sketch of the rows of a DataFrame, or one for each group of them.

    Without ``by`` the sketch itself, on the driver. With it a DataFrame with the columns of ``by``
    and a binary column ``sketch``, computed when it is used, for ``recency.loads``, for a table,
    for :func:`merge_df`.

    The sketch has the error that the prototype asks for: where merging costs accuracy, the sketches
    of partitions are kept tighter. Rows with a NULL in a column that is used are left out; NULL is
    a group like any other. Types and names are checked before anything is computed.

    Parameters
    ----------
    df
        Any DataFrame that is not a stream.
    prototype
        An empty sketch of the configuration that is wanted.
    at
        The column of times: timestamps or dates if the prototype has a unit, or integers in ticks.
        Timestamps without a zone are taken as UTC. The session's time zone makes no difference.
    item, value, weight, id
        Columns for the other parameters of the sketch's ``update``, those it has.
    by
        A column or several. All columns can be given by name or as a ``Column``.
    depth
        Levels of merging, the driver's (with ``by``: the last) included. More are worth while for
        thousands of partitions: a node merges 32 of them. With rows shuffled there is one level.
    shuffle
        With ``by``, what travels. ``"partials"``: a sketch for each group of each partition, best
        for few groups. ``"rows"``: the rows, so that all of a group meet in one place, best for
        many groups, for then their sketches are hardly smaller than their rows. ``"auto"`` looks at
        the first 16 384 rows, a small job unless ``df`` is costly to begin with: rows, if they have
        more than 4 096 groups.

    Examples
    --------
    ::

        visitors = sketch_df(clicks, RandomizedWave("7 days", unit="s"), at="time", item="user")
        visitors.query("90 minutes")
        per_page = sketch_df(clicks, RandomizedWave("7 days", unit="s"), at="time", item="user",
                             by="page")
    """
    function = "sketch_df"
    prototype = check_prototype(prototype, function)
    with explained(function):
        validate.one_of(shuffle, "shuffle", ("auto", "rows", "partials"))
        validate.integer(depth, "depth", 1, 6)
    columns = {"at": at, "item": item, "value": value, "weight": weight, "id": id}
    source = event_source(check_frame(df, function), prototype, columns, by, function)
    if by is None:
        return _one_sketch(source, prototype, depth)
    by_rows = _groups_are_many(source) if shuffle == "auto" else shuffle == "rows"
    return _sketch_groups(source, prototype, 1 if by_rows else depth, by_rows)


def merge_df(
    df: DataFrame,
    by: ColumnLike | Sequence[ColumnLike] | None = None,
    column: ColumnLike = "sketch",
) -> Any:
    """Roll up stored sketches: all of them, or those of each group.

    Without ``by`` the sketch itself, on the driver; a ``ValueError`` if there is none to merge.
    With it a DataFrame with the columns of ``by`` and a binary column ``sketch``. NULL sketches are
    left out. All sketches that meet must have one configuration.

    Where merging costs accuracy, it costs one level: all sketches of a group are merged at once.

    Examples
    --------
    ::

        days = spark.read.parquet("visitors_by_day")
        merge_df(days.where("day >= '2026-11-10'")).query("3 days")
        merge_df(days, by="page")
    """
    function = "merge_df"
    source = sketch_source(check_frame(df, function), column, by, function)
    if by is None:
        leaves = source.rows.mapInArrow(merge_partition(function, _LIMITS), StructType(_LEAF))
        sketch = merge_on_driver(leaves.collect(), function)
        if sketch is None:
            raise ValueError("merge_df: there are no sketches to merge")
        return sketch
    return _merged_groups(source.rows.repartition(*source.groups), source, None, function)


def _one_sketch(source: Source, prototype: Sketch, depth: int) -> Sketch:
    build = one_leaf(prototype, source.roles, depth)
    leaves = _in_order(source.rows, prototype).mapInArrow(build, StructType(_LEAF))
    rows = _up_the_tree(leaves, [], prototype, depth).collect()
    sketch = merge_on_driver(rows, "sketch_df")
    if sketch is None:
        return prototype.copy()
    sketch._finish(prototype)
    return sketch


def _sketch_groups(source: Source, prototype: Sketch, depth: int, by_rows: bool) -> DataFrame:
    keys = source.groups
    rows = source.rows.repartition(*keys) if by_rows else source.rows
    schema = StructType([*(source.rows.schema[key] for key in keys), *_LEAF])
    build = group_leaves(prototype, source.roles, depth, by_rows, _LIMITS)
    leaves = _in_order(rows, prototype).mapInArrow(build, schema)
    leaves = _up_the_tree(leaves, keys, prototype, depth)
    if not by_rows:
        leaves = leaves.repartition(*keys)
    return _merged_groups(leaves, source, prototype, "sketch_df")


def _up_the_tree(leaves: DataFrame, keys: list[str], prototype: Sketch, depth: int) -> DataFrame:
    """Merge leaves, level by level, all but the last."""
    merge = merge_rows(len(keys) + 1, prototype, False, "sketch_df", _LIMITS)
    for level in range(1, depth):
        node = F.shiftright("order", ORDER_BITS + _FAN_IN_BITS * level).alias("node")
        nodes = leaves.select(*keys, node, "order", "done", "sketch").repartition(*keys, "node")
        nodes = nodes.sortWithinPartitions(*keys, "node", "order").mapInArrow(merge, nodes.schema)
        leaves = nodes.drop("node")
    return leaves


def _merged_groups(
    leaves: DataFrame, source: Source, prototype: Sketch | None, function: str
) -> DataFrame:
    """One row for each group, under the names that the caller gave."""
    keys = source.groups
    merge = merge_rows(len(keys), prototype, True, function, _LIMITS)
    merged = leaves.sortWithinPartitions(*keys, "order").mapInArrow(merge, leaves.schema)
    return merged.select(*keys, "sketch").toDF(*source.names, "sketch")


def _in_order(rows: DataFrame, prototype: Sketch) -> DataFrame:
    return rows.sortWithinPartitions("at") if prototype.needs_order else rows


def _groups_are_many(source: Source) -> bool:
    some = source.rows.select(F.xxhash64(*source.groups).alias("group")).limit(_LOOK_AT).collect()
    return 4 * len({row["group"] for row in some}) > _LOOK_AT
