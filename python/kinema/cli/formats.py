"""`kinema formats`: what Kinema reads and writes, from `kinema.formats`."""

import dataclasses
import json

import typer

from kinema.cli.command_line import Command


def formats(context: typer.Context) -> None:
    """The file formats that Kinema knows."""
    import kinema as kn

    command: Command = context.obj
    known = kn.formats()
    if command.json:
        print(json.dumps([dataclasses.asdict(one) for one in known]))
    elif not command.quiet:
        print(f"{'format':8} {'reads':6} {'writes':7} {'endings':14} description")
        for one in known:
            reads, writes = ("yes" if can else "no" for can in (one.reads, one.writes))
            endings = ", ".join(f".{ending}" for ending in one.extensions)
            print(f"{one.name:8} {reads:6} {writes:7} {endings:14} {one.description}")
