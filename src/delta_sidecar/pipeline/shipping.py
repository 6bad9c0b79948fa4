"""This package on the workers of a cluster: sent along as an archive, once per session.

What it depends on (pyarrow, obstore, msgspec, numpy) must be installed there; the guide says how.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_shipped: weakref.WeakSet[SparkSession] = weakref.WeakSet()


def ship(spark: SparkSession) -> None:
    """Send the package to the workers, unless they are on this machine and have it."""
    if spark in _shipped or is_here(spark):
        return
    directory = tempfile.mkdtemp(prefix="delta-sidecar-")
    # Executors fetch it when they first need it, one that comes late too: it stays as long as the session.
    weakref.finalize(spark, shutil.rmtree, directory, ignore_errors=True)
    spark.addArtifacts(str(package_archive(Path(directory))), pyfile=True)
    _shipped.add(spark)


def is_here(spark: SparkSession) -> bool:
    """Whether the workers are on this machine. A Connect server may be anywhere, whatever its own master is."""
    return not is_connect(spark) and (spark.conf.get("spark.master", "") or "").startswith("local")


def is_connect(spark: SparkSession) -> bool:
    """Whether the session is a client of a Connect server."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def package_archive(directory: Path) -> Path:
    """An archive of the package, for `--py-files`."""
    source = Path(__file__).resolve().parents[1]
    target = directory / "delta_sidecar.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(source.rglob("*.py")):
            archive.write(file, Path("delta_sidecar") / file.relative_to(source))
    return target
