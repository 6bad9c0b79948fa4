"""Which files make a version: bases, contiguity, compacted ranges; from names alone."""

from __future__ import annotations

import pytest

from delta_sidecar.errors import LogGapError, VersionNotFoundError
from delta_sidecar.log.log_names import Kind
from delta_sidecar.log.segment import LogListing, Segment
from tests.log.listings import UUID_1, UUID_2, commits, listing, part


def segment(found: LogListing, version: int | None = None) -> Segment:
    pinned = found.head if version is None else version
    bases = found.bases(pinned)
    return found.segment(pinned, bases[0] if bases else None)


def walk(found: Segment) -> list[str]:
    return [str(commit) for commit in found.commits]


def test_without_a_checkpoint_version_0_is_read() -> None:
    found = segment(listing(*commits(0, 3)))
    assert (found.version, found.base_version, walk(found)) == (3, -1, ["0", "1", "2", "3"])


def test_the_newest_complete_checkpoint_is_the_base() -> None:
    found = segment(listing(*commits(0, 5), "2.checkpoint.parquet", "4.checkpoint.parquet"))
    assert (found.base_version, walk(found)) == (4, ["5"])


def test_an_older_version_has_an_older_base() -> None:
    found = listing(*commits(0, 5), "2.checkpoint.parquet", "4.checkpoint.parquet")
    assert segment(found, 3).base_version == 2
    assert walk(segment(found, 3)) == ["3"]
    assert segment(found, 1).base_version == -1


def test_a_version_may_exist_as_a_checkpoint_only() -> None:
    found = segment(listing("7.checkpoint.parquet", start=7))
    assert (found.version, found.base_version, found.commits) == (7, 7, ())


def test_a_checkpoint_newer_than_all_commits_is_the_head() -> None:
    assert listing(*commits(0, 2), "4.checkpoint.parquet").head == 4


def test_an_incomplete_checkpoint_is_none() -> None:
    found = segment(listing(*commits(0, 2), f"2.{part(1, 3)}", f"2.{part(3, 3)}"))
    assert found.base is None


def test_one_of_one_is_a_complete_multi_part_checkpoint() -> None:
    found = segment(listing(*commits(0, 2), f"1.{part(1, 1)}"))
    assert found.base is not None
    assert (found.base.kind, found.base.version) == (Kind.MULTI_PART_CHECKPOINT, 1)


def test_parts_of_two_checkpoints_do_not_mix() -> None:
    found = segment(listing(*commits(0, 2), f"2.{part(1, 2)}", f"2.{part(2, 3)}"))
    assert found.base is None


def test_checkpoint_files_of_size_0_do_not_exist() -> None:
    found = listing(*commits(0, 3), f"2.{part(1, 2)}", empty=("3.checkpoint.parquet", f"2.{part(2, 2)}"))
    assert segment(found).base is None
    assert listing(*commits(0, 1), empty=("9.checkpoint.parquet",)).head == 1


def test_at_one_version_v2_then_more_parts_then_classic() -> None:
    names = ["2.checkpoint.parquet", f"2.{part(1, 2)}", f"2.{part(2, 2)}"]
    names += [f"2.{part(n, 3)}" for n in (1, 2, 3)] + [f"2.checkpoint.{UUID_1}.json", f"2.checkpoint.{UUID_2}.parquet"]
    order = listing(*commits(0, 3), *names, "1.checkpoint.parquet").bases(3)
    kinds = [(base.version, base.kind, len(base.files)) for base in order]
    assert kinds == [
        (2, Kind.UUID_CHECKPOINT, 1),
        (2, Kind.UUID_CHECKPOINT, 1),
        (2, Kind.MULTI_PART_CHECKPOINT, 3),
        (2, Kind.MULTI_PART_CHECKPOINT, 2),
        (2, Kind.CLASSIC_CHECKPOINT, 1),
        (1, Kind.CLASSIC_CHECKPOINT, 1),
    ]


def test_parts_stand_in_their_order() -> None:
    base = listing(*(f"2.{part(n, 11)}" for n in range(11, 0, -1))).bases(2)[0]
    assert [file.path for file in base.files] == sorted(file.path for file in base.files)


@pytest.mark.parametrize("missing", [3, 4])
def test_a_gap_is_an_error_that_names_the_commit(missing: int) -> None:
    names = [name for name in commits(3, 5) if name != f"{missing}.json"]
    with pytest.raises(LogGapError, match=f"commit {missing} is missing"):
        segment(listing(*names, "2.checkpoint.parquet"))


def test_a_gap_behind_the_base_does_not_matter() -> None:
    found = segment(listing("0.json", *commits(4, 5), "3.checkpoint.parquet"))
    assert walk(found) == ["4", "5"]


def test_a_log_without_its_beginning_cannot_be_rebuilt() -> None:
    with pytest.raises(VersionNotFoundError, match="the oldest commit is 2"):
        segment(listing(*commits(2, 5)))


def test_a_compacted_range_stands_for_its_commits() -> None:
    found = segment(listing(*commits(0, 5), "1.3.compacted.json"))
    assert walk(found) == ["0", "1..3 (compacted)", "4", "5"]


@pytest.mark.parametrize(
    ("compacted", "version", "why"),
    [
        ("2.4.compacted.json", 5, "it begins at the base"),
        ("1.3.compacted.json", 5, "it begins before the base"),
        ("4.6.compacted.json", 5, "it ends behind the version"),
        ("4.4.compacted.json", 5, "it is no range"),
        ("5.4.compacted.json", 5, "it runs backwards"),
    ],
)
def test_a_compacted_range_that_does_not_fit_is_not_used(compacted: str, version: int, why: str) -> None:
    found = segment(listing(*commits(0, 7), "2.checkpoint.parquet", compacted), version)
    assert walk(found) == ["3", "4", "5"], why


def test_an_empty_compacted_file_is_not_used() -> None:
    assert walk(segment(listing(*commits(0, 2), empty=("0.2.compacted.json",)))) == ["0", "1", "2"]


def test_a_compacted_range_needs_every_commit() -> None:
    with pytest.raises(LogGapError):
        segment(listing("0.json", "1.json", "3.json", "1.3.compacted.json"))


def test_of_overlapping_ranges_one_is_taken() -> None:
    found = segment(listing(*commits(0, 6), "1.3.compacted.json", "1.4.compacted.json", "3.6.compacted.json"))
    assert walk(found) == ["0", "1..4 (compacted)", "5", "6"]


def test_the_checksum_is_that_of_the_version() -> None:
    found = listing(*commits(0, 3), "2.crc")
    assert segment(found).checksum is None
    assert segment(found, 2).checksum is not None


def test_what_is_not_of_the_log_is_passed_over() -> None:
    assert listing("_last_checkpoint", "readme.txt", ".tmp").is_empty
    assert listing(*commits(0, 1), "_last_checkpoint").head == 1
