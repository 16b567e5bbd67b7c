"""The command line: ``watersmeet demo``, ``watersmeet version`` and ``watersmeet --version``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import watersmeet as wm

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(wm.__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Watersmeet: stream joins for Apache Spark, from Python."""


@app.command()
def demo(
    rows: Annotated[
        int, typer.Option(min=1_000, help="About how many rows the two streams have, at most.")
    ] = 12_000_000,
    seconds: Annotated[int, typer.Option(min=1, help="For how long each of the two races.")] = 15,
    output: Annotated[
        Path, typer.Option(help="The folder for the results; made if it is not there.")
    ] = Path("demo-output"),
) -> None:
    """Join ad views with clicks on a Spark of your own machine, beside Spark's own join."""
    # Only this command needs what the demo imports.
    from watersmeet import demo

    raise typer.Exit(demo.run(demo.Settings(rows, seconds, output)))


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(wm.__version__)
