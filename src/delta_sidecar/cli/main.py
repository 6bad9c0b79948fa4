"""The `sidecar` command. Everything that is slow to import is imported by the command that needs it."""

from __future__ import annotations

import click

from delta_sidecar.cli.commands import changes, kusto, reading, search, serving, splits, tables, upkeep
from delta_sidecar.cli.failures import reported, say_interrupted
from delta_sidecar.cli.help import WIDEST, Group, argument, command
from delta_sidecar.cli.interrupts import interrupts


def run() -> None:
    """The entry point of the command."""
    interrupts.listen()
    try:
        app(prog_name="sidecar")
    except KeyboardInterrupt as error:
        raise SystemExit(say_interrupted(error)) from None


def _print_version(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        from delta_sidecar import __version__

        click.echo(f"sidecar {__version__}")
        context.exit()


@click.group(
    "sidecar",
    cls=Group,
    invoke_without_command=True,
    help="List the files of a Delta table, read its rows, and build the index that makes both fast.",
    epilog="Exit codes: 0 ok, 1 unexpected, 2 fixable error, 130 Ctrl-C, 143 SIGTERM.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDEST},
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
@click.pass_context
def app(context: click.Context) -> None:
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@command(
    short_help="Print the completion script of a shell.",
    help="Print the script that completes commands, options and values in bash, zsh or fish.\n\n"
    '\b\nbash  eval "$(sidecar completion bash)" in ~/.bashrc\n'
    'zsh   eval "$(sidecar completion zsh)" in ~/.zshrc, after compinit\n'
    "fish  sidecar completion fish > ~/.config/fish/completions/sidecar.fish",
)
@argument("shell", "SHELL", "bash, zsh or fish.", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    assert script is not None
    template = script(app, {}, "sidecar", "_SIDECAR_COMPLETE")
    with reported(False, {}):
        click.echo(template.source_template % template.source_vars())


# In the order in which the help lists them: the most used commands come first.
for _command in (
    reading.files,
    reading.read,
    search.search,
    changes.changes,
    changes.cursors,
    reading.explain,
    reading.info,
    reading.history,
    kusto.kql,
    serving.ui,
    serving.serve,
    serving.token,
    tables.sample,
    tables.ingest,
    changes.sync,
    upkeep.build,
    upkeep.verify,
    upkeep.maintain,
    splits.splits,
    tables.policy,
    completion,
):
    app.add_command(_command)


if __name__ == "__main__":
    run()
