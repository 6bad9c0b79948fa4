"""The single part of a small table, which says in its footer what its manifest would say."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from delta_sidecar.errors import CorruptIndexError, ObjectNotFoundError
from delta_sidecar.index.entries import PartEntry
from delta_sidecar.index.manifest import FORMAT, Manifest, with_parts
from delta_sidecar.index.names import single_id
from delta_sidecar.index.parts import MANIFEST_KEY, file_entry
from delta_sidecar.index.seals import is_whole
from delta_sidecar.storage.store import Store


def read_single(store: Store, directory: str, version: int) -> Manifest | None:
    """What `v{C}.parquet` says of itself, as a manifest with that one part; None if there is no such file."""
    path = f"{directory}/{single_id(version)}.parquet"
    try:
        data = store.get(path)
    except ObjectNotFoundError:
        return None
    if not is_whole(data):
        raise CorruptIndexError(f"{path} is damaged: its checksums do not agree; build the index again")
    try:
        footer = pq.read_metadata(pa.BufferReader(data))
        manifest = msgspec.json.decode((footer.metadata or {})[MANIFEST_KEY], type=Manifest)
    except (pa.ArrowException, OSError, KeyError, ValueError, msgspec.DecodeError) as error:
        raise CorruptIndexError(f"{path} does not describe itself ({error}); build the index again") from None
    if (manifest.format, manifest.version, manifest.files) != (FORMAT, version, footer.num_rows):
        raise CorruptIndexError(f"{path} is not the index of version {version}; build the index again")
    # What its entry would tell of keys, times and buckets is left unknown: its rows are few.
    rows = footer.num_rows
    unknown = dict.fromkeys(("key_unknown", "time_unknown", "vectors", "off_bucket"), rows)
    entry = PartEntry(single_id(version), rows, 0, file_entry(data), **unknown)
    return with_parts(manifest, [entry])
