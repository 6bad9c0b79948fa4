"""`sidecar explain`, `info`, `history`, and the command itself."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import delta_sidecar
from delta_sidecar import DeltaTable
from delta_sidecar.index.build.build import build_index
from delta_sidecar.storage import open_store
from delta_sidecar.testing.actions import add
from delta_sidecar.testing.table_builder import LogBuilder
from delta_sidecar.texts import sized
from tests.cli.running import invoke, sidecar
from tests.fuzz.tables import flipped, make_table


def stats_of(x: int) -> dict[str, Any]:
    return {"numRecords": 1, "minValues": {"x": x}, "maxValues": {"x": x}}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    builder = LogBuilder(tmp_path).metadata({"x": "long"}, configuration={"delta.appendOnly": "false"})
    builder.commit(*(add(f"{x}.parquet", size=5, stats=stats_of(x)) for x in range(4)))
    return builder.checkpoint().commit(add("new.parquet", size=7)).root


def test_explain_says_what_was_done_and_what_it_cost(table: Path) -> None:
    (report,) = invoke("explain", table, "--where", "x >= 2", "--json").objects
    assert set(report) == {"plan", "metrics", "opening"}
    assert report["plan"]["base"] == "classic checkpoint 0"
    assert report["plan"]["commits"] == 1
    assert report["plan"]["strategy"] in ("forward", "reverse")
    assert report["metrics"]["files_emitted"] == 3
    assert report["metrics"]["files_pruned"] == 2
    assert report["metrics"]["requests"] > 0
    assert report["opening"]["requests"] > 0


def test_explain_for_people(table: Path) -> None:
    headline, blank, *details = invoke("explain", table, "--where", "x >= 2").out.splitlines()
    assert re.fullmatch(r"reads 1 of 1 row group, 1 commit, [\d.]+ (bytes|kB); [\d,.]+ m?s", headline)
    assert blank == ""
    lines = dict(line.split(maxsplit=1) for line in details)
    assert {"table", "version", "base", "tail", "strategy", "predicate", "done", "cost", "opening"} <= set(lines)
    assert "2 of 5 pruned" in lines["done"]


def test_explain_says_what_an_index_would_save(table: Path) -> None:
    shown = invoke("explain", table, "--where", "x >= 2").out
    (told,) = invoke("explain", table, "--where", "x >= 2", "--json").objects
    read = told["opening"]["bytes_read"] + told["metrics"]["bytes_read"]
    assert f"this listing read {sized(read)} of checkpoint and log" in shown
    assert "checked 5 files to find 3 files" in shown
    assert f"sidecar build {table}" in shown
    assert "every file" in invoke("explain", table).out
    assert invoke("build", table).code == 0
    indexed = invoke("explain", table, "--where", "x >= 2").out
    assert indexed.startswith("reads 1 of 1 part, 1 of 1 row group, ")
    assert "sidecar build" not in indexed


@pytest.mark.parametrize("checkpoint", [0, None])
def test_explain_of_an_older_version_names_an_index_that_helps(tmp_path: Path, checkpoint: int | None) -> None:
    builder = LogBuilder(tmp_path).metadata({"x": "long"})
    builder.commit(*(add(f"{x}.parquet", size=5, stats=stats_of(x)) for x in range(4)))
    if checkpoint is not None:
        builder.checkpoint()
    builder.commit(add("4.parquet", size=5, stats=stats_of(4))).commit(add("5.parquet", size=5, stats=stats_of(5)))
    older = ("explain", tmp_path, "--version", "1", "--where", "x >= 2")
    assert invoke("build", tmp_path).code == 0
    advice = re.search(r"sidecar build (\S+) --version (\d+)", invoke(*older).out)
    assert advice
    assert invoke("build", advice[1], "--version", advice[2]).code == 0
    assert invoke(*older).out.startswith("reads 1 of 1 part, ")


def test_explain_before_it_runs_says_at_most(table: Path) -> None:
    assert DeltaTable(table).scan_files("x >= 2").explain().startswith("reads at most ")
    build_index(open_store(str(table)))
    with DeltaTable(table).scan_files("x >= 2") as scan:
        assert scan.headline().startswith("reads at most 1 of 1 part, 1 row group, ")
        list(scan)
        assert scan.headline().startswith("reads 1 of 1 part, 1 of 1 row group, ")


@pytest.mark.parametrize(("checkpoint", "read"), [(2, "classic checkpoint 2"), (None, "the log alone")])
def test_explain_says_at_once_that_it_fell_back(tmp_path: Path, checkpoint: int | None, read: str) -> None:
    made = make_table(tmp_path, checkpoint=checkpoint)
    broken = made.sidecars / made.parts()[2].core_name
    flipped(broken)
    headline, _, reason, *details = invoke("explain", tmp_path).out.splitlines()
    assert headline.startswith(f"fell back to {read}: ")
    assert re.match(rf"fallback +_delta_log/_sidecars/{broken.name} is damaged", reason)
    shown = [re.split(" {2,}", line) for line in details]
    assert ["base", f"{read}, read instead of the planned base"] in shown
    assert [name for name, value in shown if value.startswith(("index 5", "8 parts"))] == ["planned", "planned"]
    assert ["index", f"damaged; rebuild it from scratch: sidecar build --full {tmp_path}"] in shown


def test_explain_does_not_complain_of_an_index_that_was_not_needed(tmp_path: Path) -> None:
    made = make_table(tmp_path)
    shown = invoke("explain", made.root, "--limit", "1").out
    assert "fallback" not in shown
    assert "sidecar build" not in shown


def test_explain_prints_no_files(table: Path) -> None:
    assert "new.parquet" not in invoke("explain", table).out


def test_info(table: Path) -> None:
    (facts,) = invoke("info", table, "--json").objects
    assert facts["version"] == 1
    assert facts["schema"]["fields"][0]["name"] == "x"
    assert facts["properties"] == {"delta.appendOnly": "false"}
    assert facts["tail_commits"] == 1
    assert "files" not in facts
    (counted,) = invoke("info", table, "--json", "--files").objects
    assert (counted["files"], counted["bytes"]) == (5, 27)


def test_info_for_people(table: Path) -> None:
    out = invoke("info", table, "--files").out
    assert "classic checkpoint 0" in out
    assert "delta.appendOnly = false" in out
    assert "x long" in out
    assert "5, 27 bytes" in out


def test_history_newest_first(table: Path) -> None:
    assert [entry["version"] for entry in invoke("history", table, "--json").objects] == [1, 0]
    assert [entry["version"] for entry in invoke("history", table, "--json", "--limit", 1).objects] == [1]
    assert [entry["version"] for entry in invoke("history", table, "--json", "--version", 0).objects] == [0]
    assert invoke("history", table).out.splitlines()[1].split()[0] == "1"


def test_time_travel_by_timestamp(tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path).commit(add("a"), mtime_ms=1_700_000_000_000)
    root = builder.commit(add("b"), mtime_ms=1_700_000_100_000).root
    (facts,) = invoke("info", root, "--timestamp", "2023-11-14T22:13:30Z", "--json").objects
    assert facts["version"] == 0


def test_version_of_the_command() -> None:
    assert sidecar("--version").out == f"sidecar {delta_sidecar.__version__}\n"


def test_without_a_command_it_helps() -> None:
    assert "Commands:" in sidecar().out


def test_help_is_quick_to_start() -> None:
    program = (
        "import json, sys; sys.argv = ['sidecar', 'files', '--help']\n"
        "from delta_sidecar.cli.main import run\n"
        "try: run()\n"
        "except SystemExit: json.dump(sorted(sys.modules), sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {"pyarrow", "numpy", "obstore", "msgspec", "rich", "pandas"}.isdisjoint(json.loads(done.stderr))


@pytest.mark.slow
def test_verbose_logs_on_stderr_only(table: Path) -> None:
    (table / "_delta_log" / "_last_checkpoint").write_text("{")
    quiet, loud = sidecar("files", table, "--json"), sidecar("files", table, "--json", "--verbose")
    assert quiet.err == ""
    assert loud.objects == quiet.objects
    assert re.search(r"opened version 1 of .*: base classic checkpoint 0, a tail of 1 commit, .*requests", loud.err)
    assert re.search(r"listed 5 files from tier checkpoint; reads 1 of 1 row group", loud.err)
    assert re.search(r"\d+ requests, [\d.]+ kB in all", loud.err)


@pytest.mark.parametrize("command", ["read", "explain", "info", "history", "build", "verify"])
def test_every_command_has_something_to_say(table: Path, command: str) -> None:
    build_index(open_store(str(table)))
    limit = ["--limit", "0"] if command == "read" else []
    said = invoke(command, table, *limit, "--verbose").err
    assert re.search(r"^sidecar: \[\d+\.\d{3} s\] done in ", said, re.MULTILINE)
    assert len(said.splitlines()) > 1
    assert invoke(command, table, *limit).err == ""
