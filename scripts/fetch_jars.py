"""Resolve Delta's jars once, into a directory of the project.

A session that names packages resolves them at every start, and fails where the user's own Maven
repository holds a descriptor without its jar. So resolution happens here, with a private Ivy cache
and a private home, and sessions are given the jars themselves.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

SCALA = "2.13"


def delta_coordinate() -> str:
    """Delta's artifact for the installed Spark, e.g. `io.delta:delta-spark_4.2_2.13:4.4.0`."""
    spark = ".".join(version("pyspark").split(".")[:2])
    return f"io.delta:delta-spark_{spark}_{SCALA}:{version('delta-spark')}"


def submit_command(coordinate: str, scratch: Path) -> list[str]:
    """Spark's own launcher with a program that does nothing: it resolves packages before it runs."""
    import pyspark

    program = scratch / "nothing.py"
    program.write_text("")
    launcher = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    return [
        str(launcher),
        "--master", "local[1]",
        "--packages", coordinate,
        "--conf", f"spark.jars.ivy={scratch / 'ivy'}",
        str(program),
    ]  # fmt: skip


def submit_environment(scratch: Path) -> dict[str, str]:
    return os.environ | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": f"-Duser.home={scratch}",
        "PYSPARK_PYTHON": sys.executable,
    }


def fetch(target: Path) -> list[Path]:
    """Fill `target` with the jars, replacing what was there; nothing is left half done."""
    coordinate = delta_coordinate()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="jars-", dir=target.parent) as name:
        scratch = Path(name)
        done = subprocess.run(
            submit_command(coordinate, scratch),
            env=submit_environment(scratch),
            capture_output=True,
            text=True,
            check=False,
        )
        jars = sorted((scratch / "ivy" / "jars").glob("*.jar"))
        if done.returncode or not jars:
            sys.exit(f"setup: could not resolve {coordinate}; Spark said:\n{done.stderr[-2000:]}")
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        return [Path(shutil.move(jar, target / jar.name)) for jar in jars]


if __name__ == "__main__":
    for jar in fetch(Path(sys.argv[1]).resolve()):
        print(jar.name)
