"""What the table of bad rows holds of a record, and where an error says that it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from delta_sidecar import InputError
from delta_sidecar.pipeline.ingest_job import ingest
from tests.integration.spark.oracle import SparkTable

TIME = '"ts": "2026-02-10T22:00:00Z"'


def aside(table: SparkTable, place: Path) -> list[tuple[str | None, bytes | None]]:
    rows: list[Any] = table.spark.read.format("delta").load(str(place)).orderBy("raw", "raw_bytes").collect()
    return [(row.raw, None if row.raw_bytes is None else bytes(row.raw_bytes)) for row in rows]


@pytest.mark.parametrize("multi_line", ["false", "true"])
def test_a_bad_record_of_a_list_is_put_aside_alone(table: SparkTable, tmp_path: Path, multi_line: str) -> None:
    bad = ['{"ts": "gone" , "id": 2}', '{"ts":"lost","id":3}']
    source, options = tmp_path / "in.json", {"multiLine": multi_line}
    lists = f'[{{{TIME}, "id": 1}}, {bad[0]},{bad[1]}]'
    source.write_text(lists if multi_line == "true" else f'{{{TIME}, "id": 0}}\n{lists}\n')
    where = r"in\.json line 2: " if multi_line == "false" else r"in\.json: "
    with pytest.raises(InputError, match=f'2 records are bad.*{where}ts is not a time: {{"ts": "gone" , "id": 2}};'):
        ingest(source, table.root, "ts", spark=table.spark, read_options=options)
    done = ingest(source, table.root, "ts", spark=table.spark, read_options=options, bad_rows=tmp_path / "bad")
    assert (done.rows, done.bad_rows) == (1 if multi_line == "true" else 2, 2)
    assert aside(table, tmp_path / "bad") == [(text, None) for text in sorted(bad)]


def test_the_line_of_a_bad_record_is_not_one_that_only_has_its_text(table: SparkTable, tmp_path: Path) -> None:
    source = tmp_path / "in.json"
    other = f'[{{{TIME}, "id": 15, "s": "{{\\"ts\\": 5}} {{\\"ts\\":5}}"}}]'
    for bad in ("5", f'[{{{TIME}, "id": 7}}, {{"ts":5}}]'):
        source.write_text(f'{{{TIME}, "id": 5}}\n{other}\n\n{bad}\n')
        with pytest.raises(InputError, match=r"1 record is bad, one of them in .*in\.json line 4: "):
            ingest(source, table.root, "ts", spark=table.spark, schema="ts TIMESTAMP, id INT, s STRING")


def test_a_bad_record_is_text_of_its_encoding_or_bytes(table: SparkTable, tmp_path: Path) -> None:
    """Either may look like UTF-8."""
    source = tmp_path / "in.json"
    source.write_bytes(f'{{{TIME}, "id": 1}}\n{{Ã©\n'.encode("latin-1"))
    with pytest.raises(InputError, match=r"in\.json line 2: .*: {Ã©;"):
        ingest(source, table.root, "ts", spark=table.spark, read_options={"encoding": "latin-1"})
    for encoding, expected in (("latin-1", ("{Ã©", None)), ("ascii", (None, "{é".encode()))):
        ingest(
            source,
            tmp_path / encoding,
            "ts",
            spark=table.spark,
            read_options={"encoding": encoding},
            bad_rows=tmp_path / "bad" / encoding,
        )
        assert aside(table, tmp_path / "bad" / encoding) == [expected]


def test_records_that_are_all_bad_give_no_schema_and_one_is_named(table: SparkTable, tmp_path: Path) -> None:
    for name, data, line, multi_line in (
        ("in.json", "{\n{\n", r" line [12]", "false"),
        ("all.json", "{\n1", "", "true"),
        ("odd.csv", "ts,é\n2026-02-10T22:00:00Z,1\n", "", "true"),
    ):
        (tmp_path / name).write_text(data, encoding="latin-1")
        options: dict[str, Any] = {"spark": table.spark, "read_options": {"multiLine": multi_line}}
        with pytest.raises(InputError, match=rf"bad, one of them in .*{name}{line}: .*; fix it"):
            ingest(tmp_path / name, table.root, "ts", **options)
        with pytest.raises(InputError, match=rf"{name} holds no record to infer .*, only (2 bad ones|1 bad one); give"):
            ingest(tmp_path / name, table.root, "ts", **options, bad_rows=tmp_path / "bad")
    assert not (tmp_path / "bad").exists()
    assert not table.root.exists()


def test_a_header_that_is_not_in_the_encoding_is_refused(table: SparkTable, tmp_path: Path) -> None:
    """In a file that is one task's, and in one that is divided among tasks."""
    for name, rows in (("small.csv", 1), ("large.csv", 200_000)):
        (tmp_path / name).write_bytes(b"ts,caf\xe9\n" + b"2026-02-10T22:00:00Z,1\n" * rows)
        with pytest.raises(InputError, match=rf"{name}: its header is not in the encoding utf-8"):
            ingest(tmp_path / name, table.root, "ts", spark=table.spark)


def test_a_table_of_other_rows_takes_no_bad_rows(table: SparkTable, tmp_path: Path) -> None:
    source = tmp_path / "in.json"
    source.write_text(f"{{{TIME}}}\n{{cut\n")
    for columns, column in (("1 AS a", "batch is missing"), ("'b' AS batch, 1 AS ingested_at", "ingested_at is int")):
        place = tmp_path / column[:5]
        table.spark.sql(f"SELECT {columns}").write.format("delta").save(str(place))
        with pytest.raises(InputError, match=rf"{place} is a table, but none of bad rows: its column {column}, not"):
            ingest(source, table.root, "ts", spark=table.spark, bad_rows=place)
    assert not table.root.exists()
