"""The messages of Flight SQL, as far as this server reads and writes them.

pyarrow has no codec for them. They have a dozen fields of two kinds, numbers and bytes, whose form on the wire is fixed
for ever; so they are read here, and no protobuf runtime with generated code needs to be installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from delta_sidecar.errors import InputError

_TYPES: Final = "type.googleapis.com/arrow.flight.protocol.sql."
_PREFIX: Final = _TYPES.encode()
_NUMBER, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MOST_FIELDS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Message:
    """A message: its name, and its fields by number, each with all its values in order."""

    name: str
    fields: Mapping[int, tuple[int | bytes, ...]]

    def text(self, number: int) -> str | None:
        """A field of text; None if it is not set."""
        data = self.data(number)
        try:
            return None if data is None else data.decode()
        except UnicodeDecodeError:
            raise InputError(f"field {number} of {self.name} is not UTF-8") from None

    def data(self, number: int) -> bytes | None:
        """A field of bytes; None if it is not set."""
        value = self.fields.get(number, (None,))[-1]
        if isinstance(value, int):
            raise InputError(f"field {number} of {self.name} is a number")
        return value

    def texts(self, number: int) -> list[str]:
        """All values of a field of text."""
        return [Message(self.name, {1: (each,)}).text(1) or "" for each in self.fields.get(number, ())]

    def flag(self, number: int) -> bool:
        return bool(self.fields.get(number, (0,))[-1])

    def numbers(self, number: int) -> list[int]:
        """All values of a field of numbers, packed or not."""
        found: list[int] = []
        for value in self.fields.get(number, ()):
            if isinstance(value, int):
                found.append(value)
                continue
            at = 0
            while at < len(value):
                each, at = _varint(value, at)
                found.append(each)
        return found


def is_message(data: bytes) -> bool:
    """Whether bytes begin as a message of Flight SQL does. Neither a request in JSON nor a ticket of ours does."""
    return data[:1] == b"\n" and data[1:64].find(_PREFIX) in (1, 2)


def message_of(data: bytes, most: int) -> Message:
    """The message in an `Any`; `InputError` for what is none, or has more bytes than may be."""
    if len(data) > most:
        raise InputError(f"the message has {len(data):,} bytes; {most:,} are allowed")
    outer = Message("Any", _fields(data))
    kind, body = outer.text(1) or "", outer.data(2) or b""
    if not kind.startswith(_TYPES):
        raise InputError("the message is not one of Flight SQL")
    return Message(kind[len(_TYPES) :][:80], _fields(body))


def packed(name: str, fields: Mapping[int, bytes]) -> bytes:
    """A message with fields of bytes, in an `Any`."""
    return _written({1: _PREFIX + name.encode(), 2: _written(fields)})


def _written(fields: Mapping[int, bytes]) -> bytes:
    return b"".join(
        bytes([number << 3 | _BYTES]) + _varint_bytes(len(data)) + data for number, data in fields.items() if data
    )


def _fields(data: bytes) -> dict[int, tuple[int | bytes, ...]]:
    found: dict[int, tuple[int | bytes, ...]] = {}
    for count, (number, value) in enumerate(_each_field(data)):
        if count >= _MOST_FIELDS:
            raise InputError(f"the message has more than {_MOST_FIELDS:,} fields")
        found[number] = (*found.get(number, ()), value)
    return found


def _each_field(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == _NUMBER:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise InputError("the message is broken: a field has an unknown kind")
        if at + size > len(data):
            raise InputError("the message is broken: it ends within a field")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise InputError("the message is broken: a number does not end")


def _varint_bytes(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
