"""``sketch_rdd``, for those who have an RDD."""

from collections.abc import Callable, Mapping
from typing import Any

from recency.sketch import Sketch

_ROWS = 10_000


def sketch_rdd(
    rdd: Any,
    prototype: Sketch,
    to_columns: Callable[[list[Any]], Mapping[str, Any]],
    depth: int = 2,
) -> Sketch:
    """x."""
    raise NotImplementedError
