"""Queries over the pruned files: which files, which values, how they are split, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar import DeltaTable
from delta_sidecar.engines import kusto
from delta_sidecar.errors import (
    DeltaSidecarError,
    InputError,
    OptionError,
    PredicateError,
    UnknownColumnError,
    UnsupportedFeatureError,
    UnsupportedTypeError,
)
from delta_sidecar.testing.actions import AddFile as add
from delta_sidecar.testing.actions import DeletionVector, column
from delta_sidecar.testing.table_builder import LogBuilder
from tests.engines.kusto_cases import PARTITIONS, ROOT, at_azure, mapped, partitioned, texts, wide
from tests.events_table import write_events


@pytest.fixture
def events(tmp_path: Path) -> DeltaTable:
    write_events(tmp_path / "events")
    return DeltaTable(tmp_path / "events")


def uris(text: str) -> list[str]:
    return re.findall(r'h@"([^"]*)"', text)


def test_the_files_are_those_of_the_listing_in_its_order(events: DeltaTable) -> None:
    (query,) = kusto.queries(events, "id < 4", ["id"], uri_prefix=f"{ROOT}/")
    listed = [file.path for file in events.file_infos("id < 4")]
    assert uris(query.text) == [f"{ROOT}/{path}" for path in listed]
    assert query.files == len(listed) == 2


def test_partition_values_are_literals_and_their_conditions_are_decided_here(events: DeltaTable) -> None:
    (query,) = kusto.queries(events, "_event_hour >= '2026021022' AND id != 5", uri_prefix=ROOT)
    assert query.text.count("inline_external_table") == 2
    assert query.text.count("| where (isnotnull(['id']) and ['id'] != long(5))\n") == 2
    for hour in ("2026021022", "2026021023"):
        assert f"| project ['ts'], ['id'], ['value'], ['_event_hour'] = \"{hour}\"\n" in query.text
    assert query.text.endswith("\n| project ['ts'], ['id'], ['value'], ['_event_hour']")


def test_files_share_a_branch_where_their_partition_is_not_returned(events: DeltaTable) -> None:
    (query,) = kusto.queries(events, "_event_hour >= '2026021022'", ["ts"], uri_prefix=ROOT)
    assert query.text.count("inline_external_table") == 1
    assert "where" not in query.text
    assert query.files == 2


def test_a_partition_that_is_decided_differently_has_its_own_filter(events: DeltaTable) -> None:
    (query,) = kusto.queries(events, "_event_hour = '2026021022' OR id = 0", ["ts"], uri_prefix=ROOT)
    assert sorted(re.findall(r"^\| where .*", query.text, re.MULTILINE)) == ["| where ['id'] == long(0)"]
    assert query.text.count("inline_external_table") == 2


@pytest.mark.parametrize("name", PARTITIONS)
def test_partition_values_come_from_the_log_and_never_from_paths(name: str, tmp_path: Path) -> None:
    (query,) = kusto.queries(partitioned(tmp_path, name), None, [name], uri_prefix=ROOT)
    kind, values = PARTITIONS[name]
    distinct = {None if value == "" else value for value in values}
    assert query.text.count("inline_external_table") == len(distinct)
    assert "wrong" not in re.sub(r'h@"[^"]*"', "", query.text)
    assert ('= ""' if kind == "string" else "(null)" if kind != "boolean" else "bool(null)") in query.text


def test_nothing_matches(events: DeltaTable) -> None:
    (query,) = kusto.queries(events, "id > 100", ["id", "_event_hour"], uri_prefix=ROOT)
    assert query.text == "datatable (['id']:long, ['_event_hour']:string) []"
    assert query.files == 0


def test_only_partition_columns(events: DeltaTable) -> None:
    (query,) = kusto.queries(events, "_event_hour = '2026021022'", ["_event_hour"], uri_prefix=ROOT)
    assert query.text.startswith("inline_external_table (['ts']:datetime) ")
    assert query.text.endswith("| project ['_event_hour'] = \"2026021022\"")


@given(size=st.integers(500, 2_500), most=st.none() | st.integers(1, 9), branches=st.integers(1, 5))
def test_queries_are_split_and_each_is_complete(
    size: int, most: int | None, branches: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.getbasetemp() / "kusto-split"
    if not root.exists():
        files = [add(f"{n}-ü.parquet", partition={"p": f"{n // 4}"}) for n in range(20)]
        LogBuilder(root).metadata({"x": "long", "p": "string"}, ["p"]).commit(*files)
    table = DeltaTable(root)
    split = kusto.queries(table, "x > 1", uri_prefix=ROOT, max_query_bytes=size, max_uris=most, max_branches=branches)
    found = [uri for query in split for uri in uris(query.text)]
    assert sorted(found) == sorted(f"{ROOT}/{n}-%C3%BC.parquet" for n in range(20))
    for query in split:
        assert len(query.text.encode()) <= size
        assert query.files == len(uris(query.text)) <= (most or 20)
        assert 1 <= query.text.count("inline_external_table") <= branches
        assert "\n\n" not in query.text


def test_a_query_is_as_full_as_it_may_be(tmp_path: Path) -> None:
    split = kusto.queries(wide(tmp_path, 500), None, ["l"], uri_prefix=ROOT, max_query_bytes=10_000)
    assert all(len(query.text) > 9_500 for query in split[:-1])


def test_a_file_that_does_not_fit_a_query(events: DeltaTable) -> None:
    with pytest.raises(OptionError, match=r"max_query_bytes=100; allow \d+ or more") as refused:
        kusto.queries(events, uri_prefix=ROOT, max_query_bytes=100)
    least = int(re.findall(r"allow (\d+)", str(refused.value))[0])
    assert len(kusto.queries(events, uri_prefix=ROOT, max_query_bytes=least)) == 4


@pytest.mark.parametrize(
    ("uri", "options", "url"),
    [
        ("abfss://lake@acc.dfs.core.windows.net/a b", {}, "https://acc.blob.core.windows.net/lake/a%20b"),
        ("https://acc.blob.core.windows.net/lake/t", {}, "https://acc.blob.core.windows.net/lake/t"),
        ("abfss://lake@acc.dfs.core.chinacloudapi.cn/t", {}, "https://acc.blob.core.chinacloudapi.cn/lake/t"),
        ("abfss://ws@onelake.dfs.fabric.microsoft.com/x.Lakehouse/t", {},
         "https://onelake.blob.fabric.microsoft.com/ws/x.Lakehouse/t"),
        ("az://lake/t", {"account_name": "acc"}, "https://acc.blob.core.windows.net/lake/t"),
        ("az://lake/t", {"AZURE_STORAGE_ACCOUNT_NAME": "acc"}, "https://acc.blob.core.windows.net/lake/t"),
        ("az://ws/t", {"account_name": "onelake", "use_fabric_endpoint": "true"},
         "https://onelake.blob.fabric.microsoft.com/ws/t"),
    ],
)  # fmt: skip
def test_places_at_azure(uri: str, options: dict[str, str], url: str, tmp_path: Path) -> None:
    odd = "p=a%2520b%253Bc/x%3By%3Fz%23%22%27.parquet"
    LogBuilder(tmp_path).commit(add(odd), add("abfss://other@far.dfs.core.windows.net/f.parquet"))
    (query,) = kusto.queries(at_azure(tmp_path, uri, **options), access="impersonate")
    near, far = uris(query.text)
    assert near == f"{url}/p=a%2520b%253Bc/x%3By%3Fz%23%22%27.parquet;impersonate"
    assert far == "https://far.blob.core.windows.net/other/f.parquet;impersonate"


@pytest.mark.parametrize(
    ("uri", "options", "why"),
    [
        ("az://lake/t", {}, "does not name its storage account"),
        ("az://lake/t", {"account_name": "devstoreaccount1", "use_emulator": "true"}, "at a custom endpoint"),
        ("az://lake/t", {"account_name": "a", "endpoint": "http://127.0.0.1:1"}, "at a custom endpoint"),
        ("s3://lake/t", {}, "Kusto cannot reach s3://lake/t"),
    ],
)
def test_places_that_kusto_cannot_reach(
    uri: str, options: dict[str, str], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"):
        monkeypatch.delenv(name, raising=False)
    LogBuilder(tmp_path).commit()
    with pytest.raises(InputError, match=why):
        kusto.queries(at_azure(tmp_path, uri, **options))


def test_local_files_need_a_prefix(events: DeltaTable) -> None:
    with pytest.raises(InputError, match=r"Kusto cannot reach /.*uri-prefix"):
        kusto.queries(events, "id > 1000")
    with pytest.raises(InputError, match="Kusto cannot reach"):
        kusto.external_table(events, "T")


def test_a_file_outside_the_prefix_is_refused_by_name(tmp_path: Path) -> None:
    LogBuilder(tmp_path / "t").commit(add(f"file://{tmp_path}/other/x.parquet"))
    with pytest.raises(InputError, match=r"other/x\.parquet"):
        kusto.queries(DeltaTable(tmp_path / "t"), uri_prefix=ROOT)


@pytest.mark.parametrize(
    "prefix",
    ["http://a/b", "/tmp/x", "https://", "https://a/b?sv=1&sig=x", "https://a/b;impersonate", 'https://a/"', ""],
)
def test_prefixes_that_are_none(prefix: str, events: DeltaTable) -> None:
    with pytest.raises(OptionError, match="uri_prefix is the https://") as refused:
        kusto.queries(events, uri_prefix=prefix)
    assert "sig=x" not in str(refused.value)


@pytest.mark.parametrize(
    ("access", "end"),
    [("none", ".parquet"), ("impersonate", ";impersonate"), ("managed-identity", ";managed_identity=system"),
     ("managed-identity=00000000-0000-0000-0000-0000000000ab",
      ";managed_identity=00000000-0000-0000-0000-0000000000ab"), ("sas", "?<SAS>")],
)  # fmt: skip
def test_access(access: str, end: str, events: DeltaTable) -> None:
    (query,) = kusto.queries(events, "id = 7", access=access, uri_prefix=ROOT)
    assert uris(query.text)[0].endswith(end)
    assert end.removeprefix(".parquet") in kusto.external_table(events, "T", access=access, uri_prefix=ROOT)


def test_a_token_is_in_the_text_and_nowhere_else(events: DeltaTable) -> None:
    (query,) = kusto.queries(events, "id = 7", access="sas", sas_token="?sv=1&sig=geheim%3D\n", uri_prefix=ROOT)
    assert uris(query.text)[0].endswith(".parquet?sv=1&sig=geheim%3D")
    assert "geheim" not in repr(query)


@pytest.mark.parametrize(
    ("access", "token"),
    [
        ("key", None),
        ("managed-identity=x", None),
        ("", None),
        ("none", "sv=geheim"),
        ("sas", "geheim\"')"),
        ("sas", ""),
    ],
)
def test_access_that_is_wrong(access: str, token: str | None, events: DeltaTable) -> None:
    with pytest.raises(OptionError, match=r"access|SAS token") as refused:
        kusto.queries(events, access=access, sas_token=token, uri_prefix=ROOT)
    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize("limit", [{"max_query_bytes": 0}, {"max_uris": 0}, {"max_branches": -1}, {"max_uris": True}])
def test_limits_that_are_wrong(limit: dict[str, int], events: DeltaTable) -> None:
    with pytest.raises(OptionError, match=f"{next(iter(limit))} is "):
        kusto.queries(events, uri_prefix=ROOT, **limit)


def test_mapped_columns_are_renamed(tmp_path: Path) -> None:
    (query,) = kusto.queries(mapped(tmp_path), "`id.of` = 1 AND name = 'n'", ["name", "id.of", "p"], uri_prefix=ROOT)
    assert "inline_external_table (['col-2f']:string, ['col-1f']:long)" in query.text
    assert "| where ['col-1f'] == long(1) and ['col-2f'] == \"n\"\n" in query.text
    assert "| project ['name'] = ['col-2f'], ['id.of'] = ['col-1f'], ['p'] = \"x\"\n" in query.text


def test_mapping_that_kql_cannot_follow(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFeatureError, match="column inner is a struct whose fields have other names"):
        kusto.queries(mapped(tmp_path / "name"), None, ["inner"], uri_prefix=ROOT)
    with pytest.raises(UnsupportedFeatureError, match="maps its columns by id"):
        kusto.queries(mapped(tmp_path / "id", "id"), None, ["name"], uri_prefix=ROOT)


def test_deletion_vectors_are_refused_by_file(tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path).protocol(3, 7, ["deletionVectors"]).metadata({"x": "long", "p": "string"}, ["p"])
    builder.commit(add("a.parquet", partition={"p": "a"}), add("b.parquet", partition={"p": "b"}, dv=DeletionVector()))
    table = DeltaTable(tmp_path)
    with pytest.raises(UnsupportedFeatureError, match=r"file 'b\.parquet' has a deletion vector"):
        kusto.queries(table, uri_prefix=ROOT)
    assert len(kusto.queries(table, "p = 'a'", uri_prefix=ROOT)) == 1


def test_columns_that_kusto_cannot_read_are_refused_by_name(tmp_path: Path) -> None:
    widened = column("w", "long", metadata={"delta.typeChanges": [{"fromType": "integer", "toType": "long"}]})
    columns = [
        column("x"),
        column("raw", "binary"),
        widened,
        column("a.b"),
        column("a;b"),
        column("__i"),
        column("v", "variant"),
    ]
    LogBuilder(tmp_path).protocol(3, 7, ["typeWidening", "variantType"]).metadata(columns).commit(add("a.parquet"))
    table = DeltaTable(tmp_path)
    refusals: dict[str, tuple[type[DeltaSidecarError], str]] = {
        "raw": (UnsupportedTypeError, "column raw is binary"),
        "v": (UnsupportedTypeError, "column v is variant"),
        "w": (UnsupportedTypeError, "column w was widened"),
        "a.b": (InputError, "'a.b' has a dot"),
        "a;b": (InputError, "named 'a;b'"),
        "__i": (InputError, "named '__i'"),
    }
    for name, (error, words) in refusals.items():
        with pytest.raises(error, match=re.escape(words)):
            kusto.queries(table, None, [name], uri_prefix=ROOT)
        with pytest.raises(DeltaSidecarError, match=re.escape(words)):
            kusto.queries(table, f"`{name}` IS NULL", ["x"], uri_prefix=ROOT)
    with pytest.raises(UnsupportedTypeError, match="column raw is binary"):
        kusto.queries(table, uri_prefix=ROOT)
    assert kusto.queries(table, "x = 1", ["x"], uri_prefix=ROOT)


def test_a_binary_partition_column(tmp_path: Path) -> None:
    LogBuilder(tmp_path).metadata({"x": "long", "p": "binary"}, ["p"]).commit(add("a.parquet", partition={"p": "a"}))
    table = DeltaTable(tmp_path)
    assert kusto.queries(table, "p = X'61'", ["x"], uri_prefix=ROOT)[0].files == 1
    with pytest.raises(UnsupportedTypeError, match="column p is binary"):
        kusto.queries(table, None, ["p"], uri_prefix=ROOT)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [({"columns": ["nope"]}, UnknownColumnError), ({"columns": ["id", "ID"]}, InputError),
     ({"columns": []}, InputError), ({"predicate": "id >"}, PredicateError)],
)  # fmt: skip
def test_calls_that_are_wrong(arguments: dict[str, object], error: type[Exception], events: DeltaTable) -> None:
    with pytest.raises(error):
        kusto.queries(events, uri_prefix=ROOT, **arguments)  # type: ignore[arg-type]


def test_notes_say_what_kusto_cannot(tmp_path: Path) -> None:
    (query,) = kusto.queries(wide(tmp_path), None, ["l", "s", "ntz"], uri_prefix=ROOT)
    strings, clocks = query.notes
    assert "a null of s is an empty string" in strings
    assert "clock times of ntz" in clocks


def test_the_command_of_an_external_table(tmp_path: Path) -> None:
    table = partitioned(tmp_path, "l")
    assert kusto.external_table(table, "my events", access="impersonate", uri_prefix=ROOT) == (
        ".create-or-alter external table ['my events'] (['x']:long, ['text']:string) kind=delta\n"
        f'(\nh@"{ROOT};impersonate"\n)'
    )
    with pytest.raises(InputError, match="not a partition column"):
        kusto.external_table(table, "T", ["l"], uri_prefix=ROOT)
    with pytest.raises(InputError, match="named"):
        kusto.external_table(table, "a;b", uri_prefix=ROOT)


def test_every_shape_is_one_text_without_empty_lines(tmp_path: Path) -> None:
    made = texts(tmp_path)
    assert len(made) > 25
    assert all("\n\n" not in text and text == text.strip() for text in made)
