"""Keep Spark's loaded classes in an archive that later JVMs map instead of loading and verifying each class again.

    python archive_classes.py ARCHIVE JARS

A session that writes one Delta table takes 17 s of processor time without it and 9 with it, and the tests start dozens
of them. Where the JVM cannot make an archive, an empty file stands for it, and sessions start as they always did.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

SECONDS = 300
JOBS = """
import sys, tempfile
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.builder.getOrCreate()
table = tempfile.mkdtemp(dir=sys.argv[1]) + "/table"
rows = spark.range(10).withColumn("text", F.col("id").cast("string")).withColumn("ts", F.current_timestamp())
rows.write.format("delta").save(table)
spark.sql(f"DELETE FROM delta.`{table}` WHERE id = 3")
spark.read.format("delta").load(table).mapInArrow(lambda batches: batches, "id long, text string, ts timestamp").count()
"""


def main(archive: Path, jars: Path) -> None:
    """Run some jobs, and have the JVM write its classes when it ends."""
    draft = archive.with_suffix(".draft")
    try:
        _run(draft, jars)
        draft.replace(archive)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"no archive of classes ({error}): Spark will start more slowly in tests")
        archive.touch()
    finally:
        draft.unlink(missing_ok=True)


def _run(draft: Path, jars: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        jobs = Path(place, "jobs.py")
        jobs.write_text(JOBS)
        options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-XX:ArchiveClassesAtExit={draft}"]
        settings = {
            "spark.driver.extraJavaOptions": " ".join([*options, f"-Djava.io.tmpdir={place}"]),
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.jars": ",".join(map(str, sorted(jars.glob("*.jar")))),
            "spark.local.dir": place,
            "spark.log.level": "ERROR",
            "spark.master": "local[2]",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.ui.enabled": "false",
        }
        submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        conf = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        subprocess.run(
            [str(submit), *conf, str(jobs), place],
            cwd=place,
            env=environment,
            check=True,
            timeout=SECONDS,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), Path(sys.argv[2]).absolute())
