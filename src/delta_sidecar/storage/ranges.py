"""Plan which requests fetch which byte ranges, without I/O. A store executes the plan."""

from __future__ import annotations

from collections.abc import Sequence

from delta_sidecar.storage.store import Buffer, ByteRange

DEFAULT_GAP = 64 << 10
"""Bytes worth reading to save a request; more would undo the projection of small row groups."""
DEFAULT_LONGEST = 8 << 20
"""Merging stops here: beyond it two requests side by side are faster than one."""


def coalesce(ranges: Sequence[ByteRange], gap: int = DEFAULT_GAP, longest: int = DEFAULT_LONGEST) -> list[ByteRange]:
    """The requests that cover `ranges`, sorted: neighbours at most `gap` apart are one, up to `longest` bytes.

    Each range lies wholly in one request; empty ranges need none.
    """
    merged: list[ByteRange] = []
    for part in sorted((r for r in ranges if r.length), key=lambda r: (r.start, -r.length)):
        last = merged[-1] if merged else None
        if last is not None and _joins(last, part, gap, longest):
            merged[-1] = ByteRange(last.start, max(last.end, part.end) - last.start)
        else:
            merged.append(part)
    return merged


def cut(ranges: Sequence[ByteRange], requests: Sequence[ByteRange], answers: Sequence[Buffer]) -> list[Buffer]:
    """The asked-for ranges out of the answers of `coalesce`'s requests, without a copy."""
    held = [(request, memoryview(answer)) for request, answer in zip(requests, answers, strict=True)]
    return [_piece(part, held) for part in ranges]


def _joins(last: ByteRange, part: ByteRange, gap: int, longest: int) -> bool:
    if part.end <= last.end:
        return True
    return part.start <= last.end + gap and part.end - last.start <= longest


def _piece(part: ByteRange, held: list[tuple[ByteRange, memoryview]]) -> Buffer:
    if not part.length:
        return b""
    request, answer = next(pair for pair in held if pair[0].start <= part.start and part.end <= pair[0].end)
    return answer[part.start - request.start : part.end - request.start]
