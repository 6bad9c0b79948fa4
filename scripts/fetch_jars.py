"""Resolve Delta's jars once, into a directory of the project.

A session that names packages resolves them at every start, and fails where the user's own Maven
repository holds a descriptor without its jar. So resolution happens here, with a private Ivy cache
and a private home, and sessions are given the jars themselves.
"""

from __future__ import annotations

import os
import re
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


def spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def artifact(jar: str) -> str:
    """`snappy-java` of `snappy-java-1.1.10.jar`."""
    return re.sub(r"-\d.*", "", jar)


def not_in_spark(jars: list[Path]) -> list[Path]:
    """Those that Spark does not bring itself; Ivy names them `group_artifact-version.jar`."""
    present = {artifact(jar.name) for jar in (spark_home() / "jars").iterdir()}
    return [jar for jar in jars if artifact(jar.name.partition("_")[2]) not in present]


def submit_command(coordinate: str, scratch: Path) -> list[str]:
    """Spark's own launcher with a program that does nothing: it resolves packages before it runs."""
    program = scratch / "nothing.py"
    program.write_text("")
    return [
        str(spark_home() / "bin" / "spark-submit"),
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
        jars = not_in_spark(sorted((scratch / "ivy" / "jars").glob("*.jar")))
        if done.returncode or not jars:
            sys.exit(f"setup: could not resolve {coordinate}; Spark said:\n{done.stderr[-2000:]}")
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        return [Path(shutil.move(jar, target / jar.name)) for jar in jars]


if __name__ == "__main__":
    for jar in fetch(Path(sys.argv[1]).resolve()):
        print(jar.name)
