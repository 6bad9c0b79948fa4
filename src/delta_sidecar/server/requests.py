"""What a client may ask for: the JSON of a descriptor, checked before anything is opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from delta_sidecar.errors import DeltaSidecarError, InputError, OptionError, PredicateError
from delta_sidecar.predicates.condition import Condition
from delta_sidecar.server.json_predicates import condition_of_tree
from delta_sidecar.settings import STRATEGIES
from delta_sidecar.table_access import Predicate

What = Literal["files", "rows", "stats", "changes"]


class RequestLimits(Struct, frozen=True):
    """How large a request may be."""

    request_bytes: int = 256 << 10
    predicate_bytes: int = 64 << 10
    nesting: int = 64
    """Levels of a predicate written as JSON; SQL text has its own limit."""
    columns: int = 10_000
    largest_batch: int = 65_536
    """Files or rows of a batch, at most."""


class ReadRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A listing, a read of rows, of stats or of changes, as a client writes it."""

    table: str
    """`NAME/path/below/the/root`."""
    what: What = "files"
    predicate: str | dict[str, Any] | list[Any] | None = None
    """SQL text, a tree (`json_predicates`), or a list of `[column, operator, value]`."""
    columns: list[str] | None = None
    limit: int | None = None
    strategy: str | None = None
    batch_size: int | None = None
    version: int | None = None
    timestamp: str | None = None
    table_id: str | None = None
    """The id that the table must have: another may be in its place by now."""
    start: int | str | None = None
    """The first version of changes, or a time."""
    end: int | str | None = None

    @property
    def bindable(self) -> Predicate | Condition | None:
        """The predicate as the table takes it."""
        if isinstance(self.predicate, dict):
            return condition_of_tree(self.predicate)
        if isinstance(self.predicate, list):
            return _filters(self.predicate)
        return self.predicate


def request_of(data: bytes, limits: RequestLimits) -> ReadRequest:
    """The request a descriptor holds; `InputError` says what is wrong with it."""
    if len(data) > limits.request_bytes:
        raise InputError(f"the request has {len(data):,} bytes; {limits.request_bytes:,} are allowed")
    try:
        request = msgspec.json.decode(data, type=ReadRequest)
    except RecursionError:
        raise InputError(f"the request is nested too deeply; {limits.nesting} levels are allowed") from None
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise InputError(f"the request is not what the protocol says: {_first_line(error)}") from None
    check_request(request, limits)
    return request


def check_request(request: ReadRequest, limits: RequestLimits) -> None:
    """Refuse what is too large or contradicts itself."""
    _check_predicate(request.predicate, limits)
    if request.columns is not None and len(request.columns) > limits.columns:
        raise InputError(f"the request names {len(request.columns):,} columns; {limits.columns:,} are allowed")
    if request.version is not None and request.timestamp is not None:
        raise InputError("version and timestamp both name a version; give one of them")
    for name, number, least in (("limit", request.limit, 0), ("version", request.version, 0)):
        if number is not None and not least <= number < 1 << 63:
            raise OptionError(f"{name} is {number}; it takes a whole number from {least} on")
    if request.batch_size is not None and not 1 <= request.batch_size <= limits.largest_batch:
        raise OptionError(f"batch_size is {request.batch_size}; it takes 1 to {limits.largest_batch:,}")
    if request.strategy is not None and request.strategy not in STRATEGIES:
        raise OptionError(f"strategy is {_short(request.strategy)!r}; it takes one of {', '.join(STRATEGIES)}")
    _check_kind(request)


def _check_kind(request: ReadRequest) -> None:
    if request.what == "changes":
        if request.start is None:
            raise InputError("changes need a start: a version, or a time")
        if request.limit is not None:
            raise InputError("changes take no limit; give an end")
    elif request.start is not None or request.end is not None:
        raise InputError(f'start and end are for "what": "changes", not for {request.what}')


def _check_predicate(predicate: object, limits: RequestLimits) -> None:
    if isinstance(predicate, str):
        size = len(predicate.encode("utf-8", "surrogatepass"))
    elif predicate is None:
        return
    else:
        if _depth(predicate, limits.nesting) > limits.nesting:
            raise PredicateError(f"the predicate is nested too deeply; {limits.nesting} levels are allowed")
        size = len(msgspec.json.encode(predicate))
    if size > limits.predicate_bytes:
        raise PredicateError(f"the predicate has {size:,} bytes; {limits.predicate_bytes:,} are allowed")


def _depth(value: object, enough: int) -> int:
    """Levels of lists and objects within each other; counting stops above `enough`."""
    level, depth = [value], 0
    while level and depth <= enough:
        inner: list[object] = []
        for each in level:
            if isinstance(each, Mapping):
                inner += each.values()
            elif isinstance(each, list):
                inner += each
        level = [each for each in inner if isinstance(each, (Mapping, list))]
        depth += 1
    return depth


_FILTER: Final = "filters are a list of [column, operator, value], or a list of such lists"


def _filters(given: list[Any]) -> Any:
    """Filters of the client, as tuples: JSON has none."""
    if all(isinstance(each, list) and each and isinstance(each[0], str) for each in given):
        return [tuple(each) for each in given]
    if all(isinstance(each, list) for each in given) and all(isinstance(f, list) for each in given for f in each):
        return [[tuple(f) for f in each] for each in given]
    raise PredicateError(_FILTER)


def encoded(value: object) -> bytes:
    """A value as JSON; `InputError` for one that JSON has no form for."""
    try:
        return msgspec.json.encode(value)
    except DeltaSidecarError:
        raise
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InputError(f"the request cannot be written as JSON: {_first_line(error)}") from None


def _first_line(error: BaseException) -> str:
    return _short((str(error).splitlines() or [type(error).__name__])[0], 200)


def _short(text: str, most: int = 40) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
