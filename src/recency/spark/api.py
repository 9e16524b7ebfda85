"""``sketch_df`` and ``merge_df``: planning. What runs on executors is in ``build`` and ``tree``."""

from collections.abc import Sequence
from typing import Any, Literal, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, BooleanType, LongType, StructField, StructType

from recency.core import validate
from recency.sketch import Sketch
from recency.spark.build import group_leaves, one_leaf
from recency.spark.checks import (
    ColumnLike,
    Source,
    check_depth,
    check_frame,
    check_prototype,
    event_source,
    sketch_source,
)
from recency.spark.tree import merge_on_driver, merge_partition, merge_rows, with_node

S = TypeVar("S", bound=Sketch)

_LOOK_AT = 1 << 14  # rows that tell whether groups are many
_LEAF = StructType([StructField("order", LongType()), StructField("sketch", BinaryType())])


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
    """Docstring below."""
    function = "sketch_df"
    prototype = check_prototype(prototype, function)
    depth = check_depth(depth, function)
    validate.one_of(shuffle, "shuffle", ("auto", "rows", "partials"))
    columns = {"at": at, "item": item, "value": value, "weight": weight, "id": id}
    source = event_source(check_frame(df, function), prototype, columns, by, function)
    if by is None:
        return _one_sketch(source, prototype, depth)
    if shuffle == "auto":
        shuffle = _best_shuffle(source)
    return _sketch_groups(source, prototype, depth, shuffle)


def _one_sketch(source: Source, prototype: Sketch, depth: int) -> Sketch:
    rows = _in_order(source.rows, prototype)
    leaves = rows.mapInArrow(one_leaf(prototype, source.roles, depth), _LEAF)
    for level in range(1, depth):
        nodes = with_node(leaves.withColumn("done", F.lit(False)), level)
        nodes = nodes.select("node", "order", "done", "sketch").repartition("node")
        merge = merge_rows(1, prototype, finish=False, function="sketch_df")
        nodes = nodes.sortWithinPartitions("node", "order").mapInArrow(merge, nodes.schema)
        leaves = nodes.select("order", "sketch")
    sketch = merge_on_driver(leaves.collect())
    if sketch is None:
        return prototype.copy()
    sketch._finish(prototype)
    return sketch


def _sketch_groups(source: Source, prototype: Sketch, depth: int, shuffle: str) -> DataFrame:
    keys = source.groups
    by_rows = shuffle == "rows"
    rows = source.rows.repartition(*keys) if by_rows else source.rows
    schema = StructType(
        [
            *(source.rows.schema[key] for key in keys),
            StructField("order", LongType()),
            StructField("done", BooleanType()),
            StructField("sketch", BinaryType()),
        ]
    )
    levels = 1 if by_rows else depth
    build = group_leaves(prototype, source.roles, levels, is_whole=by_rows)
    leaves = _in_order(rows, prototype).mapInArrow(build, schema)
    for level in range(1, levels):
        nodes = with_node(leaves, level).select(*keys, "node", "order", "done", "sketch")
        nodes = nodes.repartition(*keys, "node").sortWithinPartitions(*keys, "node", "order")
        merge = merge_rows(len(keys) + 1, prototype, finish=False, function="sketch_df")
        leaves = nodes.mapInArrow(merge, nodes.schema).select(*keys, "order", "done", "sketch")
    if not by_rows:
        leaves = leaves.repartition(*keys)
    return _merged_groups(leaves, source, prototype, "sketch_df")


def _merged_groups(
    leaves: DataFrame, source: Source, prototype: Sketch | None, function: str
) -> DataFrame:
    """One row for each group, under the names that the caller gave."""
    keys = source.groups
    merge = merge_rows(len(keys), prototype, finish=True, function=function)
    merged = leaves.sortWithinPartitions(*keys, "order").mapInArrow(merge, leaves.schema)
    return merged.select(*keys, "sketch").toDF(*source.names, "sketch")


def _in_order(rows: DataFrame, prototype: Sketch) -> DataFrame:
    return rows.sortWithinPartitions("at") if prototype.needs_order else rows


def _best_shuffle(source: Source) -> Literal["rows", "partials"]:
    """Rows if groups are many, for then their sketches are hardly smaller than they are."""
    some = source.rows.select(F.xxhash64(*source.groups).alias("group")).limit(_LOOK_AT).collect()
    different = len({row["group"] for row in some})
    return "rows" if 4 * different > _LOOK_AT else "partials"


def merge_df(
    df: DataFrame,
    by: ColumnLike | Sequence[ColumnLike] | None = None,
    column: ColumnLike = "sketch",
) -> Any:
    """Docstring below."""
    function = "merge_df"
    source = sketch_source(check_frame(df, function), column, by, function)
    if by is None:
        leaves = source.rows.mapInArrow(merge_partition(function), _LEAF)
        sketch = merge_on_driver(leaves.collect())
        if sketch is None:
            raise ValueError("merge_df: there are no sketches to merge")
        return sketch
    return _merged_groups(source.rows.repartition(*source.groups), source, None, function)
