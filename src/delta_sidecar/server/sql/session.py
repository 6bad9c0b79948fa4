"""A DuckDB of its own for each statement, which sees the tables that the statement names and nothing else."""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from delta_sidecar import errors
from delta_sidecar.errors import DeltaSidecarError, InputError, NotOfferedError, QueryError, needs_extra
from delta_sidecar.server.budget import GoneError
from delta_sidecar.server.sql.names import SqlName, place_of
from delta_sidecar.server.sql.statements import tables_in

if TYPE_CHECKING:
    import duckdb

    from delta_sidecar.table import DeltaTable

_BATCH_ROWS: Final = 16_384
_THREADS: Final = 2
_LOOK_EVERY: Final = 0.25
"""Seconds between two looks whether a statement should go on."""
_ASIDE: Final = re.compile(r"\n\s*(?:LINE \d+:|At:)")
"""Where a message of DuckDB begins to quote the statement, or code of this process."""
_TAKEN: Final = frozenset(("memory", "system", "temp"))
"""Catalogs that DuckDB has by itself."""
_OURS: Final = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, DeltaSidecarError)
}


@dataclass(frozen=True, slots=True)
class SqlLimits:
    """How much one statement may take."""

    held_bytes: int
    """DuckDB's memory; nothing is written to disk."""
    seconds: float
    """Time that DuckDB works on it; what the client takes to read is not counted."""
    text_bytes: int
    """The statement itself."""


def load_duckdb() -> Any:
    """The library; `InputError` says how to install it."""
    try:
        import duckdb
    except ImportError:
        raise needs_extra("SQL", "duckdb", "engines") from None
    return duckdb


class SqlSession:
    """A statement, parsed. Give it its tables, then ask for its schema or its rows. Close it."""

    def __init__(self, text: str, limits: SqlLimits, should_end: Callable[[], bool] = lambda: False) -> None:
        """`should_end` is asked now and then while DuckDB works."""
        size = len(text.encode("utf-8", "surrogatepass"))
        if size > limits.text_bytes:
            raise QueryError(f"the statement has {size:,} bytes; {limits.text_bytes:,} are allowed")
        self._duckdb = load_duckdb()
        self._text = text
        self._limits = limits
        self._connection: duckdb.DuckDBPyConnection = self._duckdb.connect(":memory:", config=_settings(limits))
        self._watch = _Watch(self._connection.interrupt, limits.seconds, should_end)
        try:
            with self._working():
                self._connection.execute("SET TimeZone = 'UTC'")
                [(tree,)] = self._connection.execute("SELECT json_serialize_sql(?)", [text]).fetchall()
            self.tables: list[SqlName] = tables_in(tree)
        except BaseException:
            self.close()
            raise

    def offer(self, tables: Mapping[SqlName, DeltaTable], roots: Sequence[str]) -> None:
        """Put tables where the statement looks for them, and let the session reach nothing else."""
        run, attached = self._connection.execute, dict[str, str]()
        places: dict[tuple[str, ...], SqlName] = {}
        with self._working():
            for name, table in tables.items():
                place = place_of(name, roots)
                key = tuple(part.lower() for part in place)
                if key in places and places[key] != place:
                    raise QueryError(f"{name} and {places[key]} differ only in upper and lower case; quote one in full")
                places[key] = place
                self._attach(place.catalog, attached)
                rows = f"rows_{secrets.token_hex(16)}"  # no statement can name it
                table.to_duckdb(self._connection, way="dataset").create_view(rows)
                catalog = place.catalog or "memory"
                schema = f"{_quoted(catalog)}.{_quoted(place.schema)}"
                run(f"CREATE SCHEMA IF NOT EXISTS {schema}")
                run(f"CREATE OR REPLACE VIEW {schema}.{_quoted(place.table)} AS FROM memory.main.{rows}")
            run("SET enable_external_access = false")
            run("SET lock_configuration = true")

    def _attach(self, catalog: str, attached: dict[str, str]) -> None:
        if not catalog:
            return
        if catalog.lower() in _TAKEN or attached.get(catalog.lower(), catalog) != catalog:
            raise QueryError(f'{catalog} cannot be a catalog of SQL here; quote the whole name, as in "{catalog}/…"')
        if catalog.lower() not in attached:
            attached[catalog.lower()] = catalog
            self._connection.execute(f"ATTACH ':memory:' AS {_quoted(catalog)}")

    def schema(self) -> pa.Schema:
        """The columns of the result; nothing is read."""
        with self._working():
            relation = self._relation()
            # A relation around it gives columns of the same name other names.
            found = _reader(relation.limit(0)).schema
            return pa.schema([field.with_name(name) for field, name in zip(found, relation.columns, strict=True)])

    def batches(self) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """The columns, and the rows as they are found. DuckDB works until the first are there."""
        with self._working():
            reader = _reader(self._relation())
        return reader.schema, self._each(reader)

    def _each(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        while True:
            with self._working():
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
            yield batch

    def _relation(self) -> duckdb.DuckDBPyRelation:
        relation: duckdb.DuckDBPyRelation | None = self._connection.sql(self._text)
        if relation is None:
            raise NotOfferedError("the statement gives no rows; this server runs one SELECT at a time")
        return relation

    def ask(self, should_end: Callable[[], bool]) -> None:
        """What to ask from now on, whether to end."""
        self._watch.asks = should_end

    def close(self) -> None:
        """Stop DuckDB, and let go of all it holds."""
        self._watch.end()
        self._connection.interrupt()
        self._connection.close()

    @contextmanager
    def _working(self) -> Iterator[None]:
        """Errors of DuckDB become ours; a statement that takes too long, or that nobody waits for, is stopped."""
        try:
            with self._watch.working():
                yield
        except (DeltaSidecarError, GoneError):
            raise
        except Exception as error:
            raise self._ours(error) from None

    def _ours(self, error: Exception) -> Exception:
        if self._watch.why == "gone":
            return GoneError()
        if self._watch.why == "slow":
            return QueryError(f"the statement took more than {self._limits.seconds:g} s and was stopped; narrow it")
        ours = _inner(error)
        if ours is not None:
            return ours
        if isinstance(error, self._duckdb.OutOfMemoryException):
            return QueryError(
                f"the statement needs more than {self._limits.held_bytes >> 20} MB; narrow it, or raise --sql-memory"
            )
        if isinstance(error, self._duckdb.Error | pa.ArrowException | OSError):
            return QueryError(f"DuckDB: {_ASIDE.split(str(error))[0]}")
        return error


class _Watch:
    """Interrupts a statement that takes too long, or that nobody waits for. A thread of its own, until it ends."""

    def __init__(self, interrupt: Callable[[], None], seconds: float, should_end: Callable[[], bool]) -> None:
        self.asks = should_end
        self.why: str | None = None
        """Why it was interrupted: `slow` or `gone`."""
        self._interrupt = interrupt
        self._left = seconds
        self._since: float | None = None
        self._ended = threading.Event()
        threading.Thread(target=self._run, daemon=True, name="sql-watch").start()

    @contextmanager
    def working(self) -> Iterator[None]:
        began = self._since = time.monotonic()
        try:
            yield
        finally:
            self._since = None
            self._left -= time.monotonic() - began

    def end(self) -> None:
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait(_LOOK_EVERY):
            since = self._since
            if since is None:
                continue
            if time.monotonic() - since > self._left:
                self.why = "slow"
            elif self.asks():
                self.why = "gone"
            if self.why is not None:
                self._interrupt()


def _settings(limits: SqlLimits) -> dict[str, Any]:
    """No disk, no extension, no variable of this process; little memory, few threads."""
    return {
        "threads": _THREADS,
        "memory_limit": f"{limits.held_bytes}B",
        "temp_directory": "",
        "python_enable_replacements": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
    }


def _reader(relation: duckdb.DuckDBPyRelation) -> pa.RecordBatchReader:
    made = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    return made(_BATCH_ROWS)


def _inner(error: BaseException) -> DeltaSidecarError | None:
    """Our error within one of DuckDB's, if a table's reader raised it: DuckDB keeps its text alone."""
    for line in str(error).splitlines():
        before, _, message = line.partition(": ")
        while message:
            kind = _OURS.get(before.rpartition(".")[2].strip())
            if kind is not None:
                return kind(message)
            before, _, message = message.partition(": ")
    return None


def _quoted(name: str) -> str:
    if "\0" in name:
        raise InputError("a name holds a zero byte")
    return '"' + name.replace('"', '""') + '"'
