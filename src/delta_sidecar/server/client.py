"""A table on a server, for Python: the reading methods of `DeltaTable`, over Arrow Flight."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.flight as flight

from delta_sidecar.errors import InputError, needs_extra
from delta_sidecar.predicates.predicate_tuples import RowFilters, parse_filters
from delta_sidecar.scan.file_infos import FileInfo, file_infos
from delta_sidecar.scan.one_reading import ReadOnceIterator
from delta_sidecar.server.json_predicates import tree_of, with_json_values
from delta_sidecar.server.loopback import is_loopback
from delta_sidecar.server.requests import encoded
from delta_sidecar.server.wire_errors import from_flight
from delta_sidecar.table import ProtocolVersions, TableMetadata
from delta_sidecar.values.types import StructType, parse_schema

if TYPE_CHECKING:
    import pandas as pd

RemotePredicate: TypeAlias = str | Mapping[str, Any] | Sequence[Any]
"""SQL text, a tree of JSON, or a list of `(column, operator, value)`."""

_SCHEMES: Final = ("grpc", "grpc+tcp", "grpc+tls")


def connect(
    url: str,
    token: str | None = None,
    *,
    root_certificates: bytes | str | None = None,
    timeout: float = 60.0,
    insecure: bool = False,
) -> Connection:
    """A connection to a server that `sidecar serve` runs.

    Args:
        url: Where it listens: `grpc+tls://host:50051`, or `grpc://127.0.0.1:50051` without TLS.
        token: A token of `sidecar token new`.
        root_certificates: Certificates to trust, as PEM, instead of those of the system; not the path of a file.
        timeout: Seconds that calls may take that answer at once; streams take as long as they take.
        insecure: Send the token without TLS to another machine.

    Returns:
        A `Connection`; close it, or use it as a context manager.

    Raises:
        InputError: The URL is wrong, or the token would be sent unencrypted to another machine.
        ServerError: The server cannot be reached; raised by the first call.
        AccessDeniedError: The token is missing, unknown or expired; raised by the first call.

    Example:
        >>> from delta_sidecar import connect
        >>> from delta_sidecar.server import ServerOptions, start_server
        >>> with start_server({"lake": "."}, ServerOptions(port=0)) as server, connect(server.url) as lake:
        ...     print(lake.table("lake/events").to_pyarrow_table(columns=["id"], predicate="id > 5").to_pydict())
        {'id': [6, 7]}
    """
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise InputError(f"{url!r} is not the address of a server; write grpc+tls://host:port or grpc://127.0.0.1:port")
    if token is not None and parts.scheme != "grpc+tls" and not is_loopback(parts.hostname) and not insecure:
        raise InputError(f"{url} has no TLS: the token could be read on its way; use grpc+tls://, or insecure=True")
    given = _certificates(root_certificates)
    if token is not None and not (token.isascii() and token.isprintable() and token == token.strip()):
        raise InputError("the token has characters that no token has, such as a line break or a space; copy it again")
    try:
        client = flight.FlightClient(url, tls_root_certs=given)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{url!r} is not the address of a server: {str(error).splitlines()[0]}") from None
    return Connection(client, url, token, timeout)


def _certificates(given: bytes | str | None) -> bytes | None:
    data = given.encode() if isinstance(given, str) else given
    if data is not None and b"-----BEGIN" not in data:
        raise InputError(
            "root_certificates holds no certificate (-----BEGIN CERTIFICATE-----); if it is the path of a file, give "
            "what is in it: Path(…).read_bytes()"
        )
    return data


class _Connected:
    """What belongs to a connection, which stays in its process."""

    def __reduce__(self) -> Any:
        raise InputError(f"a {type(self).__name__} belongs to its connection and cannot be pickled; connect again")


class Connection(_Connected):
    """A connection to a server; made by `connect`.

    Example:
        >>> from delta_sidecar import connect
        >>> from delta_sidecar.server import ServerOptions, start_server
        >>> with start_server({"lake": "."}, ServerOptions(port=0)) as server, connect(server.url) as lake:
        ...     print(lake.tables(), lake.health()["ready"])
        ['lake/events'] True
    """

    def __init__(self, client: flight.FlightClient, url: str, token: str | None, timeout: float) -> None:
        self._client = client
        self._url = url
        self._headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        self._timeout = timeout

    def __repr__(self) -> str:
        return f"<Connection to {self._url}>"

    def table(self, name: str, version: int | str | datetime | None = None) -> RemoteTable:
        """A table by its name, `ROOT/path/below/the/root`: its newest version, or another by number or time."""
        return RemoteTable(self, name, version)

    def tables(self, root: str | None = None, limit: int | None = None) -> list[str]:
        """The names of the tables there are, as far as the server lists them."""
        wanted = {name: value for name, value in (("root", root), ("limit", limit)) if value is not None}
        with self._errors():
            infos = self._client.list_flights(encoded(wanted) if wanted else b"", self._options())
            return ["/".join(part.decode() for part in info.descriptor.path) for info in infos]

    def health(self) -> dict[str, Any]:
        """Whether the server takes requests, and how busy it is."""
        return self._asked("health")

    def close(self) -> None:
        """Close the connection; streams of it end."""
        self._client.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _asked(self, action: str, request: Mapping[str, Any] | None = None) -> dict[str, Any]:
        body = b"" if request is None else encoded(request)
        with self._errors():
            (result,) = self._client.do_action(flight.Action(action, body), self._options())
        answer: dict[str, Any] = json.loads(result.body.to_pybytes())
        return answer

    def _stream(self, request: Mapping[str, Any]) -> RemoteStream:
        descriptor = flight.FlightDescriptor.for_command(encoded(request))
        with self._errors():
            info = self._client.get_flight_info(descriptor, self._options())
            reader = self._client.do_get(info.endpoints[0].ticket, flight.FlightCallOptions(headers=self._headers))
        return RemoteStream(self, reader, info.schema)

    def _options(self) -> flight.FlightCallOptions:
        return flight.FlightCallOptions(timeout=self._timeout, headers=self._headers)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except pa.ArrowException as error:
            raise from_flight(error, self._url) from None


class RemoteStream(ReadOnceIterator):
    """Batches of a server as they come: files, rows, stats or changes. Closing it stops the reading there.

    Raises:
        ConsumedStreamError: It was already read to its end, closed, or handed to another reader.
        ServerBusyError: The server is at its limits, or stopping: try again.
        ServerError: The server failed, or broke off.

    Example:
        >>> from delta_sidecar import connect
        >>> from delta_sidecar.server import ServerOptions, start_server
        >>> with start_server({"lake": "."}, ServerOptions(port=0)) as server, connect(server.url) as lake:
        ...     with lake.table("lake/events").scan_files("id = 7", columns=["path"]) as files:
        ...         print(files.read_all().to_pylist())
        [{'path': '_event_hour=2026021023/part-0.parquet'}]
    """

    def __init__(self, connection: Connection, reader: flight.FlightStreamReader, schema: pa.Schema) -> None:
        super().__init__(schema, "stream of a server")
        self._connection = connection
        self._reader = reader

    def _next(self) -> pa.RecordBatch:
        self._reading.check()
        if self._reading.is_at_end:
            raise StopIteration
        try:
            with self._connection._errors():
                return self._reader.read_chunk().data
        except StopIteration:
            self._reading.finish()
            raise
        except BaseException:
            self._reading.fail()
            raise

    def close(self) -> None:
        """Stop reading; the server stops, too."""
        if not self._reading.is_at_end:
            self._reader.cancel()
        self._reading.close()


class RemoteTable(_Connected):
    """One version of a table on a server; made by `Connection.table`. All its streams read that version.

    Raises:
        TableNotFoundError: The server has no such table, or it is not for this token.
        VersionNotFoundError: The table has no such version.
        AccessDeniedError: The token is missing, unknown or expired.
        OtherTableError: The table was dropped and made again since it was opened; also raised by its methods.
        ServerError: The server cannot be reached.

    Example:
        >>> from delta_sidecar import connect
        >>> from delta_sidecar.server import ServerOptions, start_server
        >>> with start_server({"lake": "."}, ServerOptions(port=0)) as server, connect(server.url) as lake:
        ...     table = lake.table("lake/events")
        ...     print(table.version(), [file.path for file in table.file_infos("id = 7")])
        3 ['_event_hour=2026021023/part-0.parquet']
    """

    def __init__(self, connection: Connection, name: str, version: int | str | datetime | None = None) -> None:
        self._connection = connection
        self.name = name
        self._load(version, {})

    def _load(self, version: int | str | datetime | None, pinned: Mapping[str, Any]) -> None:
        request: dict[str, Any] = {"table": self.name, **pinned}
        if isinstance(version, str | datetime):
            request["timestamp"] = version if isinstance(version, str) else version.isoformat()
        elif version is not None:
            request["version"] = version
        self._told = self._connection._asked("describe", request)

    def __repr__(self) -> str:
        return f"RemoteTable({self.name!r}, version={self.version()})"

    # What the table is

    @property
    def location(self) -> str:
        """Where the table is, as the server reaches it: paths of files are relative to it."""
        return str(self._told["location"])

    def version(self) -> int:
        """The version that is open."""
        return int(self._told["version"])

    def schema(self) -> StructType:
        """The schema of the table; `to_arrow()` returns it as an Arrow schema."""
        return parse_schema(self._told["schema"] or '{"type":"struct","fields":[]}', self._told["column_mapping_mode"])

    def metadata(self) -> TableMetadata:
        """Id, name, partition columns and properties of the table."""
        return TableMetadata(**self._told["metadata"])

    def protocol(self) -> ProtocolVersions:
        """The reader and writer versions that the table needs, and its features."""
        return ProtocolVersions(**self._told["protocol"])

    def load_as_version(self, version: int | str | datetime) -> None:
        """Switch to another version: a number, or the version at a time (ISO text or datetime)."""
        self._load(version, self._pinned)

    def update_incremental(self) -> None:
        """Switch to the newest version."""
        self._load(None, self._pinned)

    @property
    def _pinned(self) -> dict[str, Any]:
        """What the server must find: the table that was opened, not another in its place."""
        return {"table_id": self.metadata().id}

    # Its files

    def scan_files(
        self,
        predicate: RemotePredicate | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        strategy: str | None = None,
        batch_size: int | None = None,
    ) -> RemoteStream:
        """The live files as a stream of Arrow batches, as `DeltaTable.scan_files` gives them."""
        return self._read("files", predicate, columns, limit, strategy=strategy, batch_size=batch_size)

    def file_infos(
        self,
        predicate: RemotePredicate | None = None,
        limit: int | None = None,
        columns: Sequence[str] | None = None,
        strategy: str | None = None,
    ) -> Iterator[FileInfo]:
        """The live files as objects, in an iterator that reads as it goes."""
        return _closing(self.scan_files(predicate, columns, limit, strategy))

    def file_stats(
        self,
        predicate: RemotePredicate | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> RemoteStream:
        """Statistics of the live files: `path`, `num_records`, and for each column `min.<column>`, `max.<column>`,
        `null_count.<column>`."""
        return self._read("stats", predicate, columns, limit)

    def explain(
        self,
        predicate: RemotePredicate | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        strategy: str | None = None,
    ) -> str:
        """What a listing would read, and why."""
        request = self._request("files", _sendable(predicate), columns, limit, strategy=strategy)
        return str(self._connection._asked("explain", request)["text"])

    # Its rows

    def to_batches(
        self,
        columns: Sequence[str] | None = None,
        predicate: RemotePredicate | None = None,
        limit: int | None = None,
        batch_size: int | None = None,
    ) -> RemoteStream:
        """The rows as a stream of Arrow batches."""
        return self._read("rows", predicate, columns, limit, batch_size=batch_size)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow stream, for libraries that take one, as in `pyarrow.table(table)`."""
        return self.to_batches().__arrow_c_stream__(requested_schema)

    def to_pyarrow_table(
        self,
        partitions: RemotePredicate | None = None,
        columns: Sequence[str] | None = None,
        filesystem: None = None,
        filters: RemotePredicate | None = None,
        *,
        predicate: RemotePredicate | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """The rows in memory, as `DeltaTable.to_pyarrow_table` gives them: null in tuples of `filters` means what it
        means in pyarrow. `predicate` is one as in `to_batches`; all that are given must hold. `filesystem` is refused:
        the server reads the files."""
        if filesystem is not None:
            raise InputError("a server reads the files itself; leave filesystem out")
        wanted = _joined([_sendable(partitions), _sendable(filters, of_rows=True), _sendable(predicate)])
        with self._connection._stream(self._request("rows", wanted, columns, limit)) as rows:
            return rows.read_all()

    def to_pandas(
        self,
        partitions: RemotePredicate | None = None,
        columns: Sequence[str] | None = None,
        filesystem: None = None,
        filters: RemotePredicate | None = None,
        types_mapper: Any = None,
        *,
        predicate: RemotePredicate | None = None,
        limit: int | None = None,
    ) -> pd.DataFrame:
        """The rows as a pandas data frame, with the arguments of `to_pyarrow_table`; `InputError` if pandas is not
        installed."""
        try:
            import pandas  # noqa: F401
        except ImportError:
            raise needs_extra("to_pandas", "pandas", "pandas") from None
        table = self.to_pyarrow_table(partitions, columns, filesystem, filters, predicate=predicate, limit=limit)
        return table.to_pandas(types_mapper=types_mapper)

    def changes(
        self,
        start: int | str | datetime,
        end: int | str | datetime | None = None,
        columns: Sequence[str] | None = None,
        predicate: RemotePredicate | None = None,
    ) -> RemoteStream:
        """The rows that a range of versions changed, as `DeltaTable.changes` gives them."""
        return self._read("changes", predicate, columns, None, start=_instant(start), end=_instant(end))

    def _read(
        self,
        what: str,
        predicate: RemotePredicate | None,
        columns: Sequence[str] | None,
        limit: int | None,
        **more: Any,
    ) -> RemoteStream:
        return self._connection._stream(self._request(what, _sendable(predicate), columns, limit, **more))

    def _request(
        self,
        what: str,
        predicate: _Sendable | None,
        columns: Sequence[str] | None,
        limit: int | None,
        **more: Any,
    ) -> dict[str, Any]:
        if isinstance(columns, str):
            raise InputError(f"columns is a list of names, not one text; write [{columns!r}]")
        request = {
            "table": self.name,
            **self._pinned,
            "what": what,
            "version": self.version(),
            "predicate": predicate,
            "columns": None if columns is None else list(columns),
            "limit": limit,
            **more,
        }
        return {name: value for name, value in request.items() if value is not None}


_Sendable: TypeAlias = str | dict[str, Any]


def _sendable(predicate: RemotePredicate | None, of_rows: bool = False) -> _Sendable | None:
    """A predicate as it is sent. Tuples are understood here, as they are where no server is: Python's values and the
    meaning of null stay what they are. `of_rows`: with pyarrow's meaning of null."""
    if predicate is None or isinstance(predicate, str):
        return predicate
    if isinstance(predicate, Mapping):
        sent: dict[str, Any] = with_json_values(predicate)
        return sent
    if not isinstance(predicate, list | tuple):
        raise InputError(
            f"a server takes a predicate as SQL text, a dict or a list of filters, not a {type(predicate).__name__}"
        )
    condition = parse_filters(RowFilters(predicate) if of_rows else predicate)
    return None if condition is None else tree_of(condition)


def _joined(predicates: Sequence[_Sendable | None]) -> _Sendable | None:
    """All of some predicates."""
    given = [each for each in predicates if each is not None]
    if len(given) < 2:
        return given[0] if given else None
    return {"and": [{"op": "sql", "text": each} if isinstance(each, str) else each for each in given]}


def _closing(stream: RemoteStream) -> Iterator[FileInfo]:
    with stream:
        yield from file_infos(stream)


def _instant(moment: int | str | datetime | None) -> int | str | None:
    return moment.isoformat() if isinstance(moment, datetime) else moment
