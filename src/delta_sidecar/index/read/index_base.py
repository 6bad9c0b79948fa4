"""An index as a base: its protocol and metadata, and a plan of its parts for a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from delta_sidecar.index.read.described_index import DescribedIndex
from delta_sidecar.index.read.part_scan import PartScan
from delta_sidecar.listing.base import BasePlan, ListableBase
from delta_sidecar.listing.request import FileRequest
from delta_sidecar.log.actions import Metadata, Protocol
from delta_sidecar.storage.store import Store


@dataclass(frozen=True)
class IndexBase(DescribedIndex, ListableBase):
    """An index that may be read for this table."""

    tier: Literal["index", "footer"] = "index"
    """`footer` if the manifest was read from the footer of a small table's single part."""

    @property
    def kind(self) -> str:
        return "index"

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
