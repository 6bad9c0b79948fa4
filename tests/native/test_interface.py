"""The C interface: bad arguments, callbacks that stop or call back in, threads, and what many calls leave behind."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_sidecar import DeltaTable, build_index
from delta_sidecar.index.build.build import BuildOptions
from delta_sidecar.testing import LogBuilder, add
from tests.fuzz.tables import make_table
from tests.index.models import small_parts
from tests.native import library
from tests.native.library import (
    BAD_ARGUMENT,
    BAD_PREDICATE,
    CORRUPT,
    NO_INDEX,
    NO_TABLE,
    NO_VERSION,
    OK,
    STOPPED,
    Callback,
    NativeError,
    lazily,
    native,
)

pytestmark = library.needed()

FILES = 50
THREADS = (None, 1, 2, 4)
"""What `threads` may be. A number starts them however little there is to read; None starts none for a small table."""


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose index has many parts of a few row groups, and two commits after it."""
    root = tmp_path_factory.mktemp("native") / "parts"
    make_table(root, vectors=True)
    return root


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of some files with an index, and one commit after it."""
    root = tmp_path_factory.mktemp("native") / "table"
    log = LogBuilder(root).metadata({"id": "long", "day": "date"}, ["day"])
    log.commit(*(file(number) for number in range(FILES)))
    build_index(root)
    log.commit(file(FILES))
    return root


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of many row groups: where a listing ends early, most are not read."""
    root = tmp_path_factory.mktemp("native") / "many"
    made(root, 20_000, part_rows=5_000, row_group_rows=500)
    return root


def made(root: Path, count: int, part_rows: int, row_group_rows: int) -> None:
    LogBuilder(root).metadata({"id": "long", "day": "date"}, ["day"]).commit(*map(file, range(count)))
    limits = small_parts(rows=part_rows, row_group_rows=row_group_rows)
    build_index(root, options=BuildOptions(part_rows=part_rows, limits=limits))


def file(number: int) -> Any:
    least, day = number * 10, f"2026-02-{number % 28 + 1:02}"
    bounds = {"minValues": {"id": least}, "maxValues": {"id": least + 9}, "nullCount": {"id": 0}}
    return add(f"day={day}/f{number}.parquet", partition={"day": day}, stats={"numRecords": 10, **bounds})


def test_a_listing_is_pythons(table: Path) -> None:
    found = library.files(table)
    rows = DeltaTable(table).scan_files(columns=["path", "size", "num_records"]).read_all().to_pylist()
    assert sorted(f["path"] for f in found) == sorted(r["path"] for r in rows)
    assert found[0]["path"] == f"day=2026-02-{FILES % 28 + 1:02}/f{FILES}.parquet", "the newest commit comes first"
    assert {f["uri"] for f in found} == set(DeltaTable(table).file_uris())
    assert [f["num_records"] for f in found] == [10] * (FILES + 1)


@pytest.mark.parametrize("predicate", [None, "p >= 'h2'", "x = 1", "NOT (s = 'b')", "t >= '2026-02-10T03:00:00Z'"])
def test_threads_change_nothing(parts: Path, predicate: str | None) -> None:
    request = {"predicate": predicate, "threads": 1}
    alone = library.files(parts, **request)
    assert alone
    for threads in (None, 2, 3, 8, 64):
        assert library.files(parts, **request | {"threads": threads}) == alone
        budget = request | {"threads": threads, "memory_budget": 1}
        assert library.files(parts, **budget) == alone
        assert library.stream(parts, **budget).read_all() == library.stream(parts, **request).read_all()


def test_large_row_groups_are_read_in_their_place(tmp_path: Path) -> None:
    """They are not read ahead; the small ones before and after them are."""
    made(tmp_path, 60_000, part_rows=40_000, row_group_rows=21_000)
    alone = library.stream(tmp_path, threads=1, columns=["path"]).read_all()
    assert alone.num_rows == 60_000
    for threads in (None, 3):
        assert library.stream(tmp_path, threads=threads, columns=["path"]).read_all() == alone


def test_a_stream_has_the_columns_that_were_asked_for(table: Path) -> None:
    reader = library.stream(table, columns=["size", "path"], predicate="id = 7")
    assert reader.schema.names == ["size", "path"]
    assert [row["path"] for row in reader.read_all().to_pylist()] == ["day=2026-02-01/f0.parquet"]
    with library.stream(table) as early:
        assert early.read_next_batch().num_rows
    schema = DeltaTable(table).scan_files(columns=["path", "partition_values", "deletion_vector"]).schema
    assert library.stream(table, columns=["path", "partition_values", "deletion_vector"]).schema == pa.schema(schema)


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (b"{", BAD_ARGUMENT, "not JSON"),
        (b"[]", BAD_ARGUMENT, "not a JSON object"),
        (b"\xff\xfe", BAD_ARGUMENT, "not UTF-8"),
        ({"colums": ["path"]}, BAD_ARGUMENT, "unknown option 'colums'"),
        ({"columns": ["paths"]}, BAD_ARGUMENT, "no column 'paths'"),
        ({"columns": []}, BAD_ARGUMENT, "at least one"),
        ({"columns": "path"}, BAD_ARGUMENT, "list of names"),
        ({"limit": -1}, BAD_ARGUMENT, "limit"),
        ({"limit": 1.5}, BAD_ARGUMENT, "limit"),
        *(({"threads": wrong}, BAD_ARGUMENT, "from 1 to 64") for wrong in (0, -1, 1.5, 65, 1 << 70, "2", True, [])),
        ({"fallback": "spark"}, BAD_ARGUMENT, "fallback"),
        ({"storage_options": []}, BAD_ARGUMENT, "storage_options"),
        ({"version": 99}, NO_VERSION, "newest is 1"),
        ({"version": -1}, NO_VERSION, "below 0"),
        ({"predicate": ""}, BAD_PREDICATE, "empty"),
        ({"predicate": "id >"}, BAD_PREDICATE, "end of the predicate"),
        ({"predicate": "id > 'x"}, BAD_PREDICATE, "closing '"),
        ({"predicate": "nothing = 1"}, BAD_PREDICATE, "no column 'nothing'"),
        ({"predicate": "lower(id) = 1"}, BAD_PREDICATE, "the function 'lower'"),
        ({"predicate": "id = 'many'"}, BAD_PREDICATE, "cannot be compared"),
        ({"predicate": {"and": []}}, BAD_PREDICATE, "at least one"),
        ({"predicate": {"column": "id", "op": "~", "value": 1}}, BAD_PREDICATE, "operator '~'"),
        ({"predicate": "(" * 500 + "id = 1" + ")" * 500}, BAD_PREDICATE, "too deeply"),
        ({"predicate": "x" * 10_000_000}, BAD_PREDICATE, "no column"),
        ({"predicate": f"id IN ({', '.join(['1'] * 1_000_000)})"}, OK, ""),
        ({"predicate": " AND ".join(["id = 1"] * 100_000)}, OK, ""),
        ("[" * 100_000, BAD_ARGUMENT, "not JSON"),
    ],
)
def test_bad_options_are_refused_by_name(table: Path, options: library.Options, code: int, words: str) -> None:
    assert lazily(table, options, lambda file: True) == code
    message = library.last_error()
    assert words in message
    assert "\n" not in message
    assert len(message) < 600


def test_bad_places_are_refused(tmp_path: Path) -> None:
    assert lazily(None, None, lambda file: True) == BAD_ARGUMENT
    assert lazily(b"\xff", None, lambda file: True) == BAD_ARGUMENT
    assert lazily(b"", None, lambda file: True) == BAD_ARGUMENT
    assert lazily(b"ftp://host/table", None, lambda file: True) == BAD_ARGUMENT
    assert lazily(tmp_path / "nothing", None, lambda file: True) == NO_TABLE
    assert str(tmp_path / "nothing") in library.last_error()


def test_null_pointers_are_refused(table: Path) -> None:
    place = str(table).encode()
    assert native().delta_scan_lazy(place, None, ctypes.cast(None, Callback), None) == BAD_ARGUMENT
    assert native().delta_scan_stream(place, None, None) == BAD_ARGUMENT
    assert native().delta_scan_open(place, None, None) == BAD_ARGUMENT
    assert native().delta_scan_next(None, None) == BAD_ARGUMENT
    native().delta_scan_close(None)
    native().delta_free_string(None)


@pytest.mark.parametrize("threads", THREADS)
def test_a_scan_that_failed_does_not_go_on(tmp_path: Path, threads: int | None) -> None:
    """The parts after the broken one are sound: going on would look like a whole list without its files."""
    made = make_table(tmp_path, checkpoint=None, vectors=False)
    right = [found["path"] for found in library.files(tmp_path, threads=1)]

    def first(core: Path) -> int:
        """The place in the listing at which a part begins."""
        paths = set(pq.read_table(core, columns=["path"]).column("path").to_pylist())
        return next(at for at, path in enumerate(right) if path in paths)

    places = sorted((first(core), core) for core in (made.sidecars / part.core_name for part in made.parts()))
    (given, broken), (_, gone) = places[4], places[6]
    broken.write_bytes(b"no Parquet")
    gone.unlink()
    scan, file = ctypes.c_void_p(), ctypes.POINTER(library.File)()
    options = library.encoded({"threads": threads})
    assert native().delta_scan_open(str(tmp_path).encode(), options, ctypes.byref(scan)) == OK
    try:
        codes = [OK]
        while codes[-1] == OK:
            codes.append(native().delta_scan_next(scan, ctypes.byref(file)))
        said = library.last_error()
        assert broken.name in said, "the first error in the order of the listing"
        assert len(codes) - 2 == given, "what is before it was given"
        assert codes[-1] == CORRUPT
        for _ in range(3):
            assert native().delta_scan_next(scan, ctypes.byref(file)) == CORRUPT
            assert library.last_error() == said
    finally:
        native().delta_scan_close(scan)
    stream = library.stream(tmp_path, threads=threads)
    counts: list[int] = []
    with pytest.raises(pa.ArrowException, match=broken.name):
        counts.extend(batch.num_rows for batch in stream)
    assert sum(counts) == given
    for _ in range(3):
        with pytest.raises(pa.ArrowException, match=broken.name):
            stream.read_next_batch()


def test_no_index_is_said_at_once(tmp_path: Path) -> None:
    LogBuilder(tmp_path / "t").commit(add("a.parquet"))
    with pytest.raises(NativeError, match="no usable index") as raised:
        library.files(tmp_path / "t")
    assert raised.value.code == NO_INDEX
    assert [f["path"] for f in library.files(tmp_path / "t", fallback="log")] == ["a.parquet"]


def test_the_last_error_is_the_threads_own(table: Path) -> None:
    assert lazily(table, "{", lambda file: True) == BAD_ARGUMENT
    mine = library.last_error()
    theirs: list[str] = []

    def work() -> None:
        lazily(table, None, lambda file: True)
        theirs.append(library.last_error())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert theirs == [""]
    assert library.last_error() == mine != ""
    copy = native().delta_last_error_copy()
    assert ctypes.string_at(copy).decode() == mine
    native().delta_free_string(copy)


def test_a_callback_may_stop_and_may_call_back_in(table: Path) -> None:
    seen: list[str] = []

    def stop(file: dict[str, Any]) -> bool:
        seen.append(file["path"])
        return len(seen) < 3

    assert lazily(table, None, stop) == STOPPED
    assert len(seen) == 3
    inner: list[int] = []
    assert lazily(table, {"limit": 2}, lambda file: inner.append(len(library.files(table))) is None) == OK
    assert inner == [FILES + 1] * 2


@pytest.mark.parametrize("threads", [None, 2, 4])
def test_threads_end_with_the_listing(many: Path, threads: int | None) -> None:
    """However it ends: at its last file, or before, while they have row groups in flight."""
    before = running()
    with library.opened(many, threads=threads) as scan:
        taken = [next(scan) for _ in range(3_000)]
        assert running() == before + (threads or min(os.cpu_count() or 1, 4)) - 1
        rest = list(scan)
        assert running() == before, "after the last file, though the scan is open"
    assert len({found["path"] for found in taken + rest}) == 20_000
    with library.opened(many, threads=threads) as scan:
        next(scan)
    assert running() == before
    with library.stream(many, threads=threads) as early:
        for _ in range(6):
            early.read_next_batch()
    assert running() == before
    left = iter(range(2_500))
    assert lazily(many, {"threads": threads}, lambda file: next(left, None) is not None) == STOPPED
    assert running() == before


def test_few_row_groups_and_limits_start_no_thread(many: Path) -> None:
    before = running()
    one_day = {"predicate": "day = '2026-02-07'"}
    for options in ({"limit": 10_000, "threads": 4}, {"threads": 1}, one_day):
        with library.opened(many, **options) as scan:
            assert len([next(scan) for _ in range(700)]) == 700
            assert running() == before, options


def test_without_threads_to_be_had_the_caller_does_the_work(many: Path) -> None:
    """No thread can be started in a process where each wants a stack larger than the memory that can be addressed."""
    program = f"from tests.native import library; print(len(library.files({str(many)!r}, threads=4)))"
    environment = {**os.environ, "RUST_MIN_STACK": str(1 << 48), "PYTHONPATH": str(library.ROOT)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout.strip()) == (0, "20000"), done.stderr


def test_a_process_with_limited_addresses_starts_no_thread(many: Path) -> None:
    program = f"""
import resource
from tests.native import library, test_interface
limit = 8 << 30
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
with library.opened({str(many)!r}) as scan:
    before = test_interface.running()
    running = [test_interface.running() for _ in scan]
    print(len(running), max(running) - before)
"""
    environment = {**os.environ, "PYTHONPATH": str(library.ROOT)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout.strip()) == (0, "20000 0"), done.stderr


def running() -> int:
    return psutil.Process().num_threads()


def test_a_callback_that_stalls_holds_up_nobody_else(table: Path) -> None:
    waits, goes_on = threading.Event(), threading.Event()
    seen: list[str] = []

    def stall(file: dict[str, Any]) -> bool:
        seen.append(file["path"])
        waits.set()
        return goes_on.wait(30)

    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(lazily(table, None, stall)))
    thread.start()
    try:
        assert waits.wait(30)
        for _ in range(20):
            assert len(library.files(table)) == FILES + 1
        assert len(seen) == 1, "nothing was given while the callback had not returned"
    finally:
        goes_on.set()
        thread.join()
    assert codes == [OK]
    assert len(set(seen)) == FILES + 1


def test_a_scan_gives_its_files_one_by_one(table: Path) -> None:
    with library.opened(table) as scan:
        assert next(scan)["path"].startswith("day=")
    with library.opened(table) as scan:
        assert len(list(scan)) == FILES + 1


def test_limits(table: Path) -> None:
    for limit in (0, 1, 7, 100):
        assert len(library.files(table, limit=limit)) == min(limit, FILES + 1)


@pytest.mark.parametrize("threads", [None, 3])
def test_many_threads(table: Path, parts: Path, threads: int | None) -> None:
    calls = int(os.environ.get("DELTA_SIDECAR_NATIVE_CALLS", "200")) // 2
    every = library.files(parts, threads=1)
    wrong: list[object] = []

    def work(number: int) -> None:
        for call in range(calls):
            wanted = (number * 7 + call) % FILES
            found = library.files(table, predicate=f"id = {wanted * 10 + 3}", columns=["path"], threads=threads)
            if [f["path"] for f in found] != [file(wanted).path]:
                wrong.append(found)
            if call % 20 == number and library.files(parts, threads=threads) != every:
                wrong.append(call)

    workers = [threading.Thread(target=work, args=[number]) for number in range(8)]
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("threads", [None, 3])
def test_many_calls_leave_nothing_behind(table: Path, parts: Path, threads: int | None) -> None:
    calls = int(os.environ.get("DELTA_SIDECAR_NATIVE_CALLS", "200")) // 2
    process = psutil.Process()

    def many() -> None:
        for call in range(calls):
            library.files(table, predicate=f"id = {call % 500}", threads=threads)
            with library.opened(parts, threads=threads) as scan:
                next(scan)
            library.stream(parts, threads=threads).close()
            library.stream(table, limit=3, threads=threads).close()
            lazily(table, "{", lambda file: True)

    many()
    memory, descriptors, before = process.memory_info().rss, process.num_fds(), running()
    many()
    assert process.num_fds() == descriptors
    assert running() == before
    assert process.memory_info().rss - memory < 4 << 20


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("valgrind"), reason="there is no valgrind")
@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")
def test_under_a_memory_checker(table: Path, parts: Path, tmp_path: Path) -> None:
    (tmp_path / "libdelta_sidecar.so").symlink_to(library.library_path().resolve())
    source, program = Path(__file__).with_name("exercise.c"), tmp_path / "exercise"
    flags = [
        "-Wall",
        "-Wextra",
        "-Werror",
        "-g",
        "-I",
        library.ROOT / "native",
        "-L",
        tmp_path,
        f"-Wl,-rpath,{tmp_path}",
    ]
    subprocess.run(["cc", *flags, source, "-ldelta_sidecar", "-o", program], check=True)
    checks = ["--error-exitcode=99", "--leak-check=full", "--show-leak-kinds=definite,indirect,possible"]
    checks += ["--errors-for-leak-kinds=definite,indirect,possible", "--track-fds=yes"]
    for listed, predicate in ((table, "id < 200"), (parts, "x < 3")):
        done = subprocess.run(["valgrind", *checks, program, listed, predicate], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "ERROR SUMMARY: 0 errors" in done.stderr
        assert done.stdout.startswith(native().delta_version().decode())


def test_the_header_says_what_the_library_has(table: Path) -> None:
    header = (library.ROOT / "native/delta_sidecar.h").read_text()
    declared = set(re.findall(r"\b(delta_[a-z_]+)\(", header))
    assert all(hasattr(native(), name) for name in declared)
    symbols = subprocess.run(["nm", "-D", "--defined-only", library.library_path()], capture_output=True, text=True)
    exported = {line.split()[-1] for line in symbols.stdout.splitlines() if " T " in line}
    assert {name for name in exported if name.startswith("delta_")} == declared
    codes = dict(re.findall(r"#define DELTA_([A-Z_]+) (\d+)", header))
    assert codes.pop("ABI_VERSION") == str(native().delta_abi_version())
    assert codes == {name: str(getattr(library, name)) for name in codes}


def test_the_library_is_small_and_needs_libc_only() -> None:
    path = library.library_path()
    assert path.stat().st_size <= 10_000_000
    needed = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
    names = re.findall(r"NEEDED.*\[(.+)\]", needed)
    of_libc = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2"}
    assert set(names) <= of_libc | {"ld-linux-aarch64.so.1"}, json.dumps(names)
