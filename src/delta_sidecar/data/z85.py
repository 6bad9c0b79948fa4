"""Z85 (ZeroMQ RFC 32): the text form of deletion vectors and of the ids of their files."""

from __future__ import annotations

import struct

_ALPHABET = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_VALUES = {character: value for value, character in enumerate(_ALPHABET)}


def z85_decode(text: str) -> bytes:
    """Four bytes for each five characters; `ValueError` for anything that is not Z85."""
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) % 5:
        raise ValueError(f"Z85 text of {len(encoded)} characters is not a multiple of 5")
    words = [_word(encoded[i : i + 5]) for i in range(0, len(encoded), 5)]
    return struct.pack(f">{len(words)}I", *words)


def _word(group: bytes) -> int:
    value = 0
    for character in group:
        digit = _VALUES.get(character)
        if digit is None:
            raise ValueError(f"character {chr(character)!r} is not Z85")
        value = value * 85 + digit
    if value > 0xFFFFFFFF:
        raise ValueError(f"Z85 group {group.decode()!r} is out of range")
    return value
