"""The sample is a real Delta table: other readers see the same rows, and the index finds its hours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from delta_sidecar import DeltaTable, InputError, OptionError
from delta_sidecar.index.build.build import build_index
from delta_sidecar.index.verify.verify import verify_index
from delta_sidecar.storage import open_store
from delta_sidecar.testing.model import live_paths, read_commits
from delta_sidecar.testing.sample_table import SampleReport, SampleShape, write_sample
from delta_sidecar.values.bucket_columns import bucket_columns

SHAPE = SampleShape(hours=8, files_per_hour=3, rows_per_file=5)
LAST_HOUR = "ts >= '2026-02-10T23:00:00Z'"


@pytest.fixture
def sample(tmp_path: Path) -> SampleReport:
    return write_sample(tmp_path / "events", SHAPE)


def in_order(rows: pa.Table) -> pa.Table:
    return rows.sort_by("id")


def contents(root: Path) -> Iterator[tuple[str, bytes]]:
    return ((str(path.relative_to(root)), path.read_bytes()) for path in sorted(root.rglob("*")) if path.is_file())


def test_deltalake_reads_the_same_rows(sample: SampleReport) -> None:
    theirs, ours = deltalake.DeltaTable(sample.table), DeltaTable(sample.table)
    assert theirs.version() == ours.version() == sample.version
    assert len(theirs.file_uris()) == sample.files == 8 * 3 - 2
    rows = in_order(ours.to_pyarrow_table())
    assert rows.num_rows == sample.rows == 8 * 3 * 5
    assert rows.equals(in_order(theirs.to_pyarrow_table()).cast(rows.schema))
    assert len(theirs.file_uris(file_pruning_predicate=LAST_HOUR)) == 3


def test_the_log_has_a_checkpoint_a_tail_and_removes(sample: SampleReport) -> None:
    operations = [entry["operation"] for entry in DeltaTable(sample.table).history()]
    assert operations == ["DELETE", *["WRITE"] * 5, "OPTIMIZE", *["WRITE"] * 4, "CREATE TABLE"]
    assert sample.version == 11
    with DeltaTable(sample.table).scan_files() as scan:
        paths = scan.read_all()["path"].to_pylist()
    assert (scan.metrics.tier, scan.metrics.commits_scanned) == ("checkpoint", 6)
    assert sorted(paths) == live_paths(read_commits(Path(sample.table)))


def test_the_bucket_is_the_one_that_ingest_makes(sample: SampleReport) -> None:
    table = DeltaTable(sample.table)
    (bucket,) = bucket_columns(table.snapshot.schema)
    assert (bucket.field.name, bucket.time.name, bucket.granularity) == ("_event_hour", "ts", "hour")
    rows = table.to_pyarrow_table()
    times = [f"{time:%Y%m%d%H}" for time in rows["ts"].to_pylist()]
    assert rows["_event_hour"].to_pylist() == times
    assert (min(times), max(times)) == (sample.first_hour, sample.last_hour) == ("2026021016", "2026021023")


def test_an_index_is_built_verified_and_used(sample: SampleReport) -> None:
    store = open_store(sample.table)
    built = build_index(store)
    assert (built.engine, built.files) == ("process", sample.files)
    checked = verify_index(store)
    assert (checked.ok, checked.notes) == (True, ())
    with DeltaTable(sample.table).scan_files(predicate=LAST_HOUR) as scan:
        assert scan.read_all().num_rows == 3
    assert scan.metrics.tier == "index"


def test_the_same_shape_gives_the_same_bytes(tmp_path: Path) -> None:
    one, again, other = (tmp_path / name for name in ("one", "again", "other"))
    for root, seed in ((one, 0), (again, 0), (other, 1)):
        write_sample(root, SampleShape(2, 1, 3, seed))
    assert dict(contents(one)) == dict(contents(again))
    assert (
        dict(contents(one))
        .keys()
        .isdisjoint({name for name, _ in contents(other) if name.endswith("c000.snappy.parquet")})
    )


@pytest.mark.parametrize("shape", [SampleShape(1, 1, 1), SampleShape(2, 2, 1)])
def test_the_smallest_samples(shape: SampleShape, tmp_path: Path) -> None:
    made = write_sample(tmp_path, shape)
    assert DeltaTable(tmp_path).to_pyarrow_table().num_rows == made.rows == shape.hours * shape.rows_per_hour


def test_times_are_those_of_commits(sample: SampleReport) -> None:
    table = DeltaTable(sample.table)
    table.load_as_version("2026-02-10T22:30:00Z")
    assert table.history()[0]["operation"] == "WRITE"
    assert table.version() == sample.version - 3


def test_a_directory_in_use_is_refused(sample: SampleReport, tmp_path: Path) -> None:
    before = dict(contents(Path(sample.table)))
    with pytest.raises(InputError, match="is not empty"):
        write_sample(sample.table)
    assert dict(contents(Path(sample.table))) == before
    (tmp_path / "file").write_text("hello")
    for place in ("file", "file/below"):
        with pytest.raises(InputError, match="not a directory"):
            write_sample(tmp_path / place)
    with pytest.raises(InputError, match="local disk"):
        write_sample("s3://lake/events")


@pytest.mark.parametrize(
    ("bad", "words"),
    [({"hours": 0}, "hours is 0"), ({"rows_per_file": -1}, "at least 1"), ({"hours": 10**6}, "at most")],
)
def test_shapes_that_make_no_sense_are_refused(bad: dict[str, int], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        SampleShape(**bad)
