"""A real cluster on this machine: a master, two workers, an executor that is killed amid a job.

As a program (``make cluster-test``) it prints what happened and fails if a sketch is not the same
as without the kill. The package travels as a zip, as it would to any cluster.
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pyspark

import recency

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
DEPLOY = "org.apache.spark.deploy"
ENVIRONMENT = {
    **os.environ,
    "SPARK_NO_DAEMONIZE": "1",
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYSPARK_PYTHON": sys.executable,
}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def cluster(folder):
    """A master and two workers with one core each; gives the address of the master."""
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    master = [f"{DEPLOY}.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    commands = [[*master, "--webui-port", str(free_port())]]
    for i in range(2):
        worker = [f"{DEPLOY}.worker.Worker", "--host", "127.0.0.1", "--cores", "1"]
        where = ["--memory", "1g", "--work-dir", str(folder / f"worker{i}")]
        commands.append([*worker, *where, "--webui-port", str(free_port()), address])
    processes, logs = [], []
    try:
        for i, command in enumerate(commands):
            logs.append(folder / f"{i}.log")
            with logs[-1].open("w") as log:
                processes.append(
                    subprocess.Popen(
                        [str(SPARK_CLASS), *command],
                        env=ENVIRONMENT,
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
    """The package as a zip, for ``addArtifact``, ``spark.submit.pyFiles`` or ``--py-files``."""
    source = Path(recency.__file__).parent
    copied = shutil.copytree(source, folder / "package" / "recency")
    return shutil.make_archive(str(folder / "recency"), "zip", copied.parent)


def executors():
    """Process ids of executors, by the command lines of this machine."""
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


def where_from(batches):
    import pyarrow as pa

    import recency

    for _ in batches:
        pass
    yield pa.RecordBatch.from_arrays([pa.array([recency.__file__])], ["path"])


def main():
    from pyspark.sql import SparkSession

    from recency import ExponentialHistogram, RandomizedWave, SumWave
    from recency.spark import on, sketch_many

    os.environ.update(ENVIRONMENT)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with cluster(folder) as address:
            spark = (
                SparkSession.builder.master(address)
                .config("spark.submit.pyFiles", shipped(folder))
                .config("spark.driver.host", "127.0.0.1")
                .config("spark.driver.bindAddress", "127.0.0.1")
                .config("spark.executor.memory", "512m")
                .config("spark.executor.cores", "1")
                .config("spark.ui.enabled", "false")
                .config("spark.ui.showConsoleProgress", "false")
                .config("spark.sql.execution.arrow.maxRecordsPerBatch", "2000")
                .getOrCreate()
            )
            spark.sparkContext.setLogLevel("OFF")
            events = spark.range(0, 120_000, 1, 12).selectExpr(
                "id AS at", "id * 7919 % 5000 AS user"
            )
            (row,) = events.repartition(1).mapInArrow(where_from, "path string").collect()
            print("workers import", row["path"])
            assert re.search(r"recency\.zip", row["path"]), row["path"]
            wanted = {
                "users": on(RandomizedWave(50_000), at="at", item="user"),
                "sums": on(SumWave(50_000), at="at", value="user"),
                "counts": on(ExponentialHistogram(50_000), at="at"),
            }
            before = sketch_many(events, wanted)

            killed = []

            def kill_one():
                time.sleep(4)
                victims = executors()
                killed.extend(victims[:1])
                for pid in victims[:1]:
                    os.kill(pid, signal.SIGKILL)

            killer = threading.Thread(target=kill_one)
            killer.start()
            start = time.monotonic()
            after = sketch_many(events.mapInArrow(slowly, events.schema), wanted)
            took = time.monotonic() - start
            killer.join()
            print(f"killed executor {killed} after 4 s of a job of {took:.0f} s")
            assert killed
            assert took > 5, "the job was over before the kill"
            for name, sketch in before.items():
                assert after[name] == sketch, name
                assert after[name].to_bytes() == sketch.to_bytes(), name
            print("the same sketches as without the kill:", ", ".join(before))
            spark.stop()


if __name__ == "__main__":
    main()
