"""The column that says which file a row is from: on every kind of table, with conditions on it, at what cost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from delta_sidecar import DeltaTable, InputError, UnknownColumnError
from tests.engines.tables import TABLES
from tests.events_table import write_events

FILE = "__source_file"


@pytest.fixture
def events(tmp_path: Path) -> DeltaTable:
    write_events(tmp_path)
    return DeltaTable(str(tmp_path))


def files_of_rows(table: DeltaTable) -> Counter[tuple[int, str]]:
    """Each row's key and file, read file by file."""
    fragments = table.to_pyarrow_dataset().get_fragments()
    return Counter((key, f.path) for f in fragments for key in f.to_table(columns=["id"])["id"].to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_every_row_has_its_own_file(name: str, tmp_path: Path) -> None:
    TABLES[name](tmp_path)
    table = DeltaTable(str(tmp_path))
    rows = table.to_batches(["id", FILE], file_column=FILE).read_all()
    assert Counter(zip(rows["id"].to_pylist(), rows[FILE].to_pylist())) == files_of_rows(table)
    assert set(rows[FILE].to_pylist()) <= set(table.file_uris())
    assert all(Path(file).exists() for file in set(rows[FILE].to_pylist()))


def test_it_comes_last_and_as_a_dictionary(events: DeltaTable) -> None:
    stream = events.to_batches(file_column=FILE)
    assert stream.schema.names == ["ts", "id", "value", "_event_hour", FILE]
    assert stream.schema.field(FILE) == pa.field(FILE, pa.dictionary(pa.int32(), pa.string()), nullable=False)
    for batch in stream:
        assert batch.schema == stream.schema
        assert len(batch.column(FILE).dictionary) == 1
    assert FILE not in events.to_batches().schema.names
    assert events.to_batches(["id"], file_column=FILE).schema.names == ["id"]


def test_only_the_column_reads_no_file(events: DeltaTable) -> None:
    """The log has the number of rows."""
    with events.to_batches([FILE], file_column=FILE) as stream:
        assert Counter(file for batch in stream for file in batch.column(0).to_pylist()) == dict.fromkeys(
            events.file_uris(), 2
        )
    assert stream.metrics.files_read == 0


def conditions(file: str) -> dict[str, tuple[Any, list[int], int]]:
    """Predicates, the keys that they leave, and the files that are opened for it."""
    column, key = pc.field(FILE), pc.field("id")
    return {
        "SQL": (f"{FILE} = '{file}'", [4, 5], 1),
        "SQL, another case": (f"{FILE.upper()} = '{file}' AND id > 4", [5], 1),
        "SQL, LIKE": (f"{FILE} LIKE '%2026021022/%'", [4, 5], 1),
        "SQL, unlike": (f"{FILE} <> '{file}' AND id >= 3", [3, 6, 7], 2),
        "SQL, or": (f"{FILE} = '{file}' OR id = 0", [0, 4, 5], 4),
        "SQL, or a partition": (f"{FILE} = '{file}' OR _event_hour = '2026021020'", [0, 1, 4, 5], 2),
        "SQL, null": (f"{FILE} IS NULL", [], 0),
        "tuples": ([(FILE, "in", [file, "other"])], [4, 5], 1),
        "expression": (column == file, [4, 5], 1),
        "expression, a list": (column.isin([file]) & (key > 4), [5], 1),
        "expression, or": ((column == file) | (key == 0), [0, 4, 5], 4),
    }


@pytest.mark.parametrize("name", conditions(""))
def test_conditions_on_it_leave_out_files(name: str, events: DeltaTable) -> None:
    (file,) = (uri for uri in events.file_uris() if "2026021022" in uri)
    predicate, expected, opened = conditions(file)[name]
    stream = events.to_batches(["id"], predicate, file_column=FILE)
    assert sorted(stream.read_all()["id"].to_pylist()) == expected
    assert stream.metrics.files_read == opened
    both = events.to_batches(["id", FILE], predicate, file_column=FILE)
    assert both.schema.field(FILE).type == pa.dictionary(pa.int32(), pa.string())
    rows = both.read_all()
    assert sorted(rows["id"].to_pylist()) == expected
    assert set(zip(rows["id"].to_pylist(), rows[FILE].to_pylist())) <= set(files_of_rows(events))


def test_a_limit_counts_rows_after_the_condition(events: DeltaTable) -> None:
    (file,) = (uri for uri in events.file_uris() if "2026021020" in uri)
    assert events.to_batches(["id"], f"{FILE} = '{file}'", 1, file_column=FILE).read_all()["id"].to_pylist() == [0]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("id", "the table has a column 'id'; rename it"),
        ("ID", "the table has a column 'id'; rename it"),
        ("_event_hour", "the table has a column '_event_hour'"),
        ("", "letters, digits and _"),
        ("a b", "letters, digits and _"),
        ("é", "letters, digits and _"),
    ],
)
def test_names_that_cannot_be_used_are_refused(name: str, message: str, events: DeltaTable) -> None:
    with pytest.raises(InputError, match=message):
        events.to_batches(file_column=name)


def test_without_it_there_is_no_such_column(events: DeltaTable) -> None:
    with pytest.raises(UnknownColumnError, match=FILE):
        events.to_batches([FILE])
    with pytest.raises(UnknownColumnError, match=FILE):
        events.to_batches(["id"], f"{FILE} = 'x'")
