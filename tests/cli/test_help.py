"""Help fits its line, and shells complete what it lists."""

from __future__ import annotations

import os
import shutil
import subprocess

import click
import pytest

from delta_sidecar.cli.help import Argument
from delta_sidecar.cli.main import app
from tests.cli.running import assert_refused, invoke, sidecar

COMMANDS = sorted(app.commands)


def help_of(*command: str, width: int = 80) -> list[str]:
    """The help on a terminal of that width. (Click's test runner always has one of 80 columns.)"""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        with app.make_context("sidecar", [], resilient_parsing=True) as context:
            for name in command:
                context = click.Context(app.commands[name], context, name)
            return context.get_help().splitlines()


@pytest.mark.parametrize("width", [80, 120])
def test_summaries_are_whole(width: int) -> None:
    lines = help_of(width=width)
    for name, command in app.commands.items():
        assert f"  {name.ljust(max(map(len, COMMANDS)))}  {command.short_help}" in lines


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_too_long_and_every_option_is_explained(command: str, width: int) -> None:
    lines = help_of(command, width=width)
    assert max(map(len, lines)) < width
    text = " ".join(" ".join(lines).split())
    for param in app.commands[command].params:
        words = param.text if isinstance(param, Argument) else param.help if isinstance(param, click.Option) else None
        assert words
        assert " ".join(words.split()) in text


@pytest.mark.parametrize("command", COMMANDS)
def test_what_an_option_does_is_on_its_line(command: str) -> None:
    lines = help_of(command)
    for param in app.commands[command].params:
        if isinstance(param, click.Option) and param.help and param.name != "kafka_columns":  # a list of seven names
            assert any(f"  {param.help}" in line for line in lines), param.name


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"verify", "completion"}))
def test_help_has_an_example(command: str) -> None:
    assert any(line.startswith(f"  Example: sidecar {command} ") for line in help_of(command))


def test_options_of_long_commands_are_in_sections() -> None:
    titles = [line for line in help_of("ingest") if line.endswith(":") and not line.startswith(" ")]
    assert titles == ["Arguments:", "Source:", "Time and buckets:", "Schema and bad records:", "Table:",
                      "Batches and streams:", "Kafka:", "Spark:", "Output:", "Store:"]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["f"], ["files"]),
        (["files", "--st"], ["--stats", "--strategy", "--storage-option"]),
        (["files", "--strategy", ""], ["auto", "reverse", "forward"]),
        (["read", "--option", "delta.c"], ["delta.commit.parallelism="]),
        (["build", "--engine", "s"], ["spark"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
    ],
)
def test_shells_complete_commands_options_and_values(words: list[str], completed: list[str]) -> None:
    line = ["sidecar", *words]
    asked = {"_SIDECAR_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(line), "COMP_CWORD": str(len(words))}
    done = sidecar(environment=asked)
    assert [text.partition(",")[2] for text in done.out.splitlines()] == completed


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell(shell: str) -> None:
    script = invoke("completion", shell).out
    assert "_SIDECAR_COMPLETE" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True, env=os.environ)


def test_another_shell_is_refused() -> None:
    assert_refused(invoke("completion", "tcsh"), "tcsh", "bash")
