"""A Spark session of our own: local by default, quiet, in UTC, with Delta's jars.

Ingest takes a session or a DataFrame, and the command makes one for it. Builds and maintenance often need no Spark:
they start a session when they do, unless they are given one. Delta's jars are looked for in the directory
`DELTA_SIDECAR_JARS` names, else in `.cache/jars` of the checkout or of the current directory, else Spark resolves them
itself (`spark.jars.packages`), which needs a package repository at every first start.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delta_sidecar.errors import SparkError
from delta_sidecar.pipeline.hadoop import SECRET_NAMES, hadoop_options
from delta_sidecar.pipeline.kafka import is_kafka
from delta_sidecar.storage.uri import parse_location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JARS_VARIABLE = "DELTA_SIDECAR_JARS"
CHECKOUT = Path(__file__).resolve().parents[3]
_SESSION = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.session.timeZone": "UTC",
}
_PROCESS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.log.level": "ERROR",
    "spark.ui.showConsoleProgress": "false",
    # Where in our code a frame was made says nothing to a user, and costs several calls to the JVM for each column.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.redaction.regex": SECRET_NAMES,
}
_DRIVERS = {"s3": "hadoop-aws", "az": "hadoop-azure", "abfss": "hadoop-azure"}
AWS_BUNDLE = "software.amazon.awssdk:bundle"
"""All of Amazon's SDK, every service of it, in one jar of 686 MB: what the driver for S3 asks for."""
_AWS_MODULES = ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
"""What it uses of that: 15 MB."""
_AWS_VERSIONS = {"3.5.0": "2.35.4"}
"""The SDK that a version of Hadoop is built with; with another one the bundle is fetched."""


@contextmanager
def spark_session(
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    uris: Sequence[str] = (),
    app_name: str = "delta-sidecar",
    verbose: bool = False,
) -> Iterator[SparkSession]:
    """The session of this process if it has one, else a new one, stopped after the block.

    `uris` are the places and topics it will work on: their drivers and credentials are set up. Unless `verbose`, what
    the JVM says goes to a file of its own, and is not shown if all is well.
    """
    _check_installed()
    from pyspark.sql import SparkSession

    settings = session_settings(master, conf, storage_options, uris)
    present = SparkSession.getActiveSession()
    if present is not None:
        set_storage_options(present, uris, storage_options)
        yield present
        return
    session = _started(_builder(SparkSession, master, app_name, settings), verbose)
    try:
        yield session
    finally:
        with suppress(Exception):  # Its process may be gone: a signal reaches all of a process group.
            session.stop()


def session_settings(
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    uris: Sequence[str] = (),
    checkout: Path = CHECKOUT,
) -> dict[str, str]:
    """All settings of a session; what the user gives takes precedence. Jars are looked for in `checkout`."""
    given = dict(conf or {})
    stores = {k: v for uri in _places(uris) for k, v in hadoop_options(uri, storage_options).items()}
    if _is_remote(master):
        return _SESSION | stores | given
    local = _local_settings() if _is_local(master) else {}
    named = {f"spark.hadoop.{name}": value for name, value in stores.items()}
    return _SESSION | _PROCESS | local | named | _jar_settings(uris, given, checkout) | given


def set_storage_options(
    spark: SparkSession, uris: Sequence[str], storage_options: Mapping[str, str] | None = None
) -> None:
    """Give a session that is already there the credentials of the places it will work on."""
    for uri in _places(uris):
        for name, value in hadoop_options(uri, storage_options).items():
            spark.conf.set(name, value)


def _places(uris: Sequence[str]) -> list[str]:
    """Those that a file system serves."""
    return [uri for uri in uris if not is_kafka(uri)]


@contextmanager
def temporary_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings of the session for the time of a block; one that is as wanted already may be that of another thread."""
    before = {name: spark.conf.get(name, None) for name in settings}
    changed = {name: value for name, value in settings.items() if before[name] != value}
    for name, value in changed.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in changed:
            old = before[name]
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def shuffle_partitions(spark: SparkSession) -> int:
    """The partitions of an exchange; Spark's own 200 where the session has no number (`auto` on some clusters).

    Asked for without a default: Spark checks a default as it checks a value, and refuses a text for a number.
    """
    value = spark.conf.get("spark.sql.shuffle.partitions")
    return int(value) if value is not None and value.isdigit() else 200


def _is_local(master: str | None) -> bool:
    return master is None or master.startswith("local")


def _is_remote(master: str | None) -> bool:
    """A Connect server has its own jars, and settings of the process that are not ours to make."""
    return master is not None and master.startswith("sc://")


def _local_settings() -> dict[str, str]:
    """One machine, one process: loopback only, as many partitions as it has use for."""
    partitions = str(4 * (os.cpu_count() or 1))
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        # Nothing is put there, and yet Spark would make it in the working directory.
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "spark-warehouse"),
        "spark.sql.shuffle.partitions": partitions,
        "spark.databricks.delta.snapshotPartitions": partitions,
    }


def _jar_settings(uris: Sequence[str], given: Mapping[str, str], checkout: Path) -> dict[str, str]:
    """Jars that are at hand, and the names of those that are not; added to what the user names."""
    jars = find_jars(checkout)
    present = " ".join(jar.name for jar in jars)
    packages = [] if "delta-spark" in present else [delta_coordinate()]
    drivers = {_DRIVERS[s] for s in (parse_location(uri).scheme for uri in _places(uris)) if s in _DRIVERS}
    missing = [driver for driver in sorted(drivers) if driver not in present]
    packages += [f"org.apache.hadoop:{driver}:{_hadoop_version()}" for driver in missing]
    if "spark-sql-kafka" not in present and any(map(is_kafka, uris)):
        packages.append(f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version('pyspark')}")
    settings = {"spark.jars": ",".join(map(str, jars)), "spark.jars.packages": ",".join(packages)}
    # Who names packages, or leaves some out, has chosen a client already.
    if "hadoop-aws" in missing and not {"spark.jars.packages", "spark.jars.excludes"} & given.keys():
        settings |= _small_aws(settings["spark.jars.packages"], _hadoop_version())
    return {k: v for k, v in settings.items() if v and k not in given}


def _small_aws(packages: str, hadoop: str) -> dict[str, str]:
    """The parts of Amazon's SDK that the driver for S3 uses, in place of all of it."""
    sdk = _AWS_VERSIONS.get(hadoop)
    if sdk is None:
        return {}
    return {"spark.jars.packages": ",".join([packages, *_aws_modules(sdk)]), "spark.jars.excludes": AWS_BUNDLE}


def _aws_modules(sdk: str) -> list[str]:
    return [f"software.amazon.awssdk:{module}:{sdk}" for module in _AWS_MODULES]


def s3_packages() -> list[str]:
    """Hadoop's driver for S3 for the installed Spark, and the parts of Amazon's SDK that it uses."""
    hadoop = _hadoop_version()
    return [f"org.apache.hadoop:hadoop-aws:{hadoop}", *_aws_modules(_AWS_VERSIONS[hadoop])]


def find_jars(checkout: Path = CHECKOUT) -> list[Path]:
    """The jars of the first directory that has any."""
    named = os.environ.get(JARS_VARIABLE)
    places = [Path(named)] if named else [checkout / ".cache" / "jars", Path.cwd() / ".cache" / "jars"]
    jars = next((here for place in places if (here := sorted(place.glob("*.jar")))), [])
    if named and not jars:
        raise SparkError(f"{JARS_VARIABLE} names {named}, which contains no jar; run make setup, or unset it")
    return jars


def delta_coordinate() -> str:
    """Delta's artifact for the installed Spark, e.g. `io.delta:delta-spark_4.2_2.13:4.4.0`."""
    spark = ".".join(version("pyspark").split(".")[:2])
    return f"io.delta:delta-spark_{spark}_2.13:{version('delta-spark')}"


def _hadoop_version() -> str:
    """The Hadoop that Spark was built with: its drivers must be of the same version."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    name = next((jar.name for jar in jars.glob("hadoop-client-api-*.jar")), "")
    return re.sub(r"hadoop-client-api-|\.jar", "", name)


def _check_installed() -> None:
    """One line for what is missing, rather than a traceback from deep inside."""
    for package in ("pyspark", "delta-spark"):
        try:
            version(package)
        except PackageNotFoundError:
            raise SparkError(f"{package} is not installed; run: pip install 'delta-sidecar[spark]'") from None
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else None
    if shutil.which(str(java) if java else "java") is None:
        where = f"JAVA_HOME names {home}, which has no bin/java" if home else "no java on the PATH"
        raise SparkError(f"Spark needs Java 17 or newer: {where}; install it, or set JAVA_HOME")


def _builder(kind: type[SparkSession], master: str | None, app_name: str, settings: Mapping[str, str]) -> Any:
    if _is_local(master):
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    else:
        # Where Python is on the workers the user knows best. Spark itself heeds this setting at spark-submit alone.
        named = settings.get("spark.pyspark.python", os.environ.get("PYSPARK_PYTHON"))
        os.environ["PYSPARK_PYTHON"] = named or sys.executable
    builder: Any = kind.builder.appName(app_name)
    builder = builder.remote(master) if _is_remote(master) else builder.master(master or "local[*]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder


def _started(builder: Any, verbose: bool) -> SparkSession:
    with tempfile.TemporaryFile(prefix="sidecar-spark-") as output, _output_to(None if verbose else output.fileno()):
        try:
            session: SparkSession = builder.getOrCreate()
        except Exception as error:
            output.seek(0)
            raise SparkError(f"Spark did not start: {_last_word(output.read(), error)}") from None
    return session


def _last_word(output: bytes, error: Exception) -> str:
    """The line of the JVM that tells most: the last one that speaks of an error."""
    lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"error|exception|not found|denied", line, re.IGNORECASE)]
    return (telling or lines or [str(error)])[-1][:500] + "; run again with --verbose to see more"


@contextmanager
def _output_to(target: int | None) -> Iterator[None]:
    """What processes started in the block write to stdout and stderr goes to `target`, for as long as they live."""
    if target is None:
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    os.dup2(target, 1)
    os.dup2(target, 2)
    try:
        yield
    finally:
        for number, descriptor in enumerate(kept, 1):
            os.dup2(descriptor, number)
            os.close(descriptor)
