"""The session the command makes: its settings, its jars, and what it says when it cannot be made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from delta_sidecar.errors import SparkError
from delta_sidecar.pipeline import session
from delta_sidecar.pipeline.session import delta_coordinate, find_jars, session_settings, spark_session
from tests.cli.running import assert_refused, sidecar


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "io.delta_delta-spark_4.2_2.13-4.4.0.jar").touch()
    monkeypatch.setenv(session.JARS_VARIABLE, str(tmp_path))
    return tmp_path


def test_local_by_default_quiet_in_utc_and_on_loopback(jars: Path) -> None:
    found = session_settings()
    assert found["spark.jars"] == str(jars / "io.delta_delta-spark_4.2_2.13-4.4.0.jar")
    assert "spark.jars.packages" not in found
    assert found["spark.driver.bindAddress"] == found["spark.driver.host"] == "127.0.0.1"
    assert found["spark.ui.enabled"] == "false"
    assert found["spark.sql.session.timeZone"] == "UTC"
    assert found["spark.sql.parquet.outputTimestampType"] == "TIMESTAMP_MICROS"
    assert found["spark.log.level"] == "ERROR"


def test_a_cluster_is_not_told_to_stay_on_loopback(jars: Path) -> None:
    found = session_settings("spark://master:7077")
    assert not any("bindAddress" in name or name == "spark.driver.host" for name in found)
    assert found["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"


def test_a_connect_server_is_sent_settings_of_the_session_only(jars: Path) -> None:
    keys = {"access_key_id": "k", "secret_access_key": "s"}
    found = session_settings("sc://host", {"spark.sql.ansi.enabled": "true"}, keys, ["s3://b/t"])
    assert found["fs.s3a.access.key"] == "k"
    assert not {"spark.jars", "spark.sql.extensions", "spark.log.level"} & set(found)


def test_what_the_user_gives_counts(jars: Path) -> None:
    found = session_settings(conf={"spark.driver.memory": "9g", "spark.jars": "/mine.jar"})
    assert (found["spark.driver.memory"], found["spark.jars"]) == ("9g", "/mine.jar")


def test_stores_bring_their_drivers_and_credentials(jars: Path) -> None:
    found = session_settings(storage_options={"access_key_id": "k", "secret_access_key": "s"}, uris=["/x", "s3://b/t"])
    assert found["spark.hadoop.fs.s3a.access.key"] == "k"
    assert found["spark.jars.packages"].startswith("org.apache.hadoop:hadoop-aws:3.")
    (jars / "org.apache.hadoop_hadoop-aws-3.5.0.jar").touch()
    assert "spark.jars.packages" not in session_settings(uris=["s3://b/t"])


def test_topics_bring_the_connector(jars: Path) -> None:
    uris = ["kafka://broker/events", "eventhubs://lake/hub", "/x"]
    found = session_settings(storage_options={"access_key_id": "k"}, uris=uris)
    assert found["spark.jars.packages"].startswith("org.apache.spark:spark-sql-kafka-0-10_2.13:4.")
    (jars / "org.apache.spark_spark-sql-kafka-0-10_2.13-4.2.0.jar").touch()
    assert "spark.jars.packages" not in session_settings(uris=uris)


def test_of_amazons_sdk_only_what_the_driver_uses_is_fetched(jars: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("delta_sidecar.pipeline.session._hadoop_version", lambda: "3.5.0")
    found = session_settings(uris=["s3://b/t"])
    assert found["spark.jars.excludes"] == "software.amazon.awssdk:bundle"
    assert "software.amazon.awssdk:s3:2.35.4" in found["spark.jars.packages"].split(",")
    assert "spark.jars.excludes" not in session_settings(uris=["az://c@a.blob.core.windows.net/t", "/local"])
    given = session_settings(conf={"spark.jars.packages": "mine:client:1"}, uris=["s3://b/t"])
    assert (given["spark.jars.packages"], given.get("spark.jars.excludes")) == ("mine:client:1", None)
    monkeypatch.setattr("delta_sidecar.pipeline.session._hadoop_version", lambda: "3.9.9")
    unknown = session_settings(uris=["s3://b/t"])
    assert "spark.jars.excludes" not in unknown
    assert unknown["spark.jars.packages"] == "org.apache.hadoop:hadoop-aws:3.9.9"


def test_without_jars_spark_resolves_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(session.JARS_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    assert find_jars(tmp_path) == []
    assert session_settings(checkout=tmp_path)["spark.jars.packages"] == delta_coordinate()
    assert delta_coordinate().startswith("io.delta:delta-spark_4.")
    (tmp_path / ".cache" / "jars").mkdir(parents=True)
    (tmp_path / ".cache" / "jars" / "a.jar").touch()
    assert [jar.name for jar in find_jars(tmp_path)] == ["a.jar"]


def test_a_variable_that_names_no_jars_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(session.JARS_VARIABLE, str(tmp_path))
    with pytest.raises(SparkError, match=session.JARS_VARIABLE):
        find_jars()


def test_missing_pyspark_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(package: str) -> str:
        raise session.PackageNotFoundError(package)

    monkeypatch.setattr(session, "version", absent)
    with pytest.raises(SparkError, match=r"pip install 'delta-sidecar\[spark\]'"), spark_session():
        pass


def test_missing_java_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SparkError, match="Java 17"), spark_session():
        pass
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkError, match="JAVA_HOME"), spark_session():
        pass


@pytest.mark.slow
def test_the_command_without_java(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ts\n2026-01-01\n")
    done = sidecar("ingest", tmp_path, tmp_path / "t", "--time-column", "ts", environment={"JAVA_HOME": "/nowhere"})
    assert_refused(done, "Java 17", "JAVA_HOME")


def test_what_the_jvm_says_while_it_starts_goes_elsewhere(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with (tmp_path / "said").open("w+b") as said:
        with session._output_to(said.fileno()):
            subprocess.run([sys.executable, "-c", "print('noise')"], check=True)
        print("ours", flush=True)
        said.seek(0)
        assert said.read() == b"noise\n"
    assert capfd.readouterr().out == "ours\n"


def test_the_line_that_tells_most() -> None:
    said = b"Using log4j\njava.net.UnknownHostException: nowhere\n\tat a.b(c)\n"
    assert "UnknownHostException" in session._last_word(said, ValueError("x"))
    assert session._last_word(b"", ValueError("only this")).startswith("only this")
