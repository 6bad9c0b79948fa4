"""Files of the log that are cut short anywhere: an error, or all of the table by another way, never a part of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from delta_sidecar import CorruptLogError, DeltaSidecarError
from delta_sidecar.search import SearchTable, append, checkpoint, create_table, doctor, purge, replace
from tests.properties.settings import examples
from tests.search.made import FAR, LOG, SCHEMA, V0, HandMade, added, paths, splits, version_path
from tests.search.states import TheirTable, entry, state_path

CUTS = examples(40)


def cut(path: Path) -> Iterator[int]:
    """The file at several lengths, and whole again."""
    data = path.read_bytes()
    for length in sorted({round(number * (len(data) - 1) / CUTS) for number in range(CUTS + 1)}):
        path.write_bytes(data[:length])
        yield length
    path.write_bytes(data)


def outcomes(uri: Path, path: Path) -> set[frozenset[str] | None]:
    """What a table is with the file cut short; None for an error of ours."""
    found: set[frozenset[str] | None] = set()
    for _ in cut(path):
        try:
            found.add(frozenset(paths(str(uri))))
        except DeltaSidecarError:
            found.add(None)
    return found


@pytest.mark.parametrize("features", [(), ("parquetCheckpoint",)])
@pytest.mark.parametrize("cleaned", [False, True])
def test_checkpoints(tmp_path: Path, features: tuple[str, ...], cleaned: bool) -> None:
    create_table(tmp_path, SCHEMA, features=features)
    append(tmp_path, splits("a.split", "b.split", "c.split"))
    replace(tmp_path, ["a.split"], splits("d.split"))
    checkpoint(tmp_path, large=1)
    append(tmp_path, splits("e.split"))
    if cleaned:
        (tmp_path / LOG / f"{1:020d}.json").unlink()
    whole = frozenset(paths(str(tmp_path)))
    (path,) = (tmp_path / LOG).glob("*.checkpoint.*")
    assert outcomes(tmp_path, path) == ({None} if cleaned else {whole})
    assert paths(str(tmp_path)) == whole


@pytest.mark.parametrize("damaged", ["manifests/m2.avro", f"{state_path(2)[len(LOG) + 1 :]}/_manifest.avro", V0[17:]])
def test_states(tmp_path: Path, damaged: str) -> None:
    made = TheirTable(tmp_path)
    made.manifest("manifests/m1.avro", *(entry(f"{number}.split") for number in range(50)))
    made.manifest("manifests/m2.avro", *(entry(f"x{number}.split") for number in range(50)))
    made.state(1, {"manifests/m1.avro": 50}).state(2, {"manifests/m1.avro": 50, "manifests/m2.avro": 50})
    older, whole = frozenset(paths(made.uri, 1)), frozenset(paths(made.uri))
    found = outcomes(tmp_path, tmp_path / LOG / damaged)
    # A state without a byte is one that was never written: then the table is at the state before.
    assert found <= ({None, older} if "state" in damaged else {None})
    assert paths(made.uri) == whole
    assert SearchTable(made.uri).version == 2


def test_version_files(tmp_path: Path) -> None:
    """The first line says what follows it, so that a cut is noticed wherever it is."""
    create_table(tmp_path, SCHEMA)
    append(tmp_path, splits("a.split", "b.split"))
    append(tmp_path, splits("c.split"))
    path = tmp_path / LOG / f"{1:020d}.json"
    lines = path.read_bytes().splitlines(keepends=True)
    assert outcomes(tmp_path, path) == {None}
    for length in range(len(lines)):
        path.write_bytes(b"".join(lines[:length]))
        with pytest.raises(CorruptLogError, match="is empty" if not length else f"holds {length - 1} of 2 actions"):
            paths(str(tmp_path))
    path.write_bytes(b"".join(lines).replace(b"b.split", b"d.split"))
    with pytest.raises(CorruptLogError, match="not those that were written"):
        paths(str(tmp_path))


def test_nothing_is_deleted_by_a_log_that_lost_lines(tmp_path: Path) -> None:
    create_table(tmp_path, SCHEMA)
    append(tmp_path, splits("a.split"))
    append(tmp_path, splits("b.split"))
    (tmp_path / "a.split").write_bytes(b"x" * 10)
    (tmp_path / LOG / f"{1:020d}.json").write_bytes(b"")
    found = doctor(tmp_path)
    (problem,) = found.problems
    assert problem.startswith(f"version 1 cannot be read: {LOG}/{1:020d}.json is empty: ")
    with pytest.raises(CorruptLogError, match="is empty"):
        purge(tmp_path, now_ms=FAR)
    assert (tmp_path / "a.split").exists()


def test_files_of_other_writers_say_nothing_of_their_lines(tmp_path: Path) -> None:
    made = HandMade(tmp_path).put(1, added("a.split"), added("b.split"))
    assert paths(made.uri) == {"a.split", "b.split"}
    made.put(1, added("a.split"))
    assert paths(made.uri) == {"a.split"}
    made.file(version_path(1), b"")
    with pytest.raises(CorruptLogError, match="is empty"):
        paths(made.uri)


def test_a_gap_is_a_finding(tmp_path: Path) -> None:
    create_table(tmp_path, SCHEMA)
    for name in "abcd":
        append(tmp_path, splits(f"{name}.split"))
    (tmp_path / version_path(2)).unlink()
    assert doctor(tmp_path).problems == ("version 2 is missing from the log; restore what is gone",)
