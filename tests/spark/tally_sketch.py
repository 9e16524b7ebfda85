"""A sketch that the library does not know: an exact sum, without windows, in a file of its own."""

from dataclasses import dataclass

import numpy as np

from recency import Estimate, Sketch
from recency.core.codec import zigzag


@dataclass(frozen=True)
class TallyConfig:
    scale: int


class TallySketch(Sketch):
    family = 200
    config_class = TallyConfig
    merge_law = "exact"

    def __init__(self, scale=1):
        self.config = TallyConfig(scale)
        self._sum, self._latest = 0, None

    def update(self, value=1, *, at):
        self.update_many([value], at=[at])

    def update_many(self, value=1, *, at):
        at = np.asarray(at)
        self._sum += self.config.scale * int(np.broadcast_to(value, at.size).sum())
        self._latest = max(int(at.max()), at.max() if self._latest is None else self._latest)

    def query(self):
        return Estimate(float(self._sum), float(self._sum), float(self._sum))

    @property
    def latest(self):
        return self._latest

    @property
    def guarantee(self):
        return 0.0

    def copy(self):
        twin = TallySketch(self.config.scale)
        twin._become(self)
        return twin

    def _become(self, other):
        self._sum, self._latest = other._sum, other._latest

    @classmethod
    def _merged(cls, sketches):
        merged = sketches[0].copy()
        merged._sum = sum(sketch._sum for sketch in sketches)
        merged._latest = max(sketch._latest for sketch in sketches)
        return merged

    @classmethod
    def _write(cls, sketches, writer):
        seen = np.array([not sketch.is_empty for sketch in sketches])
        writer.scalar(seen.astype(np.uint64))
        writer.scalar(np.array([sketch._sum for sketch in sketches], dtype=np.uint64))
        writer.scalar(zigzag(np.array([sketch._latest or 0 for sketch in sketches])))

    @classmethod
    def _read(cls, prototype, reader):
        ones = np.ones(reader.size, dtype=np.int64)
        columns = [reader.integer(), reader.integer(), reader.signed(ones)]
        sketches = []
        for seen, total, latest in zip(*(column.tolist() for column in columns), strict=True):
            sketch = prototype.copy()
            sketch._sum, sketch._latest = total, latest if seen else None
            sketches.append(sketch)
        return sketches
