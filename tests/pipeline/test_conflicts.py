"""What Delta's conflicts mean, and trying again without ever writing twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from delta_sidecar.errors import ConflictError, OptionError, SparkError
from delta_sidecar.pipeline.conflicts import (
    Conflict,
    Kind,
    RetryClass,
    RetryPolicy,
    conflict_of,
    until_committed,
)

CLASSIC = (
    "An error occurred while calling o66.sql.\n"
    ": io.delta.exceptions.ProtocolChangedException: [DELTA_PROTOCOL_CHANGED] ProtocolChangedException: The protocol "
    'version has been changed.\nConflicting commit: {"operation":"CREATE TABLE","partitionBy":"[\\"p\\"]"}\n'
    "\tat org.apache.spark.sql.delta.DeltaErrors\n"
)


class Told(Exception):
    """An error as Connect raises it: with a condition."""

    def __init__(self, condition: str | None) -> None:
        super().__init__("what happened is in the condition")
        self.condition = condition

    def getCondition(self) -> str | None:
        return self.condition


class ConcurrentAppendException(Exception):
    """Named as Delta's own, which derives from no class of conflicts."""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Exception(CLASSIC), Kind.PROTOCOL),
        (Exception("[DELTA_CONCURRENT_APPEND.WITH_PARTITION_HINT] Transaction conflict"), Kind.APPEND),
        (Exception("o1\n: io.delta.exceptions.ConcurrentWriteException: no condition"), Kind.WRITE),
        (Exception("o1\nCaused by: io.delta.exceptions.MetadataChangedException: changed"), Kind.METADATA),
        (Told("DELTA_CONCURRENT_DELETE_READ.WITHOUT_HINT"), Kind.DELETE_READ),
        (Told("DELTA_CONCURRENT_TRANSACTION"), Kind.TRANSACTION),
        (ConcurrentAppendException("without a text that tells"), Kind.APPEND),
        (Told("DELTA_TABLE_NOT_FOUND"), None),
        (Told(None), None),
        (Exception("[DELTA_TABLE_NOT_FOUND] no"), None),
        (Exception('[X_Y] no\nConflicting commit: {"userMetadata":"see [DELTA_METADATA_CHANGED]"}'), None),
        (None, None),
    ],
)
def test_a_conflict_is_told_by_condition_text_or_class(error: BaseException | None, kind: Kind | None) -> None:
    found = conflict_of(error)
    assert (None if found is None else found.kind) is kind


def test_a_conflict_is_told_by_the_cause_of_our_own_error() -> None:
    wrapped = SparkError("the batch was not written")
    wrapped.__cause__ = Told("DELTA_METADATA_CHANGED")
    assert conflict_of(wrapped) == Conflict(Kind.METADATA, "DELTA_METADATA_CHANGED")
    wrapped.__cause__ = wrapped
    assert conflict_of(wrapped) is None


def test_every_kind_has_a_class() -> None:
    classes = {kind: kind.retry_class for kind in Kind}
    others = {kind: found for kind, found in classes.items() if found is not RetryClass.RETRYABLE}
    assert others == {Kind.TRANSACTION: RetryClass.DONE_ALREADY, Kind.SCHEMA: RetryClass.FATAL}
    assert {kind for kind in Kind if kind.needs_look} == {Kind.METADATA, Kind.SCHEMA, Kind.PROTOCOL, Kind.CREATION}


class AnalysisException(Told):
    """Named as Spark's own."""


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (Exception(CLASSIC), RetryClass.RETRYABLE),
        (ConcurrentAppendException("no text"), RetryClass.RETRYABLE),
        (Told("DELTA_CONCURRENT_TRANSACTION"), RetryClass.DONE_ALREADY),
        (Told("DELTA_METADATA_MISMATCH"), RetryClass.FATAL),
        (AnalysisException("UNRESOLVED_COLUMN"), RetryClass.FATAL),
        (AnalysisException("DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION"), RetryClass.RETRYABLE),
        (Told("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"), RetryClass.FATAL),
        (Exception("o1\n: x.Y: [DELTA_NOT_NULL_CONSTRAINT_VIOLATED] no"), RetryClass.FATAL),
        (OptionError("ours"), RetryClass.FATAL),
        (Told("INTERNAL_ERROR"), RetryClass.UNKNOWN),
        (ConnectionError("lost"), RetryClass.UNKNOWN),
        (SparkError("something else"), RetryClass.UNKNOWN),
    ],
)
def test_a_failure_has_a_class(error: Exception, found: RetryClass) -> None:
    assert RetryClass.of(error) is found


def test_a_condition_of_delta_counts_over_what_the_text_quotes() -> None:
    quoting = Told("DELTA_TABLE_NOT_FOUND")
    quoting.args = ("[DELTA_CONCURRENT_APPEND] is what another error said",)
    assert conflict_of(quoting) is None
    wrapped = Told("FOREACH_BATCH_USER_FUNCTION_ERROR")
    wrapped.args = ("[DELTA_CONCURRENT_APPEND] Transaction conflict",)
    assert conflict_of(wrapped) == Conflict(Kind.APPEND, "DELTA_CONCURRENT_APPEND")


def test_what_was_tried_is_in_the_error() -> None:
    attempt = failing(lost(), lost("DELTA_PROTOCOL_CHANGED"), lost(), lost())
    tried: list[Conflict] = []
    with pytest.raises(ConflictError, match=r"all 4 attempts failed: 3 × another writer added .*, 1 × ") as caught:
        until_committed(attempt, lambda: None, policy([]), what="t", tried=tried)
    assert caught.value.conflicts == tuple(map(str, tried))
    assert [conflict.kind for conflict in tried] == [Kind.APPEND, Kind.PROTOCOL, Kind.APPEND, Kind.APPEND]


def test_a_fatal_conflict_is_not_tried_again() -> None:
    with pytest.raises(Told):
        until_committed(failing(lost("DELTA_METADATA_MISMATCH")), lambda: None, policy([]), what="t")


def failing(*errors: Exception | None) -> Callable[[], str]:
    """An attempt that raises these in turn, and then gets through."""
    left = list(errors)

    def attempt() -> str:
        error = left.pop(0) if left else None
        if error is not None:
            raise error
        return "written"

    return attempt


def policy(pauses: list[float], attempts: int = 4) -> RetryPolicy:
    return RetryPolicy(attempts, 1.0, 3.0, random=lambda: 0.5, sleep=pauses.append)


def lost(condition: str = "DELTA_CONCURRENT_APPEND") -> Exception:
    return Told(condition)


def test_pauses_grow_up_to_a_limit_and_are_random() -> None:
    pauses: list[float] = []
    assert until_committed(failing(*[lost()] * 3), lambda: None, policy(pauses), what="t") == "written"
    assert pauses == [0.5, 1.0, 1.5]
    drawn = {RetryPolicy().delay(5) for _ in range(20)}
    assert len(drawn) > 1
    assert all(0 <= pause <= 4 for pause in drawn)


def test_attempts_are_bounded() -> None:
    pauses: list[float] = []
    with pytest.raises(ConflictError, match=r"t: another writer added files .* each of 4 attempts; nothing"):
        until_committed(failing(*[lost()] * 9), lambda: None, policy(pauses), what="t")
    assert len(pauses) == 3


def test_what_is_in_the_table_is_not_written_again() -> None:
    """Whatever the failure: a conflict, or one that leaves the commit's fate open."""
    for error in (lost("DELTA_CONCURRENT_TRANSACTION"), ConnectionError("lost")):
        pauses: list[float] = []
        assert until_committed(failing(error), lambda: "found", policy(pauses), what="t") == "found"
        assert pauses == []


def test_a_failure_that_is_no_conflict_is_raised_after_a_look() -> None:
    """The commit may still be on its way: a second attempt might write it twice."""
    looks: list[int] = []
    with pytest.raises(ConnectionError):
        until_committed(failing(ConnectionError("lost")), lambda: looks.append(1), policy([]), what="t")
    assert looks == [1]


def test_whoever_writes_has_the_last_word_on_a_conflict() -> None:
    asked: list[Conflict] = []

    def may_retry(conflict: Conflict) -> bool:
        asked.append(conflict)
        return conflict.kind is not Kind.SCHEMA

    attempt = failing(lost("DELTA_METADATA_CHANGED"), lost("DELTA_METADATA_MISMATCH"))
    with pytest.raises(Told):
        until_committed(attempt, lambda: None, policy([]), what="t", may_retry=may_retry)
    assert [conflict.kind for conflict in asked] == [Kind.METADATA, Kind.SCHEMA]


def test_each_new_attempt_is_told() -> None:
    told: list[str] = []
    until_committed(failing(lost()), lambda: None, policy([]), what="t", say=told.append)
    assert told == ["another writer added files that were read (DELTA_CONCURRENT_APPEND); trying again"]


def test_interrupts_are_not_caught() -> None:
    def attempt() -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        until_committed(attempt, lambda: "found", policy([]), what="t")


@pytest.mark.parametrize("given", [{"attempts": 0}, {"first_delay": -1}, {"longest_delay": -1}])
def test_policies_that_make_no_sense_are_refused(given: dict[str, float]) -> None:
    with pytest.raises(OptionError):
        RetryPolicy(**given)  # type: ignore[arg-type]
