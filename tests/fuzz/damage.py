"""Random damage to the files of an index, drawn from a seed, so that a case can be told by its number."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

from tests.fuzz.tables import Made

Change: TypeAlias = Callable[[random.Random, bytearray], bytearray]


def one_bit(drawn: random.Random, data: bytearray) -> bytearray:
    if data:
        data[drawn.randrange(len(data))] ^= 1 << drawn.randrange(8)
    return data


def some_bytes(drawn: random.Random, data: bytearray) -> bytearray:
    for _ in range(drawn.randint(1, 8) if data else 0):
        data[drawn.randrange(len(data))] = drawn.randrange(256)
    return data


def near_the_end(drawn: random.Random, data: bytearray) -> bytearray:
    """Where Parquet has its footer, the length of it, and its magic."""
    for _ in range(drawn.randint(1, 3) if data else 0):
        data[-1 - drawn.randrange(min(12, len(data)))] = drawn.randrange(256)
    return data


def a_digit(drawn: random.Random, data: bytearray) -> bytearray:
    """What is still JSON, but says something else."""
    digits = [at for at, byte in enumerate(data) if chr(byte).isdigit()]
    if digits:
        data[drawn.choice(digits)] = ord(drawn.choice("0123456789"))
    return data


def zeros(drawn: random.Random, data: bytearray) -> bytearray:
    at, length = drawn.randrange(len(data) + 1), drawn.randint(1, 64)
    data[at : at + length] = bytes(len(data[at : at + length]))
    return data


def cut_short(drawn: random.Random, data: bytearray) -> bytearray:
    return data[: drawn.randrange(len(data) + 1)]


def cut_out(drawn: random.Random, data: bytearray) -> bytearray:
    at = drawn.randrange(len(data) + 1)
    del data[at : at + drawn.randint(1, 32)]
    return data


def put_in(drawn: random.Random, data: bytearray) -> bytearray:
    at = drawn.randrange(len(data) + 1)
    data[at:at] = drawn.randbytes(drawn.randint(1, 16))
    return data


def noise(drawn: random.Random, data: bytearray) -> bytearray:
    return bytearray(drawn.randbytes(len(data)))


CHANGES: Final[tuple[Change, ...]] = (
    one_bit, one_bit, some_bytes, near_the_end, a_digit, zeros, cut_short, cut_out, put_in, noise,
)  # fmt: skip
KINDS: Final = ("_last_index", "manifest.json", ".core.parquet", ".stats.parquet", ".parquet")


@contextmanager
def damaged(made: Made, drawn: random.Random) -> Iterator[list[str]]:
    """One to three files of the index changed, and put right again in the end; what was done."""
    files = _targets(made, drawn)
    sound = {path: path.read_bytes() for path in made.sidecars.iterdir() if path.is_file()}
    told: list[str] = []
    try:
        for path in files:
            if drawn.random() < 0.1:
                path.write_bytes(sound[drawn.choice(list(sound))])
                told.append(f"{path.name}: the bytes of another file")
                continue
            change = drawn.choice(CHANGES)
            path.write_bytes(change(drawn, bytearray(sound[path])))
            told.append(f"{path.name}: {change.__name__}")
        yield told
    finally:
        for path in files:
            path.write_bytes(sound[path])


def _targets(made: Made, drawn: random.Random) -> list[Path]:
    """Each kind of file as often as any other, however many there are of it."""
    there = sorted(path for path in made.sidecars.iterdir() if path.is_file())
    kinds = [[path for path in there if path.name.endswith(kind)] for kind in KINDS]
    chosen = [drawn.choice(kind) for kind in drawn.choices([k for k in kinds if k], k=drawn.choice([1, 1, 1, 2, 3]))]
    return sorted(set(chosen))
