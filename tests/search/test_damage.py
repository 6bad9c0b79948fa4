"""Files of the log that are cut short anywhere: an error, or all of the table by another way, never a part of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from delta_sidecar import DeltaSidecarError
from delta_sidecar.search import SearchTable, append, checkpoint, create_table, replace
from tests.properties.settings import examples
from tests.search.made import LOG, SCHEMA, V0, paths, splits
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
    """A line that is whole says nothing of those after it, so only a cut within one is noticed."""
    create_table(tmp_path, SCHEMA)
    append(tmp_path, splits("a.split"))
    path = tmp_path / LOG / f"{1:020d}.json"
    line = len(path.read_bytes().splitlines()[0])
    for length in cut(path):
        if 0 < length < line:
            with pytest.raises(DeltaSidecarError, match="line 1: not an action of the log"):
                paths(str(tmp_path))
