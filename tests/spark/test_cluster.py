"""A standalone cluster: an executor is killed, a task runs twice, Python has 512 MB."""

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parent / "cluster.py"


def test_sketches_do_not_depend_on_faults():
    finished = subprocess.run(
        [sys.executable, str(PROGRAM)], capture_output=True, text=True, timeout=900
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    for said in (
        "the same sketches as without the kill: users, sums, counts",
        "the same sketches with a slow task run twice",
        "20 M rows, 90 % in one group, rows shuffled: the truth",
        "20 M rows, 90 % in one group, partials shuffled: the truth",
        "no worker ran out of memory",
    ):
        assert said in finished.stdout, finished.stdout
