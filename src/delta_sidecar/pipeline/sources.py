"""What is ingested: Parquet, JSON, CSV or Delta by path.

Text comes as lines, which `records` parses under the contract; `parquet_rows` reads Parquet. Spark lists the files, so
its patterns and its rules of hidden names hold for all formats.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args
from urllib.parse import unquote

import pyarrow as pa

from delta_sidecar.errors import InputError, ObjectNotFoundError, OptionError
from delta_sidecar.pipeline.contract import (
    arrow_type,
    check_reserved,
    ddl,
    find_type,
    spark_type,
)
from delta_sidecar.pipeline.event_time import parsed_text
from delta_sidecar.pipeline.failures import spark_failures
from delta_sidecar.pipeline.hadoop import spark_uri
from delta_sidecar.pipeline.records.conversion import Misfit, scalar_of_text
from delta_sidecar.pipeline.records.csv_records import Dialect, header_line
from delta_sidecar.pipeline.records.inference import NOTHING, merged, settled, type_of_text
from delta_sidecar.storage import open_location, parse_location
from delta_sidecar.storage.store import Store
from delta_sidecar.values.bucket_columns import TIME_TYPES, literal, quoted
from delta_sidecar.values.column_names import folded, named_twice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

Format: TypeAlias = Literal["parquet", "json", "csv", "delta"]
FORMATS: tuple[Format, ...] = get_args(Format)
_ENDINGS: dict[str, Format] = {
    "parquet": "parquet",
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
    "csv": "csv",
    "tsv": "csv",
}
_COMPRESSED = re.compile(r"\.(gz|gzip|bz2|zst|zstd|snappy|lz4|deflate)$", re.IGNORECASE)
_GLOB = re.compile(r"[*?\[{]")
_TEXT_OPTIONS: Final = ("encoding", "lineSep", "multiLine", "mode")
_CSV_OPTIONS: Final = ("sep", "delimiter", "quote", "escape", "comment", "nullValue", "header")
_ONE_CHARACTER: Final = ("quote", "escape", "comment")
_FILE_OPTIONS: Final = ("pathGlobFilter", "modifiedBefore", "modifiedAfter")
_STREAM_OPTIONS: Final = ("maxFilesPerTrigger", "maxBytesPerTrigger", "latestFirst", "maxFileAge")
DIRECTORY_COLUMNS: Final = "directoryColumns"
NANOSECONDS: Final = "nanoseconds"
_SWITCHES: Final = (DIRECTORY_COLUMNS, "header", "multiLine")
_LARGE: Final = 4 << 20
"""Files up to here are never divided among tasks: Spark counts that much for opening one."""
_BATCH_BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
_LINE_COLUMNS: Final = ("value", "origin", "start")
_NO_COLUMNS: Final = "rename them, or pass --read-option directoryColumns=false"
_HIVE_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_NAMES: Final = "path STRING, modificationTime TIMESTAMP_LTZ, length BIGINT, content BINARY"
AS_THEY_ARE: Final = {
    "recursiveFileLookup": "true",
    "__globPaths__": "false",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
}
"""Paths are files, not patterns, and their directories are not Spark partitions; none is skipped, whatever the
session says."""
_ANY_AGE: Final = {"maxFileAge": "36500d"}
"""Spark skips files that are a week older than the newest, as a copy that keeps times makes them."""


@dataclass(frozen=True, slots=True)
class Source:
    """Files of one format at a place."""

    uri: str
    format: Format
    options: Mapping[str, str] = field(default_factory=dict)
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.is_text:
            _check_options(self.format, self.options)
            _check_characters(self.options)
        for name in _SWITCHES if self.is_text else (DIRECTORY_COLUMNS,):
            if (value := self.option(name, "false")).lower() not in ("true", "false"):
                raise OptionError(f"read option {name} is {value!r}; it takes true or false")
        if (value := self.option(NANOSECONDS, "cut")).lower() != "cut":
            raise OptionError(f"read option {NANOSECONDS} is {value!r}; it takes cut, or leave it out")

    @property
    def is_text(self) -> bool:
        return self.format in ("json", "csv")

    @property
    def place(self) -> str:
        """The place in Spark's words."""
        return spark_uri(self.uri, self.storage_options)

    def option(self, name: str, default: str = "") -> str:
        """An option by its name, whatever its case."""
        return next((value for key, value in self.options.items() if key.lower() == name.lower()), default)

    def flag(self, name: str, default: bool = False) -> bool:
        return self.option(name, str(default)).lower() == "true"

    def only(self, names: Iterable[str]) -> dict[str, str]:
        return {name: self.option(name) for name in names if self.option(name)}

    @property
    def dialect(self) -> Dialect:
        """How CSV is written."""
        sep = self.option("sep") or self.option("delimiter") or ("\t" if _ending(self.uri) == "tsv" else ",")
        return Dialect(
            sep.replace("\\t", "\t"),
            quote := self.option("quote", '"'),
            self.option("escape", quote),
            self.option("comment"),
            self.option("nullValue"),
            self.flag("header", True),
            self.encoding,
            self.flag("multiLine"),
        )

    @property
    def encoding(self) -> str:
        return self.option("encoding", "utf-8").lower()

    @property
    def is_permissive(self) -> bool:
        return self.option("mode").upper() == "PERMISSIVE"


def _check_options(file_format: str, options: Mapping[str, str]) -> None:
    of_format = _CSV_OPTIONS if file_format == "csv" else ()
    known = {*_TEXT_OPTIONS, *_FILE_OPTIONS, *_STREAM_OPTIONS, DIRECTORY_COLUMNS, *of_format}
    names = {name.lower() for name in known}
    if unknown := sorted(name for name in options if name.lower() not in names):
        raise OptionError(
            f"read option {unknown[0]!r} is not known for {file_format}; known: {', '.join(sorted(known))}"
        )
    mode = next((value for name, value in options.items() if name.lower() == "mode"), "FAILFAST").upper()
    if mode == "DROPMALFORMED":
        raise OptionError(f"mode {mode} would lose records; pass --bad-rows (bad_rows=…) to put them aside")
    if mode not in ("FAILFAST", "PERMISSIVE"):
        raise OptionError(f"mode {mode} is not known; it is FAILFAST or PERMISSIVE")
    encoding = next((value for name, value in options.items() if name.lower() == "encoding"), "utf-8")
    try:
        "".encode(encoding)
    except LookupError:
        raise OptionError(f"encoding {encoding!r} is not known; write it like UTF-8 or ISO-8859-1") from None
    if re.fullmatch("utf[-_]?(16|32)", encoding.lower()):
        raise OptionError(f"encoding {encoding} has two byte orders; say {encoding}LE or {encoding}BE")
    whole = next((value for name, value in options.items() if name.lower() == "multiline"), "").lower() == "true"
    if whole and any(name.lower() == "linesep" and value for name, value in options.items()):
        raise OptionError("lineSep divides lines, and multiLine=true takes files whole: pass only one of them")
    if "\n".encode(encoding) != b"\n" and not whole:
        # Spark divides lines at the byte of a line end, which is a part of a character there.
        raise OptionError(f"encoding {encoding} needs --read-option multiLine=true: its files are parsed whole")


def _check_characters(options: Mapping[str, str]) -> None:
    """Refuse signs of CSV that Spark refuses: one that has several characters, or none where there must be one."""
    for name, value in options.items():
        if name.lower() in _ONE_CHARACTER and len(value) > 1:
            raise OptionError(f"read option {name} takes one character, not {value!r}")
        if name.lower() in ("sep", "delimiter") and not value:
            raise OptionError(f"read option {name} is empty; give what stands between two fields, or leave it out")


def source_of(
    uri: str | os.PathLike[str],
    file_format: str | None = None,
    options: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Source:
    """The files at a place; their format as it is given, or as their names tell it."""
    if file_format is not None and file_format not in FORMATS:
        raise OptionError(f"format {file_format!r} is not one of {', '.join(FORMATS)}")
    text = os.fspath(uri)
    known = infer_format(text, storage_options) if file_format is None else file_format
    return Source(text, known, options or {}, storage_options)


def infer_format(uri: str, storage_options: Mapping[str, str] | None = None) -> Format:
    """Delta where there is a log; else by the ending of the name, or of the files below it."""
    ending = _ENDINGS.get(_ending(uri))
    if ending is not None and not _is_directory(uri):
        return ending
    store = open_location(parse_location(_root(uri)), storage_options)
    if any(_names(store, "_delta_log/")):
        return "delta"
    known: dict[Format, str] = {}
    for name in _names(store, ""):
        if (file_format := _ENDINGS.get(_ending(name))) is not None:
            known.setdefault(file_format, name)
        if len(known) > 1 and not _GLOB.search(uri):
            names = " and ".join(known.values())
            kind, name = next(iter(known.items()))
            glob = f"--format {kind} --read-option pathGlobFilter=*.{name.rpartition('.')[2]}"
            raise InputError(f"{uri} holds files of several formats ({names}); choose one of them: {glob}")
    if known:
        return next(iter(known))
    if _is_missing(uri):
        raise InputError(f"{uri} does not exist; check the path")
    if ending is not None:
        return ending
    raise InputError(f"cannot tell the format of {uri}: no Delta log, no .parquet, .json or .csv there; give --format")


def _root(uri: str) -> str:
    """The directory above the first part of a path that is a pattern."""
    start = _GLOB.split(uri)[0]
    return start if start == uri else start.rpartition("/")[0] or "."


def _is_directory(uri: str) -> bool:
    location = parse_location(uri)
    return location.scheme == "file" and os.path.isdir(location.path)


def _is_missing(uri: str) -> bool:
    """Whether it is a local path, and nothing is there."""
    location = parse_location(_root(uri))
    return location.scheme == "file" and not os.path.exists(location.path)


def _ending(name: str) -> str:
    return _COMPRESSED.sub("", name.rstrip("/")).rpartition(".")[2].lower()


def _names(store: Store, prefix: str) -> Iterator[str]:
    """Names of data files; those that begin with `_` or `.` are not data, nor what is below such a directory."""
    try:
        for page in store.list_after(prefix):
            yield from (m.path for m in page if prefix or not any(map(_is_hidden, m.path.split("/"))))
    except ObjectNotFoundError:
        return


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


# The files of a batch.


@dataclass(frozen=True, slots=True)
class File:
    """A file as Spark lists it."""

    path: str
    size: int


def list_files(spark: SparkSession, source: Source) -> list[File]:
    """All files at the place, in the order of their names, subdirectories too."""
    with spark_failures(f"{source.uri} cannot be listed"):
        frame = _names_reader(spark.read, source).load(source.place)
        files = files_of(frame)
        # Spark hands no empty file to a task: of text that is right, Parquet is never empty.
        is_filtered = bool(source.only(_FILE_OPTIONS))
        if source.format == "parquet" and not is_filtered:
            given = {_bare(file.path) for file in files}
            if empty := [path for path in map(unquote, frame.inputFiles()) if _bare(path) not in given]:
                raise InputError(f"{min(empty)} is not a Parquet file: it is empty")
        return files


def _bare(path: str) -> str:
    """A path without the many ways to write its beginning."""
    return path.rpartition(":")[2].lstrip("/")


def stream_files(spark: SparkSession, source: Source) -> DataFrame:
    """A stream of file names: each batch of it is a batch of files."""
    with spark_failures(f"{source.uri} cannot be read as a stream"):
        reader = _names_reader(spark.readStream, source).options(**(_ANY_AGE | source.only(_STREAM_OPTIONS)))
        frame: DataFrame = reader.load(source.place)
        return frame.select("path", "length")


def _names_reader(reader: Any, source: Source) -> Any:
    # The content is a column that nobody asks for, so no file is opened.
    return reader.format("binaryFile").schema(_NAMES).options(recursiveFileLookup="true", **source.only(_FILE_OPTIONS))


def files_of(frame: DataFrame) -> list[File]:
    """The files a frame of names holds."""
    names = frame.select("path", "length").toArrow()
    return sorted(
        (File(*pair) for pair in zip(*(column.to_pylist() for column in names.columns))), key=lambda f: f.path
    )


# Columns in the names of directories.


@dataclass(frozen=True, slots=True)
class DirectoryColumn:
    """A column that directories named `k=v` give."""

    name: str
    kind: DataType
    written: str
    """The name as directories have it, with its escapes."""

    def sql(self, root: str) -> str:
        """SQL: its value for the file of a row."""
        place = decoded_sql("_metadata.file_path")
        path = f"substr({place}, instr({place}, {literal(root)}) + {len(root)})"
        raw = f"regexp_extract(concat('/', {path}), {literal(f'/{re.escape(self.written)}=([^/]*)/')}, 1)"
        there = f"concat('/', {path}) RLIKE {literal(f'/{re.escape(self.written)}=[^/]*/')}"
        # The name of the directory has escapes of its own, beside those of the URI.
        value = decoded_sql(raw)
        text = f"nullif({value}, {literal(_HIVE_NULL)})"
        name = self.kind.simpleString()
        # A time without a zone is UTC, not of the session's zone.
        made = parsed_text(text, name) if name in TIME_TYPES else f"CAST({text} AS {ddl(self.kind)})"
        message = f"concat({literal(f'{self.written}=')}, {raw}, {literal(f' is no {name}; {_NO_COLUMNS}')})"
        lost = f"CASE WHEN {text} IS NOT NULL THEN CAST(raise_error({message}) AS {ddl(self.kind)}) END"
        return f"CASE WHEN {there} THEN coalesce({made}, {lost}) END"


def decoded_sql(sql: str) -> str:
    """SQL: a text without its percent escapes; a plus is a plus in paths, and a percent sign alone is one."""
    return f"url_decode(regexp_replace(replace({sql}, '+', '%2B'), '%(?![0-9A-Fa-f]{{2}})', '%25'))"


def directory_columns(source: Source, files: Sequence[File], known: StructType | None) -> list[DirectoryColumn]:
    """The columns that names of directories below the source give, in the types of the contract where they fit."""
    if not source.flag(DIRECTORY_COLUMNS, True):
        return []
    values: dict[str, set[str]] = {}
    for directory in {_below(source, file.path).rpartition("/")[0] for file in files}:
        parts = [part.partition("=") for part in directory.split("/")]
        here = [(name, value) for name, equals, value in parts if name and equals]
        if twice := named_twice(unquote(name) for name, _ in here):
            raise InputError(f"{source.uri}: directories give column {twice} twice: {directory}; {_NO_COLUMNS}")
        for name, value in here:
            _unescaped(source, directory, name)
            values.setdefault(name, set()).add(_unescaped(source, directory, value))
    names = [unquote(name) for name in values]
    check_reserved(names, f"{source.uri}, by the names of its directories,")
    if twice := named_twice(names):
        written = [name for name in values if folded(unquote(name)) == folded(twice)]
        raise InputError(f"{source.uri}: directories write column {twice} as {' and '.join(written)}; {_NO_COLUMNS}")
    return [
        DirectoryColumn(name, _directory_type(name, texts, known), written)
        for name, (written, texts) in zip(names, values.items())
    ]


def _unescaped(source: Source, directory: str, text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise InputError(f"{source.uri}: the escapes of {directory} are not UTF-8; {_NO_COLUMNS}") from None


def _below(source: Source, path: str) -> str:
    root, place = parse_location(_root(source.uri)), parse_location(path)
    return place.path[len(root.path) :].lstrip("/") if place.path.startswith(root.path) else place.path


def _directory_type(name: str, values: Iterable[str], known: StructType | None) -> DataType:
    texts = [value for value in values if value != _HIVE_NULL]
    wanted = None if known is None else find_type(known, (name,))
    if wanted is not None and _all_fit(texts, wanted, name):
        return wanted
    kind = settled(reduce(merged, map(type_of_text, texts), NOTHING))
    return spark_type(kind if pa.types.is_integer(kind) else pa.string())


def _all_fit(texts: Iterable[str], kind: DataType, name: str) -> bool:
    wanted = arrow_type(kind, name)
    convert = scalar_of_text(wanted)
    if not pa.types.is_string(wanted) and any(text != text.strip() for text in texts):
        return False
    try:
        return convert is not None and all(convert(text) is not None for text in texts)
    except Misfit:
        return False


def root_in_paths(source: Source) -> str:
    """The root as it stands in the paths of files below it."""
    return f"/{parse_location(_root(source.uri)).path.strip('/')}/".replace("//", "/")


# Lines and rows.


@dataclass(frozen=True, slots=True)
class Lines:
    """Records of text, not parsed yet, and further columns that are taken as they are.

    The frame has `value` (bytes), `origin` (the file, or where else a record is from) and `start` (the byte of its file
    that its task began at). If it also has `__reason`, lines with a reason are not records.
    """

    frame: DataFrame
    source: Source
    label: str
    extras: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    """Of files that are divided among tasks: their first lines."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Typed rows of one schema.

    If the frame has `__reason`, rows with a reason are not rows: then `__origin` and `__raw` say what they were.
    """

    frame: DataFrame
    label: str
    has_origin: bool = False
    """Whether a column `__origin` says which file a row is from."""

    @classmethod
    def of(cls, frame: DataFrame, label: str) -> Rows:
        """The rows of a frame that is not ours."""
        check_reserved(frame.columns, label)
        return cls(frame, label)


def read_lines(spark: SparkSession, source: Source, files: Sequence[File], known: StructType | None = None) -> Lines:
    """The lines of some files, or the files themselves where a record may have several lines."""
    columns = directory_columns(source, files, known)
    if taken := [column.name for column in columns if folded(column.name) in _LINE_COLUMNS]:
        raise InputError(
            f"{source.uri}: directories give a column {taken[0]}, a name that ingest reserves; {_NO_COLUMNS}"
        )
    source = _separated(source, files)
    with spark_failures(f"{source.uri} cannot be read as {source.format}"):
        frame = text_frame(spark, source, [file.path for file in files])
        root = root_in_paths(source)
        extras = [f"{column.sql(root)} AS {quoted(column.name)}" for column in columns]
        lines = frame.selectExpr(
            "CAST(value AS BINARY) AS value",
            "_metadata.file_path AS origin",
            "CAST(_metadata.file_block_start AS BIGINT) AS start",
            *extras,
        )
        headers = _headers(spark, source, files) if source.format == "csv" else {}
    return Lines(lines, source, source.uri, tuple(column.name for column in columns), headers)


def settings_for_lines(spark: SparkSession, source: Source, files: Sequence[File]) -> dict[str, str]:
    """The session's settings for the tasks that read some files.

    Spark asks after each line how large the Arrow batch is by now, which takes a fifth of a pass. A batch is never more
    than what one task reads: where that is bounded by the split of plain files, the question is left out.
    """
    plain = source.is_text and not source.flag("multiLine") and not any(_COMPRESSED.search(f.path) for f in files)
    return {_BATCH_BYTES: str(2**31 - 1)} if plain and not _divides_otherwise(spark) else {}


def _separated(source: Source, files: Sequence[File]) -> Source:
    """The source with the separator that the names of its files tell, where none is given."""
    if source.format != "csv" or source.option("sep") or source.option("delimiter"):
        return source
    tabs = {_ending(file.path) == "tsv" for file in files}
    if len(tabs) > 1:
        raise InputError(f"{source.uri} holds .tsv files beside others; give a pattern, or --read-option sep=…")
    return replace(source, options={**source.options, "sep": "\t"}) if True in tabs else source


def text_frame(spark: SparkSession, source: Source, paths: list[str]) -> DataFrame:
    """The lines of files as Spark divides them."""
    options = dict(AS_THEY_ARE)
    if source.flag("multiLine"):
        options["wholetext"] = "true"
    elif source.option("lineSep"):
        options["lineSep"] = source.option("lineSep")
    if source.encoding not in ("utf-8", "utf8"):
        options["encoding"] = source.encoding
    frame: DataFrame = spark.read.format("text").options(**options).load(paths)
    return frame


def _headers(spark: SparkSession, source: Source, files: Sequence[File]) -> dict[str, str]:
    """The first lines of files that Spark may divide, which say what columns there are, by name or by number; a task
    that has the begin of a file sees its first line itself."""
    from pyspark.sql import functions as f

    if source.flag("multiLine"):
        return {}
    least = 0 if _divides_otherwise(spark) else _LARGE
    large = [file.path for file in files if file.size > least and _may_be_divided(file.path)]
    if not large:
        return {}
    frame = text_frame(spark, source, large)
    first = frame.where("_metadata.file_block_start = 0 AND length(value) > 0")
    if comment := source.option("comment"):
        first = first.where(f"NOT startswith(value, {literal(comment)})")
    placed = first.select(
        f.col("_metadata.file_path").alias("origin"),
        f.col("value").cast("binary").alias("line"),
        f.monotonically_increasing_id().alias("at"),
    )
    headers = placed.groupBy("origin").agg(f.min_by("line", "at").alias("line")).toArrow()
    origins, lines = (column.to_pylist() for column in headers.columns)
    return {origin: header_line(line, source.dialect, unquote(origin)) for origin, line in zip(origins, lines)}


def _may_be_divided(path: str) -> bool:
    """Whether Spark may give a file to several tasks: of what is compressed only bzip2."""
    return not _COMPRESSED.search(path) or path.lower().endswith(".bz2")


def _divides_otherwise(spark: SparkSession) -> bool:
    """Whether the session divides files into other pieces than Spark's default."""
    usual = {"spark.sql.files.maxPartitionBytes": "134217728", "spark.sql.files.openCostInBytes": "4194304"}
    return any(str(spark.conf.get(name, value)).rstrip("bB") != value for name, value in usual.items())


def read_delta(spark: SparkSession, source: Source) -> DataFrame:
    """The rows of a table at one version: Spark would look for the newest again each time the frame is read, and it is
    read to be checked and to be written."""
    options = dict(source.options)
    if not source.option("versionAsOf") and not source.option("timestampAsOf"):
        newest = spark.sql(f"DESCRIBE HISTORY delta.{quoted(source.place)} LIMIT 1").select("version").toArrow()
        options["versionAsOf"] = str(newest.column(0)[0].as_py())
    frame: DataFrame = spark.read.format("delta").options(**options).load(source.place)
    return frame
