"""Modules that were elsewhere once: pickles of sketches name the module of their class."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "recency.exponential_histogram": "recency.counters.exponential_histogram",
    "recency.deterministic_wave": "recency.counters.deterministic_wave",
    "recency.nth_recent_wave": "recency.counters.nth_recent_wave",
    "recency.randomized_wave": "recency.samples.randomized_wave",
    "recency.sum_wave": "recency.samples.sum_wave",
    "recency.quantile_wave": "recency.samples.quantile_wave",
    "recency.decayed_sample": "recency.samples.decayed_sample",
    "recency.wbmh": "recency.samples.weight_based_merging_histogram",
    "recency.ecm": "recency.frequencies.ecm_sketch",
    "recency.dyadic_ecm": "recency.frequencies.dyadic_ecm",
}
"""Old name: new name. Names are never taken out, nor given to other modules."""


class _Moved(MetaPathFinder, Loader):
    """Gives the module itself under its old name: its classes are the same objects."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(MOVED[spec.name])
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None  # that of the old name
        module.__spec__ = module.__spec__.loader_state


sys.meta_path.append(_Moved())
