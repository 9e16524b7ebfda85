"""Spark Connect gives the same bytes as classic Spark. Its session needs its own process."""

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parent / "everything.py"


def made_by(kind):
    finished = subprocess.run(
        [sys.executable, str(PROGRAM), kind], capture_output=True, text=True, timeout=500
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    return json.loads(finished.stdout.splitlines()[-1])


def test_connect_and_classic_make_the_same():
    classic, connect = made_by("classic"), made_by("connect")
    assert (classic.pop("session"), connect.pop("session")) == ("session", "connect")
    assert connect == classic
    assert classic["coins"] == {"own": True, "again": True, "streams": True}
    for name in ("users", "amounts", "fading"):  # exact ones, whatever the way
        assert classic["many"][name] == classic[name]
    assert classic["users merged"] == classic["aggregates merged"] == classic["users"]
