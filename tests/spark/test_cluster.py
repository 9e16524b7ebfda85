"""A standalone cluster, a job, a killed executor: the same sketches."""

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parent / "cluster.py"


def test_a_killed_executor_changes_nothing():
    finished = subprocess.run(
        [sys.executable, str(PROGRAM)], capture_output=True, text=True, timeout=500
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    assert "the same sketches as without the kill: users, sums, counts" in finished.stdout
