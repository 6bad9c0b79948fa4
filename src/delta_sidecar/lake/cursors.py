"""Cursors: up to which version a consumer has processed a table's changes. Each cursor is one object, in any store.

A cursor is replaced by compare-and-swap, so two consumers that move it at once cannot undo each other's move. It only
moves forward, unless it is reset, and belongs to one table: a table that was created again at the same location starts
at version 0, and a cursor of the old table would silently skip its versions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

import msgspec

from delta_sidecar.errors import (
    CursorError,
    InputError,
    ObjectChangedError,
    ObjectExistsError,
    ObjectNotFoundError,
    OtherTableError,
)
from delta_sidecar.storage.opening import open_store
from delta_sidecar.storage.uri import parse_location

STATE_DIRECTORY: Final = "_sidecar_state"
"""Beside a table's data. Delta's readers and VACUUM ignore names that begin with `_`."""
_DIRECTORY: Final = "cursors/"
_ENDING: Final = ".cursor.json"
_LONGEST: Final = 200
"""Bytes of a name as it stands in the store: file systems take 255."""
_ATTEMPTS: Final = 50
"""How often a cursor is read again because somebody else replaced it."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")

NOTHING_YET: Final = -1
"""The last version of a cursor whose first one is planned and not done."""


class CursorTarget(msgspec.Struct, frozen=True, omit_defaults=True):
    """The table that changes are applied to, where the consumer is a sync."""

    table_id: str | None = None
    txn_version: int | None = None
    """The newest version of the source that the target's log says it has."""
    holds: str | None = None
    """Which rows it has, by strategy and filter: a sync by another one would not make it what that one promises."""
    version: int | None = None
    """Its own version after the last step."""


class CdfCursor(msgspec.Struct, frozen=True, kw_only=True):
    """How far a consumer has come with the changes of a table.

    Example:
        >>> from delta_sidecar.lake import CdfCursor
        >>> CdfCursor(dataset_name="events", last_version=3).next_version
        4
    """

    dataset_name: str
    last_version: int
    """The newest version that is processed; -1 if none is."""
    last_timestamp: str | None = None
    """When the cursor moved there: ISO 8601, in UTC."""
    table_id: str | None = None
    """The id of the table, from its metadata."""
    last_commit: str | None = None
    """A digest of what the commit of the last version says of itself: a copy of the table that went another way since
    has the same id, and another commit there."""
    planned_version: int | None = None
    """The version at which a step that has begun will end. Whoever repeats it ends it there, too."""
    target: CursorTarget | None = None
    other: Mapping[str, msgspec.Raw] = {}
    """Fields of newer versions, which are kept as they are."""

    @property
    def next_version(self) -> int:
        """The first version that is not processed yet."""
        return self.last_version + 1

    def check_table(self, table_id: str | None, where: str) -> None:
        """`OtherTableError` if the cursor belongs to another table."""
        if None not in (self.table_id, table_id) and self.table_id != table_id:
            raise OtherTableError(
                f"cursor {self.dataset_name!r} belongs to table {self.table_id}, but {where} is now table {table_id}; "
                "start over with all its rows (reset the cursor; for a sync, use full)"
            )

    def check_commit(self, digest: str | None, where: str) -> None:
        """`OtherTableError` if the last version is now another commit. A digest of None means that the commit is
        gone."""
        if None not in (self.last_commit, digest) and self.last_commit != digest:
            raise OtherTableError(
                f"cursor {self.dataset_name!r} is at version {self.last_version} of {where}, which is now another "
                "commit: an older copy was restored and written to; start over with all its rows (reset the "
                "cursor; for a sync, use full)"
            )


class _Stored(msgspec.Struct, frozen=True):
    """The fields that are known, as they stand in the object."""

    dataset_name: str
    last_version: int
    last_timestamp: str | None = None
    table_id: str | None = None
    last_commit: str | None = None
    planned_version: int | None = None
    target: CursorTarget | None = None


_KNOWN: Final = frozenset(_Stored.__struct_fields__)
_STORED: Final = msgspec.json.Decoder(_Stored)
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def encode_cursor(cursor: CdfCursor) -> bytes:
    """The object of a cursor."""
    known = {name: getattr(cursor, name) for name in _Stored.__struct_fields__}
    written = {name: value for name, value in known.items() if value is not None}
    return msgspec.json.format(msgspec.json.encode({**cursor.other, **written}), indent=2) + b"\n"


def decode_cursor(data: bytes) -> CdfCursor:
    """A cursor from its object.

    Raises:
        msgspec.DecodeError: It is not one.
    """
    stored = _STORED.decode(data)
    if stored.last_version < NOTHING_YET:
        raise msgspec.ValidationError(f"last_version is {stored.last_version}")
    fields = _FIELDS.decode(data)
    other = {name: msgspec.Raw(bytes(value)) for name, value in fields.items() if name not in _KNOWN}
    return CdfCursor(**msgspec.structs.asdict(stored), other=other)


class CdfCursorStore:
    """The cursors below a location: a directory, or a URI such as `s3://bucket/state`.

    Args:
        place: Where the state is; the cursors are in `cursors/` below it.
        storage_options: Credentials and settings of the object store, as for `DeltaTable`.

    Example:
        >>> from delta_sidecar.lake import CdfCursorStore
        >>> cursors = CdfCursorStore("state")
        >>> cursors.advance("events", 3).last_version
        3
        >>> cursors.start_version("events")
        4
    """

    def __init__(self, place: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> None:
        self._store = open_store(place, storage_options)

    def __repr__(self) -> str:
        return f"CdfCursorStore({self.place!r})"

    @property
    def place(self) -> str:
        """Where the state is."""
        return self._store.root_uri

    def load(self, name: str) -> CdfCursor | None:
        """The cursor of that name; None if there is none.

        Raises:
            CursorError: The object is damaged, or belongs to a cursor of another name.
        """
        return self._load(name)[0]

    def start_version(self, name: str) -> int | None:
        """The version after the last processed one; None if there is no cursor, or nothing is processed yet."""
        cursor = self.load(name)
        return None if cursor is None or cursor.last_version == NOTHING_YET else cursor.next_version

    def advance(
        self,
        name: str,
        version: int,
        *,
        table_id: str | None = None,
        commit: str | None = None,
        target: CursorTarget | None = None,
    ) -> CdfCursor:
        """Move a cursor forward to a version, and create it if there is none.

        If it is already at that version, nothing is written.

        Args:
            name: The cursor's name.
            version: The newest version that is processed.
            table_id: The id of the table. A cursor that already has an id accepts no other.
            commit: A digest of the commit of that version (`commit_digest`).
            target: The Delta table that the changes were applied to, if there is one.

        Returns:
            The cursor as it is now.

        Raises:
            CursorError: The cursor is at a later version.
            OtherTableError: The cursor belongs to another table.
        """
        if version < 0:
            raise InputError(f"a cursor cannot move to version {version}; give 0 or more")

        def moved(cursor: CdfCursor | None) -> CdfCursor:
            if cursor is None:
                cursor = CdfCursor(dataset_name=name, last_version=NOTHING_YET)
            cursor.check_table(table_id, "the source")
            if version < cursor.last_version:
                raise CursorError(
                    f"cursor {name!r} is at version {cursor.last_version} and does not move back to {version}; "
                    "reset it if you want the changes again"
                )
            bound = msgspec.structs.replace(
                cursor, table_id=cursor.table_id or table_id, target=target or cursor.target
            )
            if version == cursor.last_version:
                return bound
            planned = None if (bound.planned_version or 0) <= version else bound.planned_version
            return msgspec.structs.replace(
                bound, last_version=version, last_timestamp=_now(), last_commit=commit, planned_version=planned
            )

        return self._changed(name, moved)

    def plan(self, name: str, version: int, *, table_id: str | None = None, after: int = NOTHING_YET) -> int:
        """Record that a step from the version after `after` has begun, and where it ends: at `version`, or where a
        step that began earlier ends. So whoever repeats a step, or runs it at the same time, processes the same
        versions.

        Raises:
            CursorError: The cursor is no longer at `after`: another consumer has moved it.
            OtherTableError: The cursor belongs to another table.
        """

        def planned(cursor: CdfCursor | None) -> CdfCursor:
            if cursor is None:
                cursor = CdfCursor(dataset_name=name, last_version=after, table_id=table_id)
            cursor.check_table(table_id, "the source")
            if cursor.last_version != after:
                raise CursorError(
                    f"another run moved cursor {name!r} from version {after} to {cursor.last_version}; run it again"
                )
            if cursor.planned_version is not None:
                return cursor
            return msgspec.structs.replace(cursor, planned_version=version, table_id=cursor.table_id or table_id)

        done = self._changed(name, planned)
        assert done.planned_version is not None
        return done.planned_version

    def reset(self, name: str, version: int | None = None) -> None:
        """Delete a cursor, so that its consumer starts with the whole table; or set it to a version, even an earlier
        one. It stays bound to its table.

        Args:
            name: The cursor's name.
            version: The version that counts as the newest processed one.

        Raises:
            InputError: There is no such cursor, or the version is below 0.
            CursorError: The cursor belongs to a sync, and the version is later than its target's.
        """
        if version is not None and version < 0:
            raise InputError(f"a cursor cannot be set to version {version}; give 0 or more")
        path = _path(name)
        try:
            self._store.head(path)
        except ObjectNotFoundError:
            raise InputError(
                f"there is no cursor {name!r} at {self.place}; `sidecar cursors list` shows all of them"
            ) from None
        if version is None:
            self._store.delete(path)
            return
        try:
            before = self.load(name)
        except CursorError:
            before = None  # Damaged: what it said is lost anyway.
        if before is not None and before.target is not None and version > before.last_version:
            raise CursorError(
                f"cursor {name!r} belongs to a sync whose target has version {before.last_version}; at {version}, "
                "the target would miss the changes in between; sync with full instead"
            )
        wanted = CdfCursor(
            dataset_name=name,
            last_version=version,
            last_timestamp=_now(),
            table_id=None if before is None else before.table_id,
            target=None if before is None else before.target,
            other={} if before is None else before.other,
        )
        self._store.replace(path, encode_cursor(wanted), None)

    def names(self) -> Iterator[str]:
        """The names of all cursors, in order."""
        from urllib.parse import unquote

        for page in self._store.list_after(_DIRECTORY):
            for meta in page:
                name = meta.path.removeprefix(_DIRECTORY)
                if name.endswith(_ENDING) and "/" not in name and not name.startswith("."):
                    yield unquote(name.removesuffix(_ENDING))

    def _load(self, name: str) -> tuple[CdfCursor | None, str | None]:
        """The cursor, and the etag of its object. The etag is asked for first: if the object is replaced in between,
        it is too old, and nothing can be replaced by it."""
        path = _path(name)
        try:
            etag = self._store.head(path).etag
            data = bytes(self._store.get(path))
        except ObjectNotFoundError:
            return None, None
        try:
            cursor = decode_cursor(data)
        except msgspec.DecodeError as error:
            raise CursorError(
                f"the cursor at {self.place}/{path} is damaged ({error}); delete it to reset it"
            ) from None
        if cursor.dataset_name != name:
            raise CursorError(
                f"the cursor at {self.place}/{path} belongs to {cursor.dataset_name!r}, not to {name!r}: "
                "choose a name that differs in more than its case"
            )
        return cursor, etag

    def _changed(self, name: str, change: Callable[[CdfCursor | None], CdfCursor]) -> CdfCursor:
        """Replace the cursor by what `change` makes of it, however often others are faster."""
        path = _path(name)
        for _ in range(_ATTEMPTS):
            cursor, etag = self._load(name)
            wanted = change(cursor)
            if wanted == cursor:
                return wanted
            try:
                if cursor is None:
                    self._store.put_if_absent(path, encode_cursor(wanted))
                else:
                    self._store.replace(path, encode_cursor(wanted), etag)
            except (ObjectExistsError, ObjectChangedError):
                continue
            return wanted
        raise CursorError(f"other consumers keep moving cursor {name!r} at {self.place}; stop one of them")


def state_beside(table: str | os.PathLike[str]) -> str:
    """The place of the state beside a table."""
    location = parse_location(table)
    return f"{location.text.rstrip('/')}/{STATE_DIRECTORY}"


def cursor_name(table: str | os.PathLike[str]) -> str:
    """The name of a cursor that was given none: the last part of the table's location."""
    location = parse_location(table)
    return location.path.rstrip("/").rpartition("/")[2] or location.bucket or "table"


def escaped(name: str) -> str:
    """A name as a part of a path: letters, digits, `_`, `-` and inner dots as they are, other bytes as `%XX`."""
    if not name:
        raise InputError("the name of a cursor is empty; give one")
    text = name if _PLAIN.fullmatch(name) else quote(name, safe="", errors="surrogatepass")
    text = f"%2E{text[1:]}" if text.startswith(".") else text.replace("~", "%7E")
    if len(text) > _LONGEST:
        raise InputError(f"the name of a cursor takes {len(text)} bytes, at most {_LONGEST} are allowed; shorten it")
    return text


def _path(name: str) -> str:
    return f"{_DIRECTORY}{escaped(name)}{_ENDING}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
