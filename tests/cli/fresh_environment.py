"""An environment as a new user has it: this package and what it requires, no extras, nothing else.

It is put together from the distributions that are installed here, so it needs no network.
"""

from __future__ import annotations

import os
import subprocess
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class FreshEnvironment:
    """A virtual environment, and a way to run things in it."""

    place: Path

    @property
    def python(self) -> Path:
        return self.place / "bin" / "python"

    def run(self, command: list[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
        """Run a command with this environment first on the path, and nothing of the one that tests run in."""
        path = os.pathsep.join([str(self.place / "bin"), os.defpath])
        environ = {"PATH": path, "HOME": str(self.place), "LANG": "C.UTF-8", "PYTHONNOUSERSITE": "1"}
        return subprocess.run(
            command, cwd=folder, capture_output=True, text=True, env=environ, stdin=subprocess.DEVNULL
        )


def make_fresh_environment(place: Path) -> FreshEnvironment:
    """Make the environment, with the command `sidecar` in it."""
    venv.create(place, symlinks=True, with_pip=False)
    (libraries,) = place.glob("lib/python*/site-packages")
    ours = distribution("delta-sidecar")
    (libraries / "delta_sidecar").symlink_to(ROOT / "src" / "delta_sidecar")
    for name in _top_level(ours):
        if name.endswith(".dist-info"):
            (libraries / name).symlink_to(ours.locate_file(name))
    for library in _required(ours, set()):
        for name in _top_level(library):
            (libraries / name).symlink_to(library.locate_file(name))
    command = place / "bin" / "sidecar"
    command.write_text(f"#!{place / 'bin' / 'python'}\nfrom delta_sidecar.cli.main import run\n\nrun()\n")
    command.chmod(0o755)
    return FreshEnvironment(place)


def _required(library: Distribution, known: set[str]) -> Iterator[Distribution]:
    """What a distribution requires without extras, and what that requires."""
    for line in library.requires or ():
        requirement = Requirement(line)
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if applies and requirement.name.lower() not in known:
            known.add(requirement.name.lower())
            found = distribution(requirement.name)
            yield found
            yield from _required(found, known)


def _top_level(library: Distribution) -> set[str]:
    """The files and directories of a distribution in `site-packages`."""
    names = {file.parts[0] for file in library.files or ()}
    return {name for name in names if name not in ("..", "__pycache__") and not name.startswith("/")}
