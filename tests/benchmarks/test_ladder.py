"""The ladder measures what it says, shows what was measured, and publishes it in one piece."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import ladder, ladder_picture
from benchmarks.goals import ArrowPeak, Goal, Latency, Ratio, SameCount, judge, ladder_goals
from benchmarks.index_tables import IndexSizes, ensure_indexed
from benchmarks.ladder_table import BEGIN, END, KEYS, between_markers, brief_markdown, markdown, questions, rungs
from benchmarks.measure import REGISTRY, ROOT, Measurement, measure
from benchmarks.report import Run, save
from benchmarks.specs import IndexedSpec


def figures(key: str, seconds: float, **extra: float) -> Measurement:
    runs = [{"extra": extra}] if extra else []
    return Measurement(key, seconds=seconds, peak_mb=20.0, arrow_peak_mb=5.0, count=1, runs=runs)


FOUND = {
    found.key: found
    for found in (
        figures("deltalake.open", 120.0),
        figures("index.last_hour", 0.02, first_s=0.01),
        figures("index.first_file", 0.012),
        figures("index.explain", 0.5),
        figures("slow.last_hour", 0.11, trips=3),
        Measurement("index.all_arrow", error="it failed"),
    )
}


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> IndexedSpec:
    monkeypatch.setenv("BENCH_DIR", str(tmp_path / "tables"))
    return IndexedSpec(2_000)


@pytest.mark.parametrize("files", [100_000, 1_000_000, 10_000_000])
def test_goals_speak_of_workloads_of_the_ladder(files: int) -> None:
    assert set(KEYS) <= set(REGISTRY)
    for goal in ladder_goals(files):
        assert goal.subject in KEYS
        if isinstance(goal, Ratio | SameCount):
            assert goal.peer in KEYS


def test_ratios_to_the_peer_are_for_ten_million_files() -> None:
    def limits(files: int) -> dict[str, float]:
        ratios = [goal for goal in ladder_goals(files) if isinstance(goal, Ratio)]
        return {goal.subject: goal.limit for goal in ratios if goal.peer.startswith("deltalake.")}

    assert limits(1_000_000) == {}
    assert limits(10_000_000) == {
        "index.first_file": 1 / 5_000,
        "index.last_hour": 1 / 5_000,
        "index.last_hour_by_time": 1 / 5_000,
        "index.all_arrow": 1 / 200,
        "index.stats_predicate": 1 / 120,
    }


@pytest.mark.parametrize(
    ("goal", "verdict"),
    [
        (Latency("slow.last_hour", 0.030, 0.025), "PASS"),
        (Latency("slow.last_hour", 0.030, 0.019), "MISS"),
        (ArrowPeak("index.last_hour", 5), "PASS"),
        (ArrowPeak("index.last_hour", 4.9), "MISS"),
        (ArrowPeak("index.all_arrow", 5), "FAILED"),
    ],
)
def test_verdicts(goal: Goal, verdict: str) -> None:
    assert judge(goal, FOUND).verdict == verdict


def test_sizes_are_judged() -> None:
    size = IndexSizes(files=100, parts=1, core=3_000, stats=500, manifest=100)
    assert [judgement.verdict for judgement in ladder.size_goals(size, 3_600)] == ["PASS", "PASS"]
    assert [judgement.verdict for judgement in ladder.size_goals(size, 3_599)] == ["PASS", "MISS"]


def test_rows_are_those_that_were_measured() -> None:
    assert [(rung.level, f.first, f.complete) for rung, f in rungs(FOUND)] == [("L0", 120, 120), ("L6", 0.01, 0.02)]
    asked = {question.key: peer for question, _, peer in questions(FOUND)}
    assert list(asked) == ["index.first_file", "index.last_hour", "slow.last_hour", "index.explain"]
    assert asked["index.last_hour"] is not None
    assert asked["index.explain"] is None


def test_tables_in_markdown_tell_recorded_figures() -> None:
    text = markdown(10_000_000, FOUND)
    assert "| L6 | only the parts and row groups of the hour | 10 ms | 20 ms | 20 MB |" in text
    assert "| last hour, by the bucket | 20 ms | 20 MB | 120.0 s, 20 MB | 1/6,000 |" in text
    assert "explain` of the last hour, with Python's start | 500 ms |  |  |  |" in text
    assert "*" not in text
    earlier = Measurement("deltalake.open", seconds=99.0, peak_mb=1.0, recorded="recorded then in x.json")
    labelled = markdown(10_000_000, FOUND | {"deltalake.open": earlier})
    assert "99.0 s *, 1 MB" in labelled
    assert labelled.endswith("\\* deltalake: recorded then in x.json.")


def test_the_readme_has_a_few_rows_of_the_page() -> None:
    brief, whole = brief_markdown(10_000_000, FOUND).splitlines(), markdown(10_000_000, FOUND).splitlines()
    assert "| first file | 12 ms | 20 MB | 120.0 s, 20 MB | 1/10,000 |" in brief
    assert set(brief) < set(whole)


@pytest.mark.parametrize("page", ["README.md", "docs/benchmarks.md"])
def test_pages_show_what_was_published(page: str) -> None:
    """So the next `--publish` changes figures that were measured again, and nothing else."""
    document = json.loads((ROOT / "benchmarks/published/ladder-10000000.json").read_text())
    tables = brief_markdown if page == "README.md" else markdown
    assert f"\n\n{tables(10_000_000, ladder.measurements_of(document))}\n{END}" in (ROOT / page).read_text()


def test_what_stands_between_the_markers_is_replaced() -> None:
    text = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert between_markers(text, "new") == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
    assert between_markers(between_markers(text, "new"), "newer") == f"before\n{BEGIN}\nnewer\n{END}\nafter\n"
    with pytest.raises(ValueError, match="each once"):
        between_markers("no markers", "new")


def test_the_picture_has_a_row_for_each_level() -> None:
    drawn = ladder_picture.svg(10_000_000, rungs(FOUND))
    assert drawn.count("<rect") == 1 + 3 + 2 * 3
    assert "L6  only the parts" in drawn
    assert ">120.0 s<" in drawn
    assert ">10 ms<" in drawn
    assert "`" not in drawn


def test_recorded_figures_are_the_newest_that_were_measured(tmp_path: Path) -> None:
    def saved(name: str, time: str, **entry: Any) -> None:
        save(Run(1_000, {}, {"deltalake.open": Measurement("deltalake.open", **entry)}, []), tmp_path / name)
        document = json.loads((tmp_path / name).read_text())
        document["environment"]["time"] = time
        (tmp_path / name).write_text(json.dumps(document))

    saved("b.json", "2026-01-01", seconds=1.0)
    saved("a.json", "2026-01-02", seconds=2.0)
    saved("c.json", "2026-01-03", seconds=1.0, recorded="in b.json")
    (tmp_path / "other.json").write_text('{"files": 1000}')
    found = ladder.recorded_peers(1_000, [tmp_path])
    assert found["deltalake.open"].seconds == 2.0
    assert found["deltalake.open"].recorded == "recorded 2026-01-02 in a.json"
    assert ladder.recorded_peers(2_000, [tmp_path]) == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    "key", ["index.take", "index.every_stat", "index.last_hour_by_time", "checkpoint.last_hour_one_by_one"]
)
def test_workloads_give_right_answers_and_tell_their_cost(key: str, spec: IndexedSpec) -> None:
    ensure_indexed(spec, workers=1)
    found = measure(key, spec, repetitions=1)
    assert found.error is None
    for name in ("first_s", "requests", "bytes"):
        assert found.told(name)


@pytest.mark.slow
def test_another_base_than_the_one_asked_for_is_a_failure(spec: IndexedSpec) -> None:
    for manifest in ensure_indexed(spec, workers=1).rglob("*.manifest.json"):
        manifest.unlink()
    found = measure("index.all_arrow", spec, repetitions=1)
    assert found.seconds is None
    assert "not of the index" in str(found.error)


@pytest.mark.slow
def test_a_small_ladder_is_climbed_and_published(
    spec: IndexedSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place in ("benchmarks/published", "docs/images"):
        (tmp_path / place).mkdir(parents=True)
    for page in ("README.md", "docs/benchmarks.md"):
        (tmp_path / page).write_text(f"# Title\n\n{BEGIN}\n{END}\n")
    only = ["deltalake.open", "index.last_hour", "masked.*", "slow.last_hour", "pyarrow.core_parts"]
    ladder.main(["--files", "2000", "--repeat", "1", "--publish", "--only", *only], tmp_path / "results", tmp_path)
    document = json.loads((tmp_path / "benchmarks/published/ladder-2000.json").read_text())
    assert {entry["key"]: entry["error"] for entry in document["measurements"]} == dict.fromkeys(
        ["deltalake.open", "index.last_hour", "masked.all_arrow", "slow.last_hour", "pyarrow.core_parts"]
    )
    assert document["bytes"]["core"] > 0
    page, readme = ((tmp_path / name).read_text() for name in ("docs/benchmarks.md", "README.md"))
    assert "| L6 | only the parts" in page
    assert "](images/ladder.svg)" in page
    assert "| L6 |" not in readme
    assert "](docs/images/ladder.svg)" in readme
    assert (tmp_path / "docs/images/ladder.svg").read_text().startswith("<svg")
    assert "the ladder: last hour of 2,000 files" in capsys.readouterr().out
    skipped = ["--files", "2000", "--repeat", "1", "--skip-peers", "--only", "index.first_file", "deltalake.*"]
    ladder.main(skipped, tmp_path / "results")
    assert "deltalake.open was not measured in this run: recorded" in capsys.readouterr().out
