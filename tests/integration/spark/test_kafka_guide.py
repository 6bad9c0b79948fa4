"""The guide to Kafka runs: its commands and its Python, with a broker of the tests in the place of its own."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.running import invoke
from tests.integration.spark.messages import Message, fresh_topic, produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.integration.servers import KafkaBroker

PAGE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "kafka.md"


def blocks(kind: str, broker: KafkaBroker, topic: str) -> str:
    (block,) = re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return str(block).replace("localhost:9092/clicks", f"{broker.address}/{topic}")


@pytest.fixture
def topic(spark: SparkSession, kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    name = fresh_topic()
    clicks = [{"ts": "2026-02-10T23:45:00Z", "id": 1}, {"ts": "2026-02-11T00:15:00Z", "id": 2}]
    produce(spark, kafka, name, [Message(json.dumps(click).encode(), b"k") for click in clicks])
    return name


def test_commands(spark: SparkSession, kafka: KafkaBroker, topic: str, tmp_path: Path) -> None:
    for line in blocks("sh", kafka, topic).splitlines():
        program, *arguments = shlex.split(line)
        done = invoke(*arguments)
        assert (program, done.code) == ("sidecar", 0), done.err
    for table in ("clicks", "by_arrival", "raw"):
        assert spark.read.format("delta").load(str(tmp_path / table)).count() == 2


def test_python(spark: SparkSession, kafka: KafkaBroker, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(blocks("python", kafka, topic), PAGE.name, "exec"), {"spark": spark})
    assert capsys.readouterr().out == "2\n"
