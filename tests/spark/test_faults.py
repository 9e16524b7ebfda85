"""Faults do not change sketches. Sessions with other options run in programs."""

import re
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parent / "faults.py"


def test_tasks_that_fail_at_first():
    finished = subprocess.run(
        [sys.executable, str(PROGRAM)], capture_output=True, text=True, timeout=590
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    said = re.search(r"the same sketches after (\d+) failures", finished.stdout)
    assert said
    assert int(said[1]) >= 12  # four jobs, three tasks each
