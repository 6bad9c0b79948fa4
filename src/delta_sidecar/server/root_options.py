"""Storage options of each root. They come from a file or from the environment, never from the command line, where every
user of the machine could read them.

The file is TOML, a section for each root:

    [lake]
    region = "eu-central-1"
    access_key_id = "…"

In the environment, `DELTA_SIDECAR_ROOT_LAKE__REGION` is the same. What neither says, the usual variables
(`AWS_REGION`, …) say for all roots.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from delta_sidecar.errors import OptionError

_PREFIX: Final = "DELTA_SIDECAR_ROOT_"


def root_options(
    names: Sequence[str], path: str | os.PathLike[str] | None, environment: Mapping[str, str] | None = None
) -> dict[str, dict[str, str]]:
    """The storage options of each root; those of the environment count over those of the file."""
    of_file = {} if path is None else _of_file(Path(path), names)
    variables = os.environ if environment is None else environment
    return {name: {**of_file.get(name, {}), **_of_environment(name, variables)} for name in names}


def _of_file(path: Path, names: Sequence[str]) -> dict[str, dict[str, str]]:
    try:
        sections = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise OptionError(f"the file of storage options {path} cannot be read: {error.strerror}") from None
    except ValueError:
        # The message of a parser may quote the line, and with it a secret.
        raise OptionError(f"the file of storage options {path} is not valid TOML") from None
    for name, options in sections.items():
        if name not in names:
            raise OptionError(f"the file of storage options {path} has a section [{name}], but no root has that name")
        if not isinstance(options, dict):
            raise OptionError(f"the file of storage options {path}: {name} is not a section; write [{name}]")
    return {name: {key: _text(value) for key, value in options.items()} for name, options in sections.items()}


def _of_environment(name: str, variables: Mapping[str, str]) -> dict[str, str]:
    prefix = f"{_PREFIX}{re.sub(r'[^A-Z0-9]', '_', name.upper())}__"
    return {key[len(prefix) :].lower(): value for key, value in variables.items() if key.startswith(prefix) and value}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
