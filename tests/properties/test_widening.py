"""Columns that get a wider type between builds of an index: it lists the files that the log lists, and verifies."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from delta_sidecar import DeltaTable
from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.index.verify.verify import verify_index
from delta_sidecar.storage import open_store
from delta_sidecar.testing.actions import AddFile, RemoveFile, column
from delta_sidecar.testing.table_builder import LogBuilder
from tests.index.models import small_parts
from tests.properties.settings import random_cases, shards

MEMORY = Path("/dev/shm")
tried: Counter[str] = Counter()

NUMBERS = ["1", "-3", "0", "007", "127", "128", "300", "70000", "2147483648", "99999999999"]
FLOATS = ["0.1", "0.2", "0.3", "-1.5", "0.10000000149011612", "0.100", "16777217", "3e38", "1e39", "1e-46", "7"]
DECIMALS = ["1.25", "-0.01", "1.257", "999.99", "1000", "1e3", "12345.6789", "5"]
DATES = ["2024-01-01", "1969-12-31", "0001-01-01", "2024-01-01 00:00:00", "9999-12-31", "+12024-01-01"]
PAIRS = [
    *(("byte", wide, NUMBERS) for wide in ("short", "integer", "long", "double", "decimal(5,2)")),
    *(("short", wide, NUMBERS) for wide in ("integer", "long", "double", "decimal(10,0)")),
    *(("integer", wide, NUMBERS) for wide in ("long", "double", "decimal(12,2)")),
    *(("long", wide, NUMBERS) for wide in ("decimal(20,0)", "decimal(22,2)")),
    *[("float", "double", FLOATS)] * 6,
    *(("decimal(5,2)", wide, DECIMALS) for wide in ("decimal(7,2)", "decimal(7,4)", "decimal(20,2)")),
    ("decimal(5,0)", "decimal(20,0)", DECIMALS),
    *[("date", "timestamp_ntz", DATES)] * 2,
]
FEATURES = ["typeWidening", "timestampNtz"]


@pytest.fixture(scope="module", autouse=True)
def report() -> Iterator[None]:
    """Say how much was tried: a suite that tries nothing must not look like one that finds nothing."""
    yield
    print("\nwidening properties:", ", ".join(f"{count} {what}" for what, count in sorted(tried.items())))


@dataclass(frozen=True)
class Case:
    """A column before and after, and its files in the commits before and after, which also remove some."""

    old: str
    new: str
    is_partition: bool
    before: Sequence[str | None]
    after: Sequence[Sequence[str | None]]
    removed: Sequence[Sequence[int]]
    sort_column: str | None
    limits: tuple[int, int, int, int]
    row_group_rows: int
    part_rows: int


@st.composite
def cases(draw: st.DrawFn) -> Case:
    old, new, texts = draw(st.sampled_from(PAIRS))
    values = st.one_of(st.none(), *[st.sampled_from(texts)] * 5)
    steps = draw(st.integers(1, 2))
    return Case(
        old,
        new,
        draw(st.booleans()),
        draw(st.lists(values, min_size=1, max_size=8)),
        draw(st.lists(st.lists(values, max_size=3), min_size=steps, max_size=steps)),
        draw(st.lists(st.lists(st.integers(0, 7), max_size=2), min_size=steps, max_size=steps)),
        draw(st.sampled_from(["c", "k", "modification_time", None])),
        draw(st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(0, 3), st.integers(1, 5))),
        draw(st.sampled_from([1, 2, 10_000])),
        draw(st.integers(1, 3)),
    )


@pytest.mark.parametrize("shard", shards(60))
@random_cases(60)
@given(case=cases())
def test_an_index_follows_a_column_to_a_wider_type(shard: int, case: Case) -> None:
    root = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    try:
        log = LogBuilder(root)
        log.protocol(3, 7, features=FEATURES)
        _declare(log, case, case.old)
        log.commit(*(_file(f"a{n}", text, case) for n, text in enumerate(case.before)))
        _check(root, case, case.old)
        _declare(log, case, case.new)
        log.commit()
        _compare(root, case)
        live = {f"a{n}": text for n, text in enumerate(case.before)}
        for step, (texts, removed) in enumerate(zip(case.after, case.removed, strict=True)):
            gone = sorted({f"a{n}" for n in removed} & live.keys())
            added = {f"b{step}{n}": text for n, text in enumerate(texts)}
            log.commit(
                *(_file(name, text, case) for name, text in added.items()),
                *(RemoveFile(name, partition=_partition(live.pop(name), case)) for name in gone),
            )
            _check(root, case, case.new)
            live |= added
    finally:
        shutil.rmtree(root)


def _declare(log: LogBuilder, case: Case, kind: str) -> None:
    changed = {"delta.typeChanges": [{"fromType": case.old, "toType": case.new}]} if kind == case.new else {}
    log.metadata([column("k"), column("c", kind, metadata=changed)], ["c"] if case.is_partition else [])


def _file(name: str, text: str | None, case: Case) -> AddFile:
    key = f'"k":{sum(name.encode()) % 3}'
    bound = "" if case.is_partition or text is None else f',"c":{_json(text, case)}'
    nulls = "" if case.is_partition else f',"c":{int(text is None)}'
    stats = f'{{"numRecords":1,"minValues":{{{key}{bound}}},"maxValues":{{{key}{bound}}},"nullCount":{{"k":0{nulls}}}}}'
    return AddFile(name, partition=_partition(text, case), stats=stats)


def _partition(text: str | None, case: Case) -> dict[str, str | None]:
    return {"c": text} if case.is_partition else {}


def _json(text: str, case: Case) -> str:
    """A number as JSON has it; everything else as a string."""
    return f'"{text}"' if case.old == "date" else text.lstrip("0") or "0" if text.isdigit() else text


def _check(root: Path, case: Case, kind: str) -> None:
    done = build_index(
        open_store(str(root)),
        None,
        BuildOptions(
            case.sort_column,
            part_rows=case.part_rows,
            limits=small_parts(*case.limits, row_group_rows=case.row_group_rows),
        ),
    )
    note(f"{done}")
    tried[done.mode] += 1
    found = verify_index(open_store(str(root)))
    assert found.ok, found
    _compare(root, case, kind)


def _compare(root: Path, case: Case, kind: str | None = None) -> None:
    """The listings of some predicates, through the index and from the log alone."""
    indexed, plain = DeltaTable(str(root)), DeltaTable(str(root), options={"delta.sidecar.enabled": False})
    for predicate in _predicates(case, kind or case.new):
        through, said = ([f.path for f in table.file_infos(predicate)] for table in (indexed, plain))
        more = set(through) - set(said)
        assert len(set(through)) == len(through)
        assert set(said) <= set(through), predicate
        # Bounds that the old type did not hold are unknown in old parts, and null counts of a time column not read.
        may_keep = not case.is_partition and predicate and all(path.startswith("a") for path in more)
        assert not more or may_keep or "null" in str(predicate), predicate
        tried["listings"] += 1
        tried["listings with files left out"] += len(said) < len(case.before)


def _predicates(case: Case, kind: str) -> Iterator[str | None]:
    yield from (None, "c is null", "c is not null")
    texts = dict.fromkeys(text for text in (*case.before, *(t for more in case.after for t in more)) if text)
    literals = [literal for literal in map(_literal, texts) if _fits(literal, kind)][:3]
    for literal in literals:
        yield from (f"c {op} {literal}" for op in ("=", "<", ">"))
    if literals:
        yield f"c in ({', '.join(literals)})"


def _literal(text: str) -> str:
    return f"'{text.lstrip('+')}'" if text.count("-") >= 2 else text.lstrip("0") or "0" if text.isdigit() else text


def _fits(literal: str, kind: str) -> bool:
    """Whether a predicate may compare a column of this type with it."""
    if literal.startswith("'"):
        return len(literal) == 12
    return kind in ("float", "double") or abs(float(literal)) < 100
