"""What operators see and say: metrics, health, logs, the command, tokens, storage options."""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from delta_sidecar import (
    AccessDeniedError,
    InputError,
    OptionError,
    ServerBusyError,
    ServerError,
    StorageError,
    build_index,
    connect,
)
from delta_sidecar.server.budget import Budget
from delta_sidecar.server.figures import Outcome, Prometheus
from delta_sidecar.server.http_endpoint import HttpEndpoint, Page
from delta_sidecar.server.root_options import root_options
from delta_sidecar.server.roots import Root
from delta_sidecar.server.table_search import tables_below
from delta_sidecar.server.tokens import TokenFile, new_token
from delta_sidecar.storage.opening import open_location
from delta_sidecar.storage.uri import parse_location
from delta_sidecar.testing import CountingStore
from delta_sidecar.texts import general
from tests.cli.running import assert_refused, invoke, sidecar
from tests.events_table import write_events
from tests.server.serving import eventually, logged, server_process, serving

pytestmark = pytest.mark.slow


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    write_events(tmp_path / "lake" / "events")
    write_events(tmp_path / "lake" / "deep" / "er" / "clicks")
    return tmp_path / "lake"


def page(port: int | None, path: str, token: str | None = None) -> tuple[int, str]:
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
    if token is not None:
        asked.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()


def figures(port: int | None) -> dict[str, float]:
    lines = [line for line in page(port, "/metrics")[1].splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


# Metrics and health


def test_figures_follow_what_is_read(lake: Path) -> None:
    build_index(lake / "events")
    (lake / "events" / "_delta_log" / f"{4:020}.json").write_text('{"commitInfo": {}}\n')
    with serving({"lake": lake}, metrics_port=0) as server, connect(server.url) as connection:
        table = connection.table("lake/events")
        assert table.scan_files("_event_hour = '2026021022'").read_all().num_rows == 1
        assert table.to_pyarrow_table(columns=["id"]).num_rows == 8
        with pytest.raises(InputError):
            table.scan_files("nope = 1")
        found = figures(server.metrics_port)
    assert found["delta_lazy_files_emitted_total"] == 5
    assert found["delta_lazy_files_pruned_total"] == 3
    assert found["delta_lazy_commits_scanned_total"] == 2
    assert found['delta_lazy_listings_total{tier="index"}'] == 2
    assert found['delta_lazy_index_age_versions{table="lake/events"}'] == 1
    assert found["delta_lazy_time_to_first_file_ms_count"] == 2
    assert found['delta_lazy_rows_sent_total{what="rows"}'] == 8
    assert found['delta_lazy_calls_total{method="GetFlightInfo",outcome="error"}'] == 1
    assert found["delta_lazy_store_requests_total"] > 0
    assert found["delta_lazy_store_bytes_total"] > 0
    assert found["delta_lazy_remove_set_size"] == 0
    assert (found["delta_lazy_streams"], found["delta_lazy_bytes_held"]) == (0, 0)


def test_a_fallback_is_counted_by_its_reason() -> None:
    made = Prometheus(Budget(1, 1))
    for version in range(300):
        made.streamed(
            Outcome("t", "files", tier="log", fallback_reason=f"the index of version {version} at /a/b is damaged")
        )
        made.streamed(Outcome(f"t{version}", "files", index_age=version))
    text = made.text().decode()
    assert 'delta_lazy_fallback_triggered_total{reason="the index of version … at … is damaged"} 300.0' in text
    assert text.count("delta_lazy_index_age_versions{") == 201
    assert general("x 'secret' 12") == "x … …"


def test_health_and_readiness(lake: Path) -> None:
    with serving({"lake": lake}, metrics_port=0) as server:
        port = server.metrics_port
        assert page(port, "/healthz") == (200, "ok\n")
        assert page(port, "/readyz") == (200, "ready\n")
        assert page(port, "/elsewhere")[0] == 404
        server._core.is_stopping.set()
        assert page(port, "/readyz") == (503, "stopping\n")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_metrics_of_this_machine_are_not_for_names_of_others(host: str, caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> tuple[int, bytes]:
        raise ZeroDivisionError("broken")

    pages = {"/metrics": Page(lambda: (200, b"figures")), "/broken": Page(broken)}
    endpoint = HttpEndpoint(host, 0, pages, None)
    try:
        for name, status in (("evil.com", 403), ("localhost", 200), ("127.0.0.1:9090", 200), ("[::1]", 200)):
            asked = http.client.HTTPConnection(host, endpoint.port, timeout=10)
            asked.request("GET", "/metrics", headers={"Host": name})
            assert asked.getresponse().status == status, name
            asked.close()
        with logged() as log:
            asked.request("GET", "/broken", headers={"Host": "localhost"})
            with pytest.raises(http.client.RemoteDisconnected):
                asked.getresponse()
        assert "ZeroDivisionError: broken" in log()[0]["exception"]
    finally:
        endpoint.close()


def test_metrics_ask_for_a_token_where_others_can_reach_them(tmp_path: Path) -> None:
    token = new_token(tmp_path / "tokens", "prometheus")
    pages = {"/metrics": Page(lambda: (200, b"figures")), "/healthz": Page(lambda: (200, b"ok"), is_open=True)}
    endpoint = HttpEndpoint("127.0.0.1", 0, pages, TokenFile(tmp_path / "tokens"))
    try:
        assert page(endpoint.port, "/metrics")[0] == 401
        assert page(endpoint.port, "/metrics", "nonsense")[0] == 401
        assert page(endpoint.port, "/metrics", token) == (200, "figures")
        some = new_token(tmp_path / "tokens", "some roots", ["lake"])
        assert eventually(lambda: page(endpoint.port, "/metrics", some)[0] == 403), "figures name tables"
        assert page(endpoint.port, "/healthz") == (200, "ok")
        with pytest.raises(InputError, match="cannot listen"):
            HttpEndpoint("127.0.0.1", endpoint.port, pages, None)
    finally:
        endpoint.close()


# Logs


def test_a_call_is_a_line_with_its_request_id(lake: Path) -> None:
    import pyarrow.flight as flight

    with logged() as log, serving({"lake": lake}) as server, flight.connect(server.url) as client:
        options = flight.FlightCallOptions(headers=[(b"x-request-id", b"mine-7")], timeout=30)
        list(client.do_action(flight.Action("health", b""), options))
        odd = flight.FlightCallOptions(headers=[(b"x-request-id", b"a b;c")], timeout=30)
        list(client.do_action(flight.Action("health", b""), odd))
    first, second = [line for line in log() if line["event"] == "call"]
    assert first["request_id"] == "mine-7"
    assert len(second["request_id"]) == 16
    assert first["outcome"] == "ok"


def test_predicates_are_not_logged(lake: Path) -> None:
    with logged() as log, serving({"lake": lake}) as server, connect(server.url) as connection:
        table = connection.table("lake/events")
        table.scan_files("id = 4711").read_all()
        with pytest.raises(InputError, match="4712"):
            table.scan_files("id = 4712 4713")
    assert "471" not in json.dumps([line | {"time": "", "request_id": ""} for line in log()])


# The command


def test_secrets_of_roots_stay_out_of_logs_and_messages(lake: Path, tmp_path: Path) -> None:
    options = tmp_path / "options.toml"
    options.write_text(
        '[remote]\nregion = "eu-central-1"\naccess_key_id = "AKIAVERYSECRETID"\nsecret_access_key = "very/secret+key"\n'
        'endpoint = "http://127.0.0.1:1/very/secret+key"\nallow_http = true\nmax_retries = 0\n'
    )
    arguments = (f"lake={lake}", "remote=s3://bucket/lake", "--storage-options", options, "--verbose")
    with server_process(*arguments, environment={"AWS_SESSION_TOKEN": "another-secret-42"}) as server:
        command_line = Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
        with connect(server.url) as connection:
            assert connection.table("lake/events").version() == 3
            with pytest.raises(StorageError) as raised:
                connection.table("remote/events")
        assert server.stop() == 0
        log = server.log.read_text()
    for secret in ("VERYSECRETID", "very/secret+key", "another-secret-42"):
        assert secret not in log
        assert secret not in str(raised.value)
        assert secret.encode() not in command_line
    assert any(line["event"] == "call" and line["outcome"] == "error" for line in map(json.loads, log.splitlines()))


def test_the_command_serves_with_tls_and_tokens(lake: Path, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    made = invoke(
        "token", "new", "reports", "--token-file", tmp_path / "tokens", "--roots", "lake", "--expires", "1d", "--json"
    )
    token = made.objects[0]["token"]
    arguments = ("--tls-cert", cert, "--tls-key", key, "--token-file", tmp_path / "tokens", "--host", "127.0.0.1")
    with server_process(f"lake={lake}", *arguments) as server:
        assert server.url.startswith("grpc+tls://127.0.0.1:")
        with connect(server.url, token, root_certificates=cert.read_bytes()) as connection:
            assert connection.tables() == ["lake/deep/er/clicks", "lake/events"]
        with connect(server.url, root_certificates=cert.read_bytes()) as connection, pytest.raises(AccessDeniedError):
            connection.health()
        with connect(server.url, token) as connection, pytest.raises(ServerError):
            connection.health()
        port = server.url.rpartition(":")[2]
        done = sidecar("serve", f"lake={lake}", "--port", port)
        assert_refused(done, "cannot listen", "in use")


def certificate(directory: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1, signed by itself."""
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(private, hashes.SHA256())
    )
    cert, key = directory / "cert.pem", directory / "key.pem"
    cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return cert, key


def test_metrics_over_tls(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    endpoint = HttpEndpoint("127.0.0.1", 0, {"/healthz": Page(lambda: (200, b"ok"))}, None, (str(cert), str(key)))
    try:
        trusting = ssl.create_default_context(cafile=str(cert))
        url = f"https://127.0.0.1:{endpoint.port}/healthz"
        with urllib.request.urlopen(url, context=trusting, timeout=10) as answer:
            assert answer.read() == b"ok"
    finally:
        endpoint.close()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["lake"], ["NAME=ROOT"]),
        (["lake=/no/such/place"], ["not a directory"]),
        (["la ke=/tmp"], ["root name"]),
        (["a=/tmp", "a=/tmp"], ["two roots"]),
        (["a=/tmp", "--host", "0.0.0.0"], ["reached from other machines", "--insecure"]),
        (["a=/tmp", "--tls-cert", "x"], ["certificate and its key"]),
        (["a=/tmp", "--token-file", "/no/such/file"], ["cannot be read"]),
        (["a=/tmp", "--ticket-key", "/dev/null"], ["0 bytes"]),
        (["a=/tmp", "--memory", "1MB"], ["more than all may", "--memory"]),
        (["a=/tmp", "--option", "nope=1"], ["nope"]),
        (["a=/tmp", "--host", ""], ["the host is empty"]),
        (["a=/tmp", "--tls-cert", "/etc/hostname", "--tls-key", "/etc/hostname"], ["holds no certificate"]),
        (["a=/tmp", "--memory", "lots"], ["--memory"]),
        (["a=/tmp", "--storage-options", "/no/such/file"], ["cannot be read"]),
        (["a=ftp://x/y"], ["unknown form"]),
    ],
)  # fmt: skip
def test_orders_that_cannot_be_served(arguments: list[str], words: list[str]) -> None:
    with logged():
        assert_refused(invoke("serve", *arguments), *words)


def test_tokens_by_the_command(tmp_path: Path) -> None:
    made = invoke("token", "new", "a", "--token-file", tmp_path / "t")
    assert made.code == 0
    assert made.out.startswith("dsc_")
    assert_refused(invoke("token", "new", "a", "--token-file", tmp_path / "t"), "has it already")
    assert_refused(invoke("token", "new", "b", "--token-file", tmp_path / "t", "--expires", "soon"), "--expires")
    assert_refused(invoke("token", "new", "b", "--token-file", tmp_path / "no" / "t"), "cannot be written")
    assert_refused(invoke("token", "old"), "no command")
    (tmp_path / "t").write_text("{")
    assert_refused(invoke("token", "new", "b", "--token-file", tmp_path / "t"), "is broken")


# Roots


def test_storage_options_of_roots(tmp_path: Path) -> None:
    file = tmp_path / "options.toml"
    file.write_text('[lake]\nregion = "a"\nallow_http = true\n[web-eu]\nregion = "b"\n')
    variables = {"DELTA_SIDECAR_ROOT_WEB_EU__REGION": "c", "DELTA_SIDECAR_ROOT_WEB_EU__SAS_TOKEN": "s", "OTHER": "x"}
    assert root_options(["lake", "web-eu"], file, variables) == {
        "lake": {"region": "a", "allow_http": "true"},
        "web-eu": {"region": "c", "sas_token": "s"},
    }
    with pytest.raises(OptionError, match="no root has that name"):
        root_options(["lake"], file, {})
    file.write_text('[lake]\nkey = "unfinished secret')
    with pytest.raises(OptionError, match="not valid TOML") as raised:
        root_options(["lake"], file, {})
    assert "secret" not in str(raised.value)


def test_tables_of_an_object_store_are_found_without_listing_their_files(tmp_path: Path) -> None:
    for name in ("a/events", "a/events2", "b", "c/d/e", "_old/events", "a/.hidden/events", "a/back\\slash"):
        write_events(tmp_path / name)
    for number in range(50):
        (tmp_path / "a" / f"notes-{number}.txt").write_text("x")
    stores: list[CountingStore] = []

    def opened(location: object) -> CountingStore:
        stores.append(CountingStore(open_location(location)))  # type: ignore[arg-type]
        return stores[-1]

    class Remote(Root):
        @property
        def real_path(self) -> None:
            return None

    root = Remote("r", parse_location(tmp_path), {}, opened)
    found = ["r/a/events", "r/a/events2", "r/b", "r/c/d/e"]
    assert list(tables_below(root)) == found
    assert len(stores[0].requests) < 20
    assert list(tables_below(root, requests=6)) == found[:2]
    local = Root("r", parse_location(tmp_path))
    assert list(tables_below(local)) == found
    assert list(tables_below(local, directories=3)) == found[:1]


def test_list_flights_is_bounded(lake: Path) -> None:
    with serving({"lake": lake}, listed_tables=1) as server, connect(server.url) as connection:
        assert connection.tables() == ["lake/deep/er/clicks"]
        assert connection.tables(limit=0) == []
        assert connection.tables("other") == []
    with serving({"lake": lake, "more": lake}, listed_tables=1) as server, connect(server.url) as connection:
        assert connection.tables() == ["lake/deep/er/clicks"]
        server._core.is_stopping.set()
        with pytest.raises(ServerBusyError, match="stopping"):
            connection.tables()
