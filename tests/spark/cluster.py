"""A real cluster on this machine: a master and two workers, whose Python has 512 MB.

As a program (``make cluster-test``) it kills an executor during a job, lets a slow task run twice,
and sketches 20 M rows of which 90 % are in one group. It prints what happened, and fails if a
sketch differs from that of a run without faults. The package is sent as a zip, as to any cluster.
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyspark
from pyspark import TaskContext
from pyspark.sql import SparkSession
from sessions import Visits, session

import recency
from recency import ExponentialHistogram, RandomizedWave, SumWave
from recency.spark import on, sketch_df, sketch_many

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
DEPLOY = "org.apache.spark.deploy"
WANTED = {
    "users": on(RandomizedWave(50_000), at="at", item="user"),
    "sums": on(SumWave(50_000), at="at", value="user"),
    "counts": on(ExponentialHistogram(50_000), at="at"),
}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def cluster(folder):
    """Start a master and two workers with one core each; yield the address of the master.

    They have two addresses, since Spark does not start a slow task again on the same host.
    """
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    master = [f"{DEPLOY}.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    commands = [[*master, "--webui-port", str(free_port())]]
    for i in range(2):
        worker = [f"{DEPLOY}.worker.Worker", "--host", f"127.0.0.{i + 1}", "--cores", "1"]
        where = ["--memory", "2g", "--work-dir", str(folder / f"worker{i}")]
        commands.append([*worker, *where, "--webui-port", str(free_port()), address])
    processes, logs = [], []
    try:
        for i, command in enumerate(commands):
            logs.append(folder / f"{i}.log")
            with logs[-1].open("w") as log:
                processes.append(
                    subprocess.Popen(
                        [str(SPARK_CLASS), *command],
                        env={**os.environ, "SPARK_NO_DAEMONIZE": "1"},
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                )
            if i == 0:
                wait_until(lambda: can_connect(port), "the master does not listen")
        wait_until(
            lambda: all("Successfully registered" in log.read_text() for log in logs[1:]),
            "the workers did not register",
        )
        yield address
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def can_connect(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def wait_until(holds, message, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(message)
        time.sleep(0.2)


def shipped(folder):
    """Return the package as a zip, for ``addArtifact`` and ``--py-files``."""
    source = Path(recency.__file__).parent
    copied = shutil.copytree(source, folder / "package" / "recency")
    return shutil.make_archive(str(folder / "recency"), "zip", copied.parent)


def executors():
    """Return the process ids of executors, by the command lines of this machine."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes()
                if b"CoarseGrainedExecutorBackend" in command and b"--executor-id" in command:
                    found.append(int(entry.name))
    return found


def slowly(batches):
    for batch in batches:
        time.sleep(0.25)
        yield batch


def slow_at_first(folder):
    """A mapper: the first attempt of one task is slow, and every attempt of it writes a file."""

    def slow(batches):
        task = TaskContext.get()
        if task.partitionId() == 5:
            (folder / f"attempt{task.attemptNumber()}").touch()
            if task.attemptNumber() == 0:
                time.sleep(60)
        yield from batches

    return slow


def where_from(batches):
    import pyarrow as pa

    import recency

    for _ in batches:
        pass
    yield pa.RecordBatch.from_arrays([pa.array([recency.__file__])], ["path"])


def same(got, wanted):
    assert got.keys() == wanted.keys()
    for name, sketch in wanted.items():
        assert got[name] == sketch, name
        assert got[name].to_bytes() == sketch.to_bytes(), name


def kill(visits, calm):
    """Kill an executor during a job."""
    killed = []

    def kill_one():
        time.sleep(4)
        killed.extend(executors()[:1])
        for pid in killed:
            os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    start = time.monotonic()
    after = sketch_many(visits.mapInArrow(slowly, visits.schema), WANTED, stream="visits")
    took = time.monotonic() - start
    killer.join()
    print(f"killed executor {killed} after 4 s of a job of {took:.0f} s")
    assert killed
    assert took > 5, "the job was over before the kill"
    same(after, calm)
    print("the same sketches as without the kill:", ", ".join(after))


def speculate(visits, calm, folder):
    """Let a slow task run twice."""
    start = time.monotonic()
    after = sketch_many(
        visits.mapInArrow(slow_at_first(folder), visits.schema), WANTED, stream="visits"
    )
    took = time.monotonic() - start
    attempts = sorted(path.name for path in folder.glob("attempt*"))
    assert attempts == ["attempt0", "attempt1"], attempts
    assert took < 60, "the slow attempt was waited for"
    same(after, calm)
    print(f"the same sketches with a slow task run twice, in {took:.0f} s:", ", ".join(after))


def skew(spark, million=20):
    """Sketch rows of which nine in ten are in one group.

    Shuffled rows arrive in any order, so coins by position would differ from run to run, and an
    interval of 95 % would miss now and then. So sums draw coins by id, and equal those of one pass.
    """
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10000")
    visits = Visits(million * 1_000_000)
    frame = visits.frame(spark, 8)
    wanted = WANTED | {"sums": on(SumWave(50_000), at="at", value="user", id="at")}
    one_pass = {
        name: visits.update(each.prototype.copy(), page=0, **used_columns(each, but="at"))
        for name, each in wanted.items()
        if name != "counts"
    }
    recent = np.arange(visits.rows - 40_000, visits.rows)
    truth = int((recent % 10 < 9).sum())
    for shuffle in ("rows", "partials"):
        start = time.monotonic()
        # One scan for two of them; the third alone, as it has its rows sorted.
        several = {name: each for name, each in wanted.items() if name != "counts"}
        by_page = sketch_many(frame, several, by="page", shuffle=shuffle)
        row = by_page.where("page = 0").first()
        made = {name: recency.loads(row[name]) for name in several}
        counts = wanted["counts"]
        by_page = sketch_df(
            frame, counts.prototype, **used_columns(counts), by="page", shuffle=shuffle
        )
        made["counts"] = recency.loads(by_page.where("page = 0").first()["sketch"])
        took = time.monotonic() - start
        answer = made.pop("counts").query(40_000)  # its bounds hold always
        assert answer.lower <= truth <= answer.upper, (truth, answer)
        assert abs(answer.value - truth) <= 0.05 * truth, (truth, answer)
        same(made, one_pass)
        print(f"{million} M rows, 90 % in one group, {shuffle} shuffled: the truth, {took:.0f} s")


def used_columns(wanted, but=None):
    return {role: name for role, name in wanted.columns.items() if name and role != but}


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with cluster(folder) as address:
            spark = session(
                SparkSession.builder.master(address),
                spark__submit__pyFiles=shipped(folder),
                spark__driver__host="127.0.0.1",
                spark__driver__bindAddress="127.0.0.1",
                spark__executor__memory="512m",
                spark__executor__pyspark__memory="512m",
                spark__executor__cores="1",
                spark__speculation="true",
                spark__speculation__minTaskRuntime="3s",
                spark__sql__execution__arrow__maxRecordsPerBatch="2000",
            )
            spark.sparkContext.setLogLevel("OFF")
            few = Visits(120_000).frame(spark, 12)
            (row,) = few.repartition(1).mapInArrow(where_from, "path string").collect()
            print("workers import", row["path"])
            assert re.search(r"recency\.zip", row["path"]), row["path"]
            calm = sketch_many(few, WANTED, stream="visits")
            kill(few, calm)
            speculate(few, calm, folder)
            skew(spark)
            spark.stop()
            logs = [path.read_text() for path in folder.glob("worker*/app-*/*/stderr")]
            assert len(logs) >= 3  # two executors, one killed and replaced
            assert not any("MemoryError" in log for log in logs), "a worker ran out of memory"
            print("no worker ran out of memory")


if __name__ == "__main__":
    main()
