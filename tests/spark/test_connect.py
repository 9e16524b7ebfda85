"""Spark Connect gives the same bytes as classic Spark."""

import json
import subprocess
import sys

import everything


def test_connect_and_classic_make_the_same(spark):
    command = [sys.executable, everything.__file__]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as remote:
        zone = spark.conf.get("spark.sql.session.timeZone")
        classic = everything.made_by(spark)
        spark.conf.set("spark.sql.session.timeZone", zone)
        said, errors = remote.communicate(timeout=500)
    assert remote.returncode == 0, errors[-3000:]
    connect = json.loads(said.splitlines()[-1])
    classic = json.loads(json.dumps(classic))
    assert (classic.pop("session"), connect.pop("session")) == ("session", "connect")
    assert connect == classic
    assert classic["coins"] == {"own": True, "again": True, "streams": True}
    for name in ("users", "amounts", "fading"):  # exact ones, whatever the way
        assert classic["many"][name] == classic[name]
    assert classic["users merged"] == classic["aggregates merged"] == classic["users"]
