"""Processes that hash strings in other ways, each started once and asked about all sketches."""

import atexit
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

from recency.sketch import Sketch

HASH_SEEDS = ("0", "12345")
"""Values of ``PYTHONHASHSEED``; a process is started with each."""

_PROGRAM = """
import importlib, pickle, sys, traceback, recency
while True:
    try:
        sys.path[:], module, frame, columns = pickle.load(sys.stdin.buffer)
    except EOFError:
        break
    try:
        importlib.import_module(module)
        sketch = recency.loads(frame)
        sketch.update_many(**columns)
        made = sketch.to_bytes()
    except Exception:
        made = traceback.format_exc()
    pickle.dump(made, sys.stdout.buffer)
    sys.stdout.flush()
"""


def bytes_elsewhere(hash_seed: str, sketch: Sketch, columns: Mapping[str, Any]) -> bytes:
    """Return the bytes of the sketch after an update in the process with this hash seed.

    If something is raised there, this is a RuntimeError with the traceback.
    """
    process = _started(hash_seed)
    assert process.stdin is not None
    assert process.stdout is not None
    pickle.dump((sys.path, type(sketch).__module__, sketch.to_bytes(), columns), process.stdin)
    process.stdin.flush()
    made: bytes | str = pickle.load(process.stdout)
    if isinstance(made, str):
        raise RuntimeError(f"with PYTHONHASHSEED={hash_seed}:\n{made}")
    return made


@cache
def _started(hash_seed: str) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    atexit.register(process.communicate)  # closes its input, which ends it
    return process
