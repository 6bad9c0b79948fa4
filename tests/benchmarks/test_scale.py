"""What grows is measured at each size; what is computed says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import scale
from benchmarks.scale import KEYS, Cost, Size, extrapolated, growth


def size(files: int, parts: int, seconds: float) -> Size:
    cost = Cost(seconds, peak_mb=20.0, arrow_peak_mb=5.0, requests=17, bytes=2e6 + parts * 150)
    return Size(files, parts, 2_000 + parts * 150, files * 24, files * 27, dict.fromkeys(KEYS, cost))


def test_a_billion_is_computed_from_the_growth_with_parts() -> None:
    far = extrapolated(size(10_000_000, 125, 0.020), size(100_000_000, 1_250, 0.021), 1_000_000_000)
    assert far.computed
    assert far.parts == 12_500
    assert far.manifest_bytes == 2_000 + 12_500 * 150
    assert far.index_bytes == 27_000_000_000
    cost = far.costs["index.last_hour"]
    assert cost.seconds == pytest.approx(0.031)
    assert cost.requests == 17
    assert cost.bytes == 2e6 + 12_500 * 150


def test_times_that_shrank_do_not_shrink_further() -> None:
    far = extrapolated(size(10_000_000, 125, 0.022), size(100_000_000, 1_250, 0.021), 1_000_000_000)
    assert far.costs["index.first_file"].seconds == 0.021


def test_growth_is_judged_step_by_step() -> None:
    steps = [size(1_000_000, 13, 0.020), size(10_000_000, 125, 0.024), size(100_000_000, 1_250, 0.030)]
    verdicts = [judgement.verdict for judgement in growth(steps)]
    assert verdicts == ["PASS", "MISS"] * len(KEYS)
    far = extrapolated(steps[0], steps[1], 1_000_000_000)
    last = growth([steps[1], far])[0]
    assert last.goal == "10,000,000 → 1,000,000,000 ≤ 2.0 ×"
    assert last.reached.endswith("computed")


@pytest.mark.slow
def test_small_sizes_are_measured_and_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BENCH_DIR", str(tmp_path / "tables"))
    scale.main(["--files", "3000,1500", "--repeat", "1", "--workers", "1"], tmp_path)
    document = json.loads((tmp_path / "scale.json").read_text())
    assert [(entry["files"], entry["computed"]) for entry in document["sizes"]] == [
        (1_500, False),
        (3_000, False),
        (1_000_000_000, True),
    ]
    assert set(document["sizes"][0]["costs"]) == set(KEYS)
    assert "1,000,000,000 (computed)" in capsys.readouterr().out
