"""What obstore's failures mean, and that no secret gets through."""

from __future__ import annotations

import obstore.exceptions as theirs
import pytest

from delta_sidecar import errors
from delta_sidecar.storage.failures import meaning, scrubbed
from delta_sidecar.storage.uri import parse_location

TABLE = parse_location("s3://b/t")
SECRET = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def said(status: str, code: str = "") -> theirs.GenericError:
    url = f"https://b.s3.amazonaws.com/t/x?X-Amz-Signature={SECRET}&sig=hunter2"
    body = f"<?xml?>\n<Error><Code>{code}</Code></Error>"
    return theirs.GenericError(
        f"Generic S3 error: Error performing GET {url} in 2ms - Server returned non-2xx status code: {status}: {body}"
    )


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (said("503 Service Unavailable", "SlowDown"), errors.StoreUnavailableError, "503 SlowDown"),
        (said("500 Internal Server Error"), errors.StoreUnavailableError, "(500)"),
        (said("429 Too Many Requests"), errors.StoreUnavailableError, "(429)"),
        (said("403 Forbidden", "InvalidAccessKeyId"), errors.AccessDeniedError, "403 InvalidAccessKeyId"),
        (said("400 Bad Request", "ExpiredToken"), errors.AccessDeniedError, "ExpiredToken"),
        (said("401 Unauthorized"), errors.AccessDeniedError, "(401)"),
        (said("404 Not Found", "NoSuchBucket"), errors.StorageError, "bucket 'b' does not exist"),
        (said("400 Bad Request", "InvalidArgument"), errors.StorageError, "refused the request (400 InvalidArgument)"),
        (said("416 Range Not Satisfiable", "InvalidRange"), errors.StorageError, "beyond its end"),
        (theirs.PermissionDeniedError("lacked privileges"), errors.AccessDeniedError, "access denied"),
        (theirs.AlreadyExistsError("there"), errors.ObjectExistsError, "exists already"),
        (FileNotFoundError("gone"), errors.ObjectNotFoundError, "s3://b/t/x does not exist"),
        (
            theirs.GenericError("Error performing PUT http://169.254.169.254/latest/api/token in 1s - HTTP error"),
            errors.AccessDeniedError,
            "no credentials found",
        ),
        (
            theirs.GenericError(
                "Error performing GET http://h:1/b?sig=hunter2 in 1s - HTTP error: error sending request"
            ),
            errors.StoreUnavailableError,
            "no answer from the store at http://h:1 (HTTP error: error sending request)",
        ),
        (theirs.GenericError("Received redirect without LOCATION"), errors.StorageError, "check the region"),
    ],
)
def test_meanings(error: Exception, kind: type[Exception], text: str) -> None:
    ours = meaning(error, TABLE, "x")
    assert type(ours) is kind
    assert text in str(ours)
    assert "\n" not in str(ours)
    assert SECRET not in str(ours)
    assert "hunter2" not in str(ours)


@pytest.mark.parametrize(
    "text",
    [
        f"GET https://a.blob.core.windows.net/c?sv=2021&sig={SECRET} failed",
        f"bad key {SECRET}",
        "Authorization: Bearer hunter2hunter2",
        "authorization: SharedKey devstoreaccount1:hunter2hunter2",
        'secret_access_key = "hunter2hunter2"',
        "https://user:hunter2hunter2@proxy:80/x",
        "sas_token=hunter2hunter2",
        "authorization: bearer hunter2hunter2",
        "the password: hunter2hunter2 is wrong",
    ],
)
def test_scrubbing(text: str) -> None:
    line = scrubbed(f"{text}\n\nDebug source:\nGeneric {{ hunter2hunter2 }}")
    assert SECRET not in line
    assert "hunter2" not in line
    assert "\n" not in line


@pytest.mark.parametrize(
    "text",
    [
        "the token: expired an hour ago",
        "credential: not found",
        "no such key: neither here nor there",
        "no object at /lake/events/of/the/year/" + "directory/" * 8 + "part-00000-c000",
        "the region us-east-1 has no bucket",
    ],
)
def test_ordinary_words_and_paths_stay(text: str) -> None:
    assert scrubbed(text) == text
