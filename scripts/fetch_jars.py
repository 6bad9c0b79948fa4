"""Resolve jars once, into a directory of the project: for Spark (Delta, the Kafka connector), or for tests (a broker,
Hadoop's driver for S3, a client of Arrow Flight, the JDBC driver of Flight SQL).

    python fetch_jars.py DIRECTORY spark|broker|s3|flight|jdbc

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
BROKER = f"org.apache.kafka:kafka_{SCALA}:4.3.1"
"""A broker without ZooKeeper; any version that the connector's client can talk to will do."""
FLIGHT = ["org.apache.arrow:flight-core:18.3.0", "org.apache.arrow:arrow-memory-netty:18.3.0"]
"""A client of Arrow Flight, with the memory that it works in."""
JDBC = "org.apache.arrow:flight-sql-jdbc-driver:18.3.0"
"""The JDBC driver of Flight SQL, one jar with all it needs."""
TOKENS = f"spark-token-provider-kafka-0-10_{SCALA}"
OLDER_TOKENS = "4.0.0"
"""The version of the connector's small helper for who finds none of Spark's own: not every mirror has it."""


def delta_coordinate() -> str:
    """Delta's artifact for the installed Spark, e.g. `io.delta:delta-spark_4.2_2.13:4.4.0`."""
    spark = ".".join(version("pyspark").split(".")[:2])
    return f"io.delta:delta-spark_{spark}_{SCALA}:{version('delta-spark')}"


def connector_coordinate() -> str:
    """The Kafka connector of the installed Spark."""
    return f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}:{version('pyspark')}"


def coordinates(kind: str) -> list[str]:
    """What is resolved for Spark, for the broker, for tables in S3, for a client of Arrow Flight, or for JDBC."""
    if kind == "s3":
        from delta_sidecar.pipeline.session import s3_packages

        return s3_packages()
    return {
        "spark": [delta_coordinate(), connector_coordinate()],
        "broker": [BROKER],
        "flight": FLIGHT,
        "jdbc": [JDBC],
    }[kind]


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


def submit_command(coordinates: list[str], excluded: list[str], scratch: Path) -> list[str]:
    """Spark's own launcher with a program that does nothing: it resolves packages before it runs."""
    program = scratch / "nothing.py"
    program.write_text("")
    return [
        str(spark_home() / "bin" / "spark-submit"),
        "--master", "local[1]",
        "--packages", ",".join(coordinates),
        *(["--exclude-packages", ",".join(excluded)] if excluded else []),
        "--conf", f"spark.jars.ivy={scratch / 'ivy'}",
        str(program),
    ]  # fmt: skip


def submit_environment(scratch: Path) -> dict[str, str]:
    return os.environ | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": f"-Duser.home={scratch}",
        "PYSPARK_PYTHON": sys.executable,
    }


class Unresolved(Exception):
    """A repository lacks something."""


def resolve(coordinates: list[str], scratch: Path, excluded: list[str] | None = None) -> list[Path]:
    """The jars of `coordinates` and of what they stand on, below `scratch`."""
    scratch.mkdir()
    done = subprocess.run(
        submit_command(coordinates, excluded or [], scratch),
        env=submit_environment(scratch),
        capture_output=True,
        text=True,
        check=False,
    )
    jars = sorted((scratch / "ivy" / "jars").glob("*.jar"))
    if done.returncode or not jars:
        raise Unresolved(f"could not resolve {', '.join(coordinates)}; Spark said:\n{done.stderr[-2000:]}")
    return jars


def spark_jars(scratch: Path) -> list[Path]:
    """Delta and the Kafka connector, without what Spark brings itself."""
    tokens = f"org.apache.spark:{TOKENS}"
    jars = resolve(coordinates("spark"), scratch / "spark", [tokens])
    alone = ["org.apache.kafka:kafka-clients", f"org.apache.spark:spark-tags_{SCALA}"]
    try:
        helper = resolve([f"{tokens}:{version('pyspark')}"], scratch / "tokens", alone)
    except Unresolved:
        helper = resolve([f"{tokens}:{OLDER_TOKENS}"], scratch / "older-tokens", alone)
    return not_in_spark(jars) + [jar for jar in helper if TOKENS in jar.name]


def broker_jars(scratch: Path) -> list[Path]:
    """The broker, and Scala, which Spark's resolution takes for granted."""
    scala = next((spark_home() / "jars").glob("scala-library-*.jar"))
    return [*resolve(coordinates("broker"), scratch / "broker"), Path(shutil.copy(scala, scratch))]


def s3_jars(scratch: Path) -> list[Path]:
    """Hadoop's driver for S3 with the parts of Amazon's SDK that it uses, without what Spark brings itself."""
    from delta_sidecar.pipeline.session import AWS_BUNDLE

    return not_in_spark(resolve(coordinates("s3"), scratch / "s3", [AWS_BUNDLE]))


def flight_jars(scratch: Path) -> list[Path]:
    """Arrow Flight and all it needs."""
    return resolve(coordinates("flight"), scratch / "flight")


def jdbc_jars(scratch: Path) -> list[Path]:
    """The JDBC driver of Flight SQL."""
    return resolve(coordinates("jdbc"), scratch / "jdbc")


_JARS = {"spark": spark_jars, "broker": broker_jars, "s3": s3_jars, "flight": flight_jars, "jdbc": jdbc_jars}


def fetch(target: Path, kind: str) -> list[Path]:
    """Fill `target` with the jars, replacing what was there; nothing is left half done."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="jars-", dir=target.parent) as name:
        try:
            jars = _JARS[kind](Path(name))
        except Unresolved as why:
            sys.exit(f"setup: {why}")
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        return [Path(shutil.move(jar, target / jar.name)) for jar in jars]


if __name__ == "__main__":
    for jar in fetch(Path(sys.argv[1]).resolve(), sys.argv[2]):
        print(jar.name)
