"""An index as a base: what its version says of itself, and a plan of its parts for a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from delta_sidecar.index.read.index_parts import IndexParts
from delta_sidecar.index.read.part_scan import PartScan
from delta_sidecar.listing.base import Base, BasePlan
from delta_sidecar.listing.request import FileRequest
from delta_sidecar.log.actions import Metadata, Protocol
from delta_sidecar.storage.store import Store


@dataclass(frozen=True)
class IndexBase(IndexParts, Base):
    """An index that may be read for this table."""

    tier: Literal["index", "footer"] = "index"
    """Whether its manifest was read, or what the single part of a small table says of itself."""

    @property
    def content(self) -> str:
        return f"{self.directory} {self.version} {self.manifest.build}"

    @property
    def protocol(self) -> Protocol:
        return self.manifest.protocol

    @property
    def metadata(self) -> Metadata:
        return self.manifest.metadata

    def plan(self, store: Store, request: FileRequest) -> BasePlan:
        return PartScan(self, self.tier, store, request)
