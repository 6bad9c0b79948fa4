"""Cursors: forward only, by compare-and-swap, for one table each, under any name."""

from __future__ import annotations

import json
import threading
import uuid
from pathlib import Path

import pytest

from delta_sidecar import CursorError, InputError, ObjectChangedError, OtherTableError
from delta_sidecar.lake import CdfCursor, CdfCursorStore
from delta_sidecar.lake.cursors import CursorTarget, cursor_name, decode_cursor, encode_cursor, escaped, state_beside
from delta_sidecar.storage import open_store

NAMES = ["events", "a/b", "..", ".hidden", "ä ö", "100%", "a%2Fb", "x" * 150, "A:b?c*", "~", "line\nbreak"]


@pytest.fixture(params=["local", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "state") if request.param == "local" else f"memory://{uuid.uuid4().hex}/state"


@pytest.fixture
def cursors(place: str) -> CdfCursorStore:
    return CdfCursorStore(place)


def test_a_cursor_goes_forward_only(cursors: CdfCursorStore) -> None:
    assert cursors.load("events") is None
    assert cursors.start_version("events") is None
    assert cursors.advance("events", 3).last_version == 3
    assert cursors.start_version("events") == 4
    assert cursors.advance("events", 3) == cursors.load("events")
    with pytest.raises(CursorError, match=r"is at version 3 and does not move back to 2; reset"):
        cursors.advance("events", 2)
    with pytest.raises(InputError, match="-1"):
        cursors.advance("events", -1)
    cursors.reset("events", 1)
    assert cursors.start_version("events") == 2
    cursors.reset("events")
    assert cursors.load("events") is None
    with pytest.raises(InputError, match="no cursor 'events'"):
        cursors.reset("events")
    with pytest.raises(InputError, match="-2"):
        cursors.reset("events", -2)


def test_a_cursor_belongs_to_one_table(cursors: CdfCursorStore) -> None:
    cursors.advance("events", 1)
    assert cursors.advance("events", 2, table_id="first").table_id == "first"
    for move in (cursors.advance, cursors.plan):
        with pytest.raises(OtherTableError, match="belongs to table first, but the source is now table second"):
            move("events", 3, table_id="second")
    assert cursors.advance("events", 3).table_id == "first"
    cursors.reset("events", 0)
    with pytest.raises(OtherTableError, match="belongs to table first"):
        cursors.advance("events", 1, table_id="second")
    cursors.reset("events")
    assert cursors.advance("events", 1, table_id="second").table_id == "second"


def test_the_cursor_of_a_sync_is_not_set_beyond_its_target(cursors: CdfCursorStore) -> None:
    cursors.advance("events", 3, target=CursorTarget("copy", 3))
    with pytest.raises(CursorError, match="would miss the changes in between"):
        cursors.reset("events", 4)
    cursors.reset("events", 1)
    assert cursors.start_version("events") == 2


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_one_object(cursors: CdfCursorStore, name: str) -> None:
    cursors.advance("other", 1)
    cursors.advance(name, 7)
    assert cursors.start_version(name) == 8
    assert sorted(cursors.names()) == sorted(["other", name])


def test_names_that_cannot_be_objects_are_refused(cursors: CdfCursorStore) -> None:
    for name in ("", "ä" * 50):
        with pytest.raises(InputError, match="name of a cursor"):
            cursors.load(name)
    assert len({escaped(name) for name in NAMES}) == len(NAMES)
    assert not any(set(escaped(name)) & set('/\\:*?"<>|\n ') for name in NAMES)


def test_unknown_fields_are_kept(place: str, cursors: CdfCursorStore) -> None:
    """Of this version and of newer ones, numbers of any size included."""
    text = '{"dataset_name": "events", "last_version": 1, "big": 123456789012345678901234567890, "f": {"a": [1.50]}}'
    open_store(place).put_if_absent("cursors/events.cursor.json", text.encode())
    cursors.plan("events", 3, after=1)
    cursors.advance("events", 2, target=CursorTarget("id", 2))
    stored = bytes(open_store(place).get("cursors/events.cursor.json")).decode()
    assert '"big": 123456789012345678901234567890' in stored
    assert "1.50" in stored
    assert json.loads(stored) | {"last_timestamp": None} == {
        "dataset_name": "events", "last_version": 2, "planned_version": 3, "big": 123456789012345678901234567890,
        "f": {"a": [1.5]}, "target": {"table_id": "id", "txn_version": 2}, "last_timestamp": None,
    }  # fmt: skip
    cursor = cursors.load("events")
    assert cursor is not None
    assert decode_cursor(encode_cursor(cursor)) == cursor


def test_what_is_not_a_cursor_is_refused(place: str, cursors: CdfCursorStore) -> None:
    for text in ("", "{", '{"dataset_name": "events"}', '{"dataset_name": "events", "last_version": -2}'):
        open_store(place).replace("cursors/events.cursor.json", text.encode(), None)
        with pytest.raises(CursorError, match="damaged"):
            cursors.advance("events", 1)
    open_store(place).replace("cursors/events.cursor.json", b'{"dataset_name": "EVENTS", "last_version": 1}', None)
    with pytest.raises(CursorError, match="'EVENTS', not to 'events'"):
        cursors.load("events")
    cursors.reset("events")


def test_a_step_that_has_begun_ends_where_it_was_to_end(cursors: CdfCursorStore) -> None:
    assert cursors.plan("events", 5, table_id="t") == 5
    assert cursors.plan("events", 9, table_id="t") == 5
    assert cursors.start_version("events") is None
    assert cursors.advance("events", 5).planned_version is None
    with pytest.raises(CursorError, match="from version -1 to 5"):
        cursors.plan("events", 9)
    assert cursors.plan("events", 9, after=5) == 9
    assert cursors.advance("events", 7).planned_version == 9


def test_of_many_who_move_it_none_undoes_anothers_move(cursors: CdfCursorStore) -> None:
    """Each version is reached once, by one of the threads; those that come late are told."""
    late = []
    barrier = threading.Barrier(4)

    def move(mine: list[int]) -> None:
        barrier.wait()
        for version in mine:
            try:
                assert cursors.advance("events", version).last_version >= version
            except CursorError:
                late.append(version)

    threads = [threading.Thread(target=move, args=(list(range(n, 60, 4)),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cursors.start_version("events") == 60
    assert 59 not in late


def test_one_of_two_plans_counts(cursors: CdfCursorStore) -> None:
    barrier = threading.Barrier(8)
    ends = []

    def plan(end: int) -> None:
        barrier.wait()
        ends.append(cursors.plan("events", end))

    threads = [threading.Thread(target=plan, args=(end,)) for end in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ends) == 8
    assert len(set(ends)) == 1


def test_a_cursor_that_others_always_move_is_given_up(cursors: CdfCursorStore, monkeypatch: pytest.MonkeyPatch) -> None:
    cursors.advance("events", 1)

    def changed(*given: object) -> None:
        raise ObjectChangedError("changed")

    monkeypatch.setattr(cursors._store, "replace", changed)
    with pytest.raises(CursorError, match="other consumers keep moving cursor"):
        cursors.advance("events", 2)


def test_places_and_names_of_tables(tmp_path: Path) -> None:
    assert state_beside(tmp_path / "events") == f"{tmp_path}/events/_sidecar_state"
    assert state_beside("s3://lake/a/events/") == "s3://lake/a/events/_sidecar_state"
    assert [cursor_name(uri) for uri in ("s3://lake/a/events/", tmp_path / "x y", "s3://lake")] == [
        "events", "x y", "lake",
    ]  # fmt: skip


def test_a_cursor_cannot_be_changed() -> None:
    cursor = CdfCursor(dataset_name="events", last_version=1)
    with pytest.raises(AttributeError):
        cursor.last_version = 2  # type: ignore[misc]
