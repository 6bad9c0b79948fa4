"""Where `files` and `read` write: the terminal, standard output, or a file that appears when it is complete.

A file is written in the same directory under a temporary name, batch by batch, and renamed at the end. So an incomplete
file never appears, and memory does not grow with the file.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias

import click
import msgspec
import pyarrow as pa
import pyarrow.types as pat

from delta_sidecar.cli.interrupts import interrupts
from delta_sidecar.cli.output import binary_stdout, write_facts, write_json_lines
from delta_sidecar.errors import OptionError, did_you_mean
from delta_sidecar.texts import counted, sized

Format: TypeAlias = Literal["parquet", "csv", "arrow", "json"]
FORMATS: tuple[Format, ...] = ("parquet", "csv", "arrow", "json")
_ENDINGS: dict[str, Format] = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
_GROUP_BYTES = 32 << 20
"""Bytes of rows per row group of a Parquet file; they are held in memory."""


@dataclass(frozen=True, slots=True)
class Sink:
    """Where a result goes, and in which format; no format means a table for people."""

    format: Format | None = None
    path: str | None = None


def sink_of(json: bool, output: str | None, file_format: str | None) -> Sink:
    """The sink that `--json`, `--output` and `--format` mean together."""
    if json and (output is not None or file_format is not None):
        raise click.UsageError("--json prints to standard output; leave it out with --output or --format")
    chosen: Format | None = "json" if json else None
    if file_format is not None:
        chosen = next((name for name in FORMATS if name == file_format), None)
        if chosen is None:
            near = did_you_mean(file_format, FORMATS)
            raise OptionError(f"--format {file_format!r} is not known{near}; it takes {', '.join(FORMATS)}")
    if output is None:
        if chosen == "parquet" or (chosen == "arrow" and sys.stdout.isatty()):
            raise OptionError(f"{chosen} is binary; write it to a file with --output")
        return Sink(chosen)
    if output == "-":
        raise OptionError("--output - is not a file; leave --output out to write to standard output")
    return Sink(chosen or _by_ending(output), output)


def _by_ending(path: str) -> Format:
    ending = Path(path).suffix.lower()
    if ending not in _ENDINGS:
        raise OptionError(f"--output {path}: the name does not end in any of {', '.join(_ENDINGS)}; add --format")
    return _ENDINGS[ending]


def write_result(
    sink: Sink,
    noun: str,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    objects: Iterable[Sequence[Any]],
) -> None:
    """Write a result: from `objects` for JSON, from `batches` for every other format."""
    rows = _Counted(objects if sink.format == "json" else batches)
    if sink.path is None:
        _write(sink.format, binary_stdout(), False, schema, rows)
        return
    with _complete_file(sink.path) as file:
        _write(sink.format, file, True, schema, rows)
        size = file.tell()
    write_facts([("written", f"{sink.path}: {counted(rows.count, noun)}, {sized(size)}")])


@dataclass
class _Counted:
    """Batches, and how many rows have passed."""

    batches: Iterable[Any]
    count: int = 0

    def __iter__(self) -> Iterator[Any]:
        for batch in self.batches:
            self.count += len(batch)
            yield batch


@contextmanager
def _complete_file(path: str) -> Iterator[BinaryIO]:
    """A file that appears only if the block succeeds. A link stays a link, and an existing file keeps its mode."""
    place = _checked_place(path)
    temporary = place.with_name(f".{place.name[:200]}.{os.urandom(4).hex()}.partial")
    try:
        with interrupts.deleting(temporary), temporary.open("xb") as file:
            yield file
        if place.exists():
            temporary.chmod(stat.S_IMODE(place.stat().st_mode))
        temporary.replace(place)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.errno is not None:
            raise _unwritable(path, error) from None
        raise


def _checked_place(path: str) -> Path:
    """Where the file goes, behind all links; only a regular file may be there already."""
    if path.endswith(("/", os.sep)):
        raise OptionError(f"--output {path} is a directory; name a file")
    place = Path(os.path.realpath(path))
    try:
        mode = place.stat().st_mode
    except FileNotFoundError:
        return place
    except OSError as error:
        raise _unwritable(path, error) from None
    if stat.S_ISDIR(mode):
        raise OptionError(f"--output {path} is a directory; name a file")
    if not stat.S_ISREG(mode):
        raise OptionError(f"--output {path} is a device or a pipe; leave --output out and redirect standard output")
    return place


def _unwritable(path: str, error: OSError) -> OptionError:
    return OptionError(f"--output {path} cannot be written: {error.strerror}")


def _write(chosen: Format | None, file: BinaryIO, is_file: bool, schema: pa.Schema, batches: Iterable[Any]) -> None:
    match chosen:
        case "json":
            write_json_lines(batches, file)
        case "csv":
            _write_csv(file, schema, batches)
        case "arrow":
            make = pa.ipc.new_file if is_file else pa.ipc.new_stream
            with make(file, schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
        case "parquet":
            _write_parquet(file, schema, batches)


def _write_parquet(file: BinaryIO, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        held: list[pa.RecordBatch] = []
        for batch in batches:
            held.append(batch)
            if sum(one.nbytes for one in held) >= _GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(held, schema))
                held = []
        if held:
            writer.write_table(pa.Table.from_batches(held, schema))


def _write_csv(file: BinaryIO, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    import pyarrow.csv as pcsv

    plain = pa.schema([field if _is_plain(field.type) else pa.field(field.name, pa.string()) for field in schema])
    with pcsv.CSVWriter(file, plain) as writer:
        for batch in batches:
            columns = [array if _is_plain(array.type) else _texts(array) for array in batch.columns]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=plain))


def _is_plain(kind: pa.DataType) -> bool:
    is_number = pat.is_integer(kind) or pat.is_floating(kind) or pat.is_decimal(kind)
    return bool(is_number or pat.is_boolean(kind) or pat.is_string(kind) or pat.is_date(kind))


def _texts(array: pa.Array) -> pa.StringArray:
    """Values that CSV has no form for, as they stand in JSON output: nested ones as JSON, binary as base64."""
    from delta_sidecar.cli.rows import json_values

    return pa.array([_text(value) for value in json_values(array)], pa.string())


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()
