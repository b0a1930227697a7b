"""The command ``omniccl``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Optional

import click

from . import doctor, hook
from .bench.commands import bench
from .config import SETTINGS, markdown_table, values_in_force
from .errors import OmnicclError
from .paths import AGGREGATOR
from .program import Program
from .version import __version__

_INTERCEPT = "OMNICCL_INTERCEPT"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hvd_omniccl")
def commands() -> None:
    """Exact block-sparse allreduce for Horovod."""


@commands.command(
    context_settings={"allow_interspersed_args": False},
    short_help="Run a training script that does not import hvd_omniccl.",
)
@click.option(
    "--intercept",
    type=click.Choice(["all", "tagged", "off"]),
    help="Which tensors are taken; beats the variable OMNICCL_INTERCEPT, without which it is all.",
)
@click.option("-m", "is_module", is_flag=True, help="SCRIPT is the name of a module, as with python -m.")
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(intercept: Optional[str], is_module: bool, script: str, arguments: tuple[str, ...]) -> Program:
    """Run SCRIPT as python does, with Horovod hooked once the script imports it.

    All that follows SCRIPT belongs to it. Under a launcher:

        horovodrun -np 4 omniccl run train.py --epochs 3
    """
    if not is_module and not Path(script).exists():
        raise click.UsageError(f"there is no file {script}")
    os.environ[_INTERCEPT] = intercept or os.environ.get(_INTERCEPT, "").strip() or "all"
    hook.install()
    return Program(script, is_module, arguments)


@commands.command(
    context_settings={"ignore_unknown_options": True},
    add_help_option=False,  # the daemon has its own
    short_help="Start omniccl-aggregator, the daemon that sums for jobs.",
)
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def aggregator(options: tuple[str, ...]) -> None:
    """Start omniccl-aggregator with OPTIONS, in place of this process."""
    if not AGGREGATOR.exists():
        raise click.ClickException(f"{AGGREGATOR} is missing: install the package (pip install .)")
    os.execv(AGGREGATOR, [AGGREGATOR.name, *options])


@commands.command()
def adapter() -> None:
    """Build the adapter to the installed Horovod if it is missing, and print its path."""
    click.echo(hook.state_with_horovod().module.__file__)  # type: ignore[union-attr]


@commands.command()
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "markdown", "json"]),
    default="table",
    show_default=True,
    help="A table of what is in force here; the documentation's; or all of it for programs.",
)
def settings(form: str) -> None:
    """Show the settings (OMNICCL_* environment variables)."""
    if form == "markdown":
        click.echo(markdown_table())
        return
    values = values_in_force()
    if form == "json":
        documentation = {one.name: {"allowed": one.allowed, "doc": one.doc} for one in SETTINGS}
        click.echo(json.dumps([{**value._asdict(), **documentation[value.name]} for value in values], indent=2))
        return
    width = max(len(value.name) for value in values)
    for value in values:
        click.echo(f"{value.name:{width}}  {value.value}  ({value.source})")


commands.add_command(bench)


_MARKS = {"ok": ("ok  ", "green"), "warn": ("warn", "yellow"), "fail": ("FAIL", "red")}


@commands.command(name="doctor")
@click.option("--json", "as_json", is_flag=True, help="For programs: a list of checks.")
def doctor_command(as_json: bool) -> int:
    """Say whether a job would run here; the exit status is 0 if so, else 1."""
    checks = doctor.run_checks()
    if as_json:
        click.echo(json.dumps([check._asdict() for check in checks], indent=2))
    else:
        for check in checks:
            text, colour = _MARKS[check.status]
            click.echo(f"{click.style(text, fg=colour)}  {check.name}: {check.detail}")
            if check.remedy:
                click.echo(f"      -> {check.remedy}")
    return int(any(check.status == "fail" for check in checks))


def main() -> None:
    """Run the command line and end the process.

    A program that ``run`` names runs after click is done: click would handle its exceptions.
    """
    try:
        result: Any = commands.main(prog_name="omniccl", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:  # Ctrl-C
        sys.exit(130)
    except OmnicclError as error:
        sys.exit(f"omniccl: {error}")
    if isinstance(result, Program):
        result.run()
        return
    sys.exit(result)
