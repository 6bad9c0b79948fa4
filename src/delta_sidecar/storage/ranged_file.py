"""An object as a Python file that is read by ranges, for pyarrow's Parquet reader.

Several column chunks stream side by side, each in big sequential blocks, the next one fetched while the
current one is decoded; the bytes held and in flight stay within a budget.
"""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from types import TracebackType

from msgspec import Struct

from delta_sidecar.flow.pool import side_by_side, submit
from delta_sidecar.flow.read_ahead import READ_AHEAD_BYTES
from delta_sidecar.storage import blocks
from delta_sidecar.storage.blocks import Block
from delta_sidecar.storage.store import Buffer, ByteRange, Store

_MOST_TOUCHED = 256
_FOOTER_END = 8
"""Parquet's last bytes: the footer's length and the magic number."""


class _Held(Struct):
    """A block in memory or being fetched."""

    answer: Future[Buffer]
    served: int = 0


class ReadOnlyFile:
    """The methods that Arrow expects of a read-only, seekable file, except for those that read."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def flush(self) -> None:
        """Nothing is ever written."""


class RangedFile(ReadOnlyFile):
    """A readable, seekable file over an object of known size.

    Any method may be called from any thread; `read_at` needs no seek and is the one to use from several.
    """

    def __init__(
        self,
        store: Store,
        path: str,
        size: int,
        *,
        block_size: int = blocks.DEFAULT_BLOCK,
        budget: int = READ_AHEAD_BYTES,
    ) -> None:
        self._store = store
        self._path = path
        self._size = size
        self._block_size = block_size
        self._budget = budget
        self._plan = blocks.unplanned(size, block_size)
        self._held: OrderedDict[Block, _Held] = OrderedDict()
        self._touched: OrderedDict[Block, None] = OrderedDict()
        self._position = 0
        self._closed = False
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"RangedFile({self._store.root_uri!r}, {self._path!r}, size={self._size})"

    def __enter__(self) -> RangedFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def prepare(self, ranges: Sequence[ByteRange], streams: int | None = None, begin: bool = True) -> None:
        """Announce what will be read: each range from its start to its end, `streams` of them side by side (all,
        if not given). Nothing outside the ranges is prefetched; `begin` fetches their first blocks at once."""
        if self._size <= self._block_size:
            return
        with self._lock:
            self._plan = blocks.planned(ranges, streams, self._block_size, self._budget)
            self._forget_all()
            for index in range(self._plan.streams if begin else 0):
                self._prefetch(self._plan.first_block(index))

    def read(self, size: int | None = -1) -> Buffer:
        with self._lock:
            start = self._position
            length = max(0, self._size - start)
            if size is not None and size >= 0:
                length = min(size, length)
            self._position += length
        return self.read_at(start, length)

    def read_at(self, start: int, length: int) -> Buffer:
        """`length` bytes from `start`, fewer only at the end of the object."""
        self._check_open()
        end = min(start + length, self._size)
        if start >= end:
            return b""
        if end - start > self._budget // 2 or self._is_footer(start, end):
            return self._at_once(start, end)
        pieces = side_by_side([partial(self._piece, block, start, end) for block in self._requests(start, end)])
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._check_open()
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"seek to {base + offset}, before the beginning of {self._path}")
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def size(self) -> int:
        return self._size

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def held_bytes(self) -> int:
        """Bytes in memory or being fetched."""
        with self._lock:
            return sum(block.length for block in self._held)

    def close(self) -> None:
        """Start no more requests."""
        with self._lock:
            self._closed = True
            self._forget_all()

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"{self._path} is closed")

    def _at_once(self, start: int, end: int) -> Buffer:
        """A read that is too long to keep; blocks that were fetched for it in advance are dropped."""
        with self._lock:
            for block in [b for b in self._held if start <= b.start and b.end <= end]:
                self._drop(block)
        return self._store.get_range(self._path, start, end - start)

    def _is_footer(self, start: int, end: int) -> bool:
        """Whether a read jumps to the end of a large file: it wants the footer, once, and nothing beside it."""
        if self._plan.planned or self._size <= self._block_size or end < self._size - _FOOTER_END:
            return False
        with self._lock:
            return not any(block in self._held for block in self._plan.blocks(start, end))

    def _requests(self, start: int, end: int) -> list[Block]:
        """The blocks of a read. Neighbours that it needs whole and that are not being fetched yet are one request."""
        requests: list[Block] = []
        before = False
        with self._lock:
            for block in self._plan.blocks(start, end):
                whole = self._is_taken_whole(block, start, end)
                if whole and before and requests[-1].segment == block.segment:
                    requests[-1] = Block(requests[-1].start, block.end - requests[-1].start, block.segment)
                else:
                    requests.append(block)
                before = whole
        return requests

    def _is_taken_whole(self, block: Block, start: int, end: int) -> bool:
        planned = self._plan.planned and block.segment >= 0 and block not in self._held
        return planned and start <= block.start and block.end <= end

    def _piece(self, block: Block, start: int, end: int) -> memoryview:
        """The part of a read that lies in one block."""
        first, last = max(start, block.start), min(end, block.end)
        data = memoryview(self._data(block, last - first))
        return data[first - block.start : last - block.start]

    def _data(self, block: Block, wanted: int) -> Buffer:
        if block.segment < 0:
            return self._store.get_range(self._path, block.start, block.length)
        with self._lock:
            self._check_open()
            held = self._held.get(block)
            mine = held is None or held.answer.cancel()
            if held is None or mine:
                held = self._hold(block)
            self._touch(block, held, wanted)
        if mine:
            self._fetch(block, held)
        return self._result(block, held)

    def _hold(self, block: Block) -> _Held:
        """Make room for a block that is needed now, at the expense of the ones not used for longest."""
        self._drop(block)
        while self._held and self._bytes() + block.length > self._budget:
            self._drop(next(iter(self._held)))
        self._held[block] = held = _Held(Future())
        held.answer.set_running_or_notify_cancel()
        return held

    def _fetch(self, block: Block, held: _Held) -> None:
        """On the caller's thread: a prefetch that has not begun is not waited for."""
        try:
            held.answer.set_result(self._store.get_range(self._path, block.start, block.length))
        except BaseException as error:
            held.answer.set_exception(error)

    def _result(self, block: Block, held: _Held) -> Buffer:
        try:
            return held.answer.result()
        except BaseException:
            with self._lock:
                if self._held.get(block) is held:
                    del self._held[block]
            raise

    def _touch(self, block: Block, held: _Held, wanted: int) -> None:
        """Note the use of a block: drop what its stream has read, and fetch what it needs next."""
        self._held.move_to_end(block)
        held.served += wanted
        before = self._plan.block_before(block)
        followed = before in self._touched
        self._remember(block)
        if self._plan.planned:
            self._leave(before, block, held)
        if self._plan.planned or followed:
            for ahead in self._plan.read_ahead(block):
                # A planned block that was read, before this one or with it, is not read again.
                if not (self._plan.planned and ahead in self._touched):
                    self._prefetch(ahead)

    def _remember(self, block: Block) -> None:
        self._touched[block] = None
        self._touched.move_to_end(block)
        if len(self._touched) > _MOST_TOUCHED:
            self._touched.popitem(last=False)

    def _leave(self, before: Block | None, block: Block, held: _Held) -> None:
        """Drop this block if it was read in full, for a planned range is read once, and the last but one. A read of
        two blocks may come to the second one first: what it wants of the other is still here then."""
        if before is not None and (last_but_one := self._plan.block_before(before)) is not None:
            self._drop(last_but_one)
        if held.served >= block.length:
            del self._held[block]

    def _prefetch(self, block: Block | None) -> None:
        """Start fetching a block if there is room; blocks that will still be read are never dropped for it."""
        if block is None or block in self._held or self._bytes() + block.length > self._budget:
            return
        answer = submit(self._store.get_range, self._path, block.start, block.length)
        self._held[block] = _Held(answer)

    def _bytes(self) -> int:
        return sum(block.length for block in self._held)

    def _drop(self, block: Block) -> None:
        if (held := self._held.pop(block, None)) is not None:
            held.answer.cancel()

    def _forget_all(self) -> None:
        for block in list(self._held):
            self._drop(block)
        self._touched.clear()
