"""Figures and spans of listings for OpenTelemetry, and nothing of it in programs that do not use it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from delta_sidecar import CorruptTableError, DeltaTable, build_index
from delta_sidecar.scan import telemetry
from tests.events_table import write_events
from tests.test_house import loaded_after


class Observed:
    """What a program with OpenTelemetry gets to see."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))

    def figures(self) -> dict[str, Any]:
        data = self.reader.get_metrics_data()
        assert data is not None
        found = {}
        for metric in data.resource_metrics[0].scope_metrics[0].metrics:
            for point in metric.data.data_points:
                label = ",".join(f"{value}" for value in (point.attributes or {}).values())
                value = point.value if hasattr(point, "value") else point.count
                found[metric.name.removeprefix("delta.lazy.") + (f"[{label}]" if label else "")] = value
        return found


@pytest.fixture
def observed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Observed]:
    """Providers of this test alone: those of a process can be set once."""
    seen = Observed()
    monkeypatch.setattr(metrics, "get_meter", seen.meters.get_meter)
    monkeypatch.setattr(trace, "get_tracer", seen.tracers.get_tracer)
    telemetry._instruments.cache_clear()
    yield seen
    telemetry._instruments.cache_clear()


@pytest.fixture
def events(tmp_path: Path) -> Path:
    write_events(tmp_path / "events")
    return tmp_path / "events"


def test_figures_of_listings(events: Path, observed: Observed) -> None:
    build_index(events)
    (events / "_delta_log" / f"{4:020}.json").write_text('{"commitInfo": {}}\n')
    table = DeltaTable(str(events))
    assert table.scan_files("_event_hour = '2026021022'").read_all().num_rows == 1
    assert table.to_pyarrow_table().num_rows == 8
    found = observed.figures()
    assert found["files_emitted"] == 5
    assert found["files_pruned"] == 3
    assert found["commits_scanned"] == 2
    assert found["listings[index]"] == 2
    assert found["time_to_first_file_ms"] == 2
    assert found["remove_set_size"] == 0
    assert found[f"index_age_versions[{table.table_uri}]"] == 1
    assert found["store_bytes"] > 0


def test_a_span_belongs_to_whoever_made_the_listing(events: Path, observed: Observed) -> None:
    with observed.tracers.get_tracer("program").start_as_current_span("job") as job:
        scan = DeltaTable(str(events)).scan_files()
    reading = threading.Thread(target=scan.read_all)
    reading.start()
    reading.join()
    span = next(span for span in observed.exporter.get_finished_spans() if span.name == "delta.lazy.scan")
    assert span.parent is not None
    assert span.parent.span_id == job.get_span_context().span_id
    attributes = dict(span.attributes or {})
    assert attributes["delta.version"] == 3
    assert attributes["delta.lazy.files_emitted"] == 4
    assert attributes["delta.lazy.complete"] is True


def test_a_listing_that_is_closed_or_fails_ends_its_span(events: Path, tmp_path: Path, observed: Observed) -> None:
    table = DeltaTable(str(events))
    with table.scan_files(limit=1, columns=["path"]) as scan:
        next(iter(scan))
    write_events(tmp_path / "broken")
    (tmp_path / "broken" / "_delta_log" / f"{1:020}.json").write_text('{"add": {"path": 7}}')
    with pytest.raises(CorruptTableError):
        DeltaTable(str(tmp_path / "broken")).scan_files().read_all()
    first, second = observed.exporter.get_finished_spans()
    assert first.status.is_unset
    assert not second.status.is_ok
    assert second.events[0].name == "exception"
    assert DeltaTable(str(events)).scan_files() is not None  # never read: it has no span
    assert len(observed.exporter.get_finished_spans()) == 2


def test_fallbacks_are_counted_by_their_kind(events: Path, observed: Observed) -> None:
    build_index(events)
    for part in (events / "_delta_log").rglob("*.parquet"):
        part.write_bytes(b"PAR1 damaged PAR1")
    assert DeltaTable(str(events)).scan_files().read_all().num_rows == 4
    (counted,) = [name for name in observed.figures() if name.startswith("fallback_triggered")]
    assert "/" not in counted


@pytest.mark.slow
def test_a_program_without_it_does_not_load_it(events: Path) -> None:
    read = f"from delta_sidecar import DeltaTable; DeltaTable({str(events)!r}).scan_files().read_all()"
    loaded = loaded_after(read)
    assert "delta_sidecar.scan.telemetry" not in loaded
    assert not [name for name in loaded if name.startswith("opentelemetry")]
    assert "delta_sidecar.scan.telemetry" in loaded_after(f"import opentelemetry.trace; {read}")
    for other in (
        "sys.modules['opentelemetry'] = types.ModuleType('opentelemetry')",  # another part of it alone
        "import opentelemetry.trace; sys.modules['opentelemetry.metrics'] = None",  # an API without metrics
    ):
        assert "delta_sidecar.scan.file_scan" in loaded_after(f"import sys, types; {other}; {read}")


def test_an_api_without_gauges_counts_the_rest(
    events: Path, observed: Observed, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Old:
        def __init__(self, meter: metrics.Meter) -> None:
            self.create_counter, self.create_histogram = meter.create_counter, meter.create_histogram

    monkeypatch.setattr(metrics, "get_meter", lambda name: Old(observed.meters.get_meter(name)))
    assert DeltaTable(str(events)).scan_files().read_all().num_rows == 4
    assert observed.figures()["files_emitted"] == 4
