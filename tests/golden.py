"""Where the golden tables are: data of other projects, kept outside the repository."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "DELTA_SIDECAR_GOLDEN"
BESIDE = Path(__file__).resolve().parents[2] / "shared" / "golden"
WHY_ABSENT = f"no golden tables: set {VARIABLE} to their directory, or put them at ../shared/golden"


def golden_root() -> Path | None:
    """The directory of the golden tables, or None where there is none."""
    chosen = os.environ.get(VARIABLE)
    root = Path(chosen) if chosen else BESIDE
    return root.resolve() if root.is_dir() else None


def golden_names() -> list[str]:
    """The names of all golden tables; empty without them. For parametrising at collection."""
    root = golden_root()
    return sorted(entry.name for entry in root.iterdir() if entry.is_dir()) if root else []


SEARCH_VARIABLE = "DELTA_SIDECAR_GOLDEN_SEARCH"
SEARCH_BESIDE = BESIDE.parent / "golden-search"
WHY_NO_SEARCH = (
    f"no search tables of IndexTables: set {SEARCH_VARIABLE} to their directory, or put them at ../shared/golden-search"
)


def golden_search_root() -> Path | None:
    """The directory of the search tables that IndexTables wrote, or None where there is none."""
    chosen = os.environ.get(SEARCH_VARIABLE)
    root = Path(chosen) if chosen else SEARCH_BESIDE
    return root.resolve() if root.is_dir() else None


def golden_search_names() -> list[str]:
    """The names of all of them; empty without them."""
    root = golden_search_root()
    return sorted(entry.name for entry in root.iterdir() if entry.is_dir()) if root else []
