"""Tables in DataFusion by name: one version, an identity without secrets, capabilities that are true."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from datafusion import SessionContext

from delta_sidecar import DeltaTable, InputError, OptionError, TableNotFoundError, build_index
from delta_sidecar.lake import ScanConfig, SnapshotKey, TableRegistration, register_tables
from delta_sidecar.testing.actions import column
from delta_sidecar.testing.table_builder import LogBuilder
from tests.data.test_file_column import FILE, files_of_rows
from tests.engines.tables import TABLES
from tests.events_table import write_events

LINEAGE = ScanConfig(file_column_name=FILE)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_events(tmp_path / "events")
    return tmp_path / "events"


def plan(context: SessionContext, sql: str) -> str:
    return str(context.sql(f"EXPLAIN {sql}").to_pylist()[-1]["plan"])


def rows(context: SessionContext, sql: str) -> list[dict[str, Any]]:
    return context.sql(sql).to_pylist()  # type: ignore[no-any-return]


def registered(table: str | Path | DeltaTable, name: str = "t", config: ScanConfig | None = None) -> TableRegistration:
    (made,) = register_tables(SessionContext(), {name: table}, config)
    return made


@pytest.mark.parametrize("names", [("T", "t"), ("a.b",), ('say "x"',)])
def test_names_that_datafusion_would_confuse_are_refused_before_anything_is_registered(
    root: Path, names: tuple[str, ...]
) -> None:
    context = SessionContext()
    with pytest.raises(InputError, match="DataFusion"):
        register_tables(context, {"first": str(root), **dict.fromkeys(names, str(root))})
    assert not context.catalog().schema().names()


def test_tables_are_registered_sorted_and_can_be_asked(root: Path, tmp_path: Path) -> None:
    TABLES["deletion vectors"](tmp_path / "other")
    context = SessionContext()
    made = register_tables(context, {"b": root, "a": DeltaTable(str(tmp_path / "other")), "c": str(root)})
    assert [registration.name for registration in made] == ["a", "b", "c"]
    assert [registration.key for registration in made] == [
        SnapshotKey(str(tmp_path / "other"), 0), SnapshotKey(str(root), 3), SnapshotKey(str(root), 3)
    ]  # fmt: skip
    assert rows(context, "SELECT count(*) AS n FROM a") == [{"n": 21}]
    assert rows(context, "SELECT sum(b.id) AS n FROM b JOIN c ON b.id = c.id") == [{"n": 28}]


def test_the_version_stays(root: Path) -> None:
    """Whatever is committed, and wherever the given table is moved."""
    context, table = SessionContext(), DeltaTable(str(root), 1)
    (made,) = register_tables(context, {"t": table})
    table.update_incremental()
    assert made.key.version == 1
    assert rows(context, "SELECT count(*) AS n FROM t") == [{"n": 4}]
    assert register_tables(context, {"t": table})[0].key.version == 3
    assert rows(context, "SELECT count(*) AS n FROM t") == [{"n": 8}]


def test_identity_and_hash(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first = registered(root)
    assert first == registered("events") == registered(DeltaTable(f"file://{root}"))
    others = [registered(root, "u"), registered(DeltaTable(str(root), 2)), registered(root, config=LINEAGE)]
    assert len({first.provider_identity, *(other.provider_identity for other in others)}) == 4
    assert {other.schema_hash for other in others} == {first.schema_hash}
    assert all(len(text) == 64 and int(text, 16) for text in (first.provider_identity, first.schema_hash))


def test_credentials_are_in_nothing(root: Path) -> None:
    secret = {"aws_secret_access_key": "geheim", "aws_access_key_id": "wer"}
    (made,) = register_tables(SessionContext(), {"t": str(root)}, storage_options=secret)
    assert made == registered(root)
    assert "geheim" not in repr(made)


def test_the_hash_is_of_what_rows_are(tmp_path: Path) -> None:
    schemas = {
        "plain": [column("a", "long"), column("b", "string")],
        "comment": [column("a", "long", metadata={"comment": "x"}), column("b", "string")],
        "type": [column("a", "integer"), column("b", "string")],
        "null": [column("a", "long", nullable=False), column("b", "string")],
        "order": [column("b", "string"), column("a", "long")],
    }
    for name, columns in schemas.items():
        LogBuilder(tmp_path / name).metadata(columns).commit()
    hashes = {name: registered(tmp_path / name).schema_hash for name in schemas}
    assert hashes["comment"] == hashes["plain"]
    assert len(set(hashes.values())) == 4


def test_capabilities_are_true(root: Path, tmp_path: Path) -> None:
    context = SessionContext()
    (made,) = register_tables(context, {"t": root})
    able = made.capabilities
    assert (able.predicate_pushdown, able.projection_pushdown) == (True, True)
    explained = plan(context, "SELECT id FROM t WHERE id > 3")
    assert "filter_expr=(id > 3), projection=[id]" in explained
    assert "FilterExec" not in explained
    assert able.partition_pruning
    assert "number_of_fragments=1" in plan(context, "SELECT id FROM t WHERE _event_hour = '2026021021'")
    assert able.stats_pruning
    assert "number_of_fragments=2" in plan(context, "SELECT id FROM t WHERE id > 3")
    assert not able.limit_pushdown
    assert "fetch=1" in plan(context, "SELECT id FROM t LIMIT 1")
    assert not able.file_index
    build_index(str(root))
    assert registered(root).capabilities.file_index
    LogBuilder(tmp_path / "plain").metadata({"a": "long"}).commit()
    assert not registered(tmp_path / "plain").capabilities.partition_pruning


def test_compatibility_facts(tmp_path: Path) -> None:
    TABLES["mapped by id"](tmp_path)
    facts = registered(tmp_path).compatibility
    assert (facts.min_reader_version, facts.min_writer_version) == (3, 7)
    assert facts.reader_features == ("columnMapping", "timestampNtz")
    assert set(facts.reader_features) <= set(facts.writer_features)
    assert (facts.column_mapping_mode, facts.partition_columns) == ("id", ("p",))


@pytest.mark.parametrize("name", TABLES)
def test_lineage_through_datafusion(name: str, tmp_path: Path) -> None:
    TABLES[name](tmp_path)
    table, context = DeltaTable(str(tmp_path)), SessionContext()
    register_tables(context, {"t": table}, LINEAGE)
    found = Counter((row["id"], row[FILE]) for row in rows(context, f"SELECT id, {FILE} FROM t"))
    assert found == files_of_rows(table)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("{file} = '{one}'", [4, 5]),
        ("{file} <> '{one}' AND id > 2", [3, 6, 7]),
        ("{file} IN ('{one}', 'x')", [4, 5]),
        ("{file} NOT IN ('{one}', 'x')", [0, 1, 2, 3, 6, 7]),
        ("{file} LIKE '%22/%'", [4, 5]),
        ("upper({file}) = upper('{one}')", [4, 5]),
        ("{file} >= '{one}'", [4, 5, 6, 7]),
        ("{file} IS NULL", []),
        ("{file} = '{one}' OR id = 0", [0, 4, 5]),
        ("{file} = '{one}' AND _event_hour = '2026021020'", []),
    ],
)
def test_conditions_on_the_file(root: Path, condition: str, expected: list[int]) -> None:
    context = SessionContext()
    register_tables(context, {"t": root}, LINEAGE)
    (one,) = (uri for uri in DeltaTable(str(root)).file_uris() if "2026021022" in uri)
    where = condition.format(file=FILE, one=one)
    assert [row["id"] for row in rows(context, f"SELECT id FROM t WHERE {where} ORDER BY id")] == expected
    assert rows(context, f"SELECT count(*) AS n FROM t WHERE {where}") == [{"n": len(expected)}]


def test_the_file_is_offered_where_it_is_asked_for(root: Path) -> None:
    context = SessionContext()
    register_tables(context, {"with": root}, LINEAGE)
    register_tables(context, {"without": root})
    assert context.table("with").schema().names[-1] == FILE
    assert FILE not in context.table("without").schema().names


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"enable_parquet_pushdown": True}, "cannot be set: filters and projections are always pushed down"),
        ({"wrap_partition_values": True}, "cannot be set: partition columns have their own types"),
        ({"schema_force_view_types": False}, "cannot be set: rows have the types of"),
        ({"file_column": "f"}, r"no setting 'file_column' \(did you mean file_column_name\?\)"),
        ({"file_column_name": ""}, "file_column_name is ''"),
        ({"file_column_name": "a-b"}, "file_column_name is 'a-b'"),
        ({"file_column_name": 1}, "file_column_name is 1"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ScanConfig(**settings)


def test_nothing_is_registered_if_one_table_cannot_be(root: Path, tmp_path: Path) -> None:
    context = SessionContext()
    with pytest.raises(TableNotFoundError):
        register_tables(context, {"a": root, "b": tmp_path / "nothing"})
    with pytest.raises(InputError, match="the table has a column 'id'"):
        register_tables(context, {"a": root}, ScanConfig("ID"))
    assert not context.table_exist("a")


def test_other_arguments_are_refused(root: Path) -> None:
    context = SessionContext()
    with pytest.raises(InputError, match="a table cannot be called ' '"):
        register_tables(context, {" ": root})
    with pytest.raises(InputError, match="tables is a list"):
        register_tables(context, [root])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="config is a str"):
        register_tables(context, {"a": root}, "x")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"it takes a datafusion\.SessionContext"):
        register_tables("context", {"a": root})  # type: ignore[arg-type]
