"""Commands whose help fits the terminal: arguments and options in sections, each summary on one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from delta_sidecar.cli.failures import MENDABLE, say_interrupted, say_usage
from delta_sidecar.errors import did_you_mean

F = TypeVar("F", bound=Callable[..., Any])

WIDEST = 100
"""Largest width of the help in characters; longer lines are hard to read."""


class Argument(click.Argument):
    """An argument with a help text."""

    def __init__(self, *args: Any, text: str = "", **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self.text = text


class Option(click.Option):
    """An option that is listed in a section of the help."""

    def __init__(self, *args: Any, section: str = "Options", **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self.section = section

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Leave out ranges of numbers (`x>=0`): the help text says enough."""
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


class Command(click.Command):
    """A command whose options are listed by section."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if isinstance(param, Argument):
                sections.setdefault("Arguments", []).append((param.make_metavar(ctx), param.text))
            elif (record := param.get_help_record(ctx)) is not None:
                others = "Output" if "Output" in sections else "Options"
                sections.setdefault(getattr(param, "section", others), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class Group(click.Group):
    """The command itself. Bad arguments are one line on stderr and exit code 2."""

    command_class = Command

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command; always ends in `SystemExit`."""
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
        except click.ClickException as error:
            context = getattr(error, "ctx", None)
            say_usage(_message(error), context.command_path if context else "sidecar")
            raise SystemExit(MENDABLE) from None
        except click.Abort as error:
            raise SystemExit(say_interrupted(error.__cause__)) from None
        raise SystemExit(code if isinstance(code, int) else 0)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of their definition: the most used commands come first."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"no command {args[0]!r}{did_you_mean(args[0], self.commands)}", ctx)
        return super().resolve_command(ctx, args)


def _message(error: click.ClickException) -> str:
    """The error message, without arguments that may be secrets."""
    if isinstance(error, click.NoSuchOption):
        known = [name for param in error.ctx.command.params for name in param.opts] if error.ctx else []
        return f"no option {error.option_name}{did_you_mean(error.option_name, known)}"
    if isinstance(error, click.UsageError) and "extra argument" in error.message:
        return error.message.partition(" (")[0]
    return error.format_message()


def command(*args: Any, **attrs: Any) -> Callable[[Callable[..., Any]], Command]:
    """A command, with its options in sections."""
    return click.command(*args, cls=Command, **attrs)


def group(*args: Any, **attrs: Any) -> Callable[[Callable[..., Any]], Group]:
    """A command with commands below it."""
    return click.group(*args, cls=Group, **attrs)


def option(*names: str, section: str = "Options", **attrs: Any) -> Callable[[F], F]:
    """An option of a command, in a section of its help."""
    return click.option(*names, cls=Option, section=section, **attrs)


def argument(name: str, metavar: str, text: str, **attrs: Any) -> Callable[[F], F]:
    """An argument of a command, with a help text."""
    return click.argument(name, cls=Argument, metavar=metavar, text=text, **attrs)


def one_of(*words: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Completes these words. The command itself refuses other words."""

    def complete(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
        return [word for word in words if word.startswith(begun)]

    return complete
