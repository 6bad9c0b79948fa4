"""Keys between two paths: all of them and no others, however they came."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar.log.key_chunks import KeyChunk, OrderedKeys

paths = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "d/"]),
    st.text("ab/- ", max_size=4),
    st.sampled_from(["", ".parquet", ".c000.snappy.parquet"]),
).map(str.encode)
vectors = st.sampled_from([b"", b"\0u1", b"\0u2"])
keys = st.builds(bytes.__add__, paths, vectors)


@given(chunks=st.lists(st.lists(keys, min_size=1, max_size=8), max_size=4), ends=st.tuples(paths, paths).map(sorted))
def test_all_between_and_no_other(chunks: list[list[bytes]], ends: list[bytes]) -> None:
    low, high = ends
    made = [KeyChunk.of(pa.array(chunk, pa.binary())) for chunk in chunks]
    assert [chunk.keys().to_pylist() for chunk in made] == chunks
    ordered = OrderedKeys.of(made)
    found = [key for span in ordered.between(low, high) for key in span.keys().to_pylist()]
    everything = [key for chunk in chunks for key in chunk]
    assert [chunk.keys().to_pylist() for chunk in ordered.chunks] == [sorted(chunk) for chunk in chunks]
    assert sorted(found) == sorted(key for key in everything if low <= key.split(b"\0")[0] <= high)
