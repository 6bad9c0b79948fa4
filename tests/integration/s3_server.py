"""moto's S3 server, in which a conditional write is one step.

moto compares `If-Match` and `If-None-Match` with the object that is there, and writes afterwards: of two writers at
once both may win, which no S3 allows. Here one request at a time may write.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

from moto.s3.responses import S3Response
from moto.server import main

WRITES = ("put_object", "delete_object", "_key_response_post")
"""The methods that compare, then write; the last one completes uploads in parts."""


def one_at_a_time(method: Callable[..., Any], turn: threading.RLock) -> Callable[..., Any]:
    @wraps(method)
    def taking_turns(*args: Any, **kwargs: Any) -> Any:
        with turn:
            return method(*args, **kwargs)

    return taking_turns


if __name__ == "__main__":
    turn = threading.RLock()
    for name in WRITES:
        setattr(S3Response, name, one_at_a_time(getattr(S3Response, name), turn))
    main()
