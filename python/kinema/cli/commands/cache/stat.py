"""`kinema cache stat`: the contents of a node cache. The work is `NodeCache.stat`."""

from typing import Any

import typer

from kinema.base.printable import counted
from kinema.cli.command_line import Command
from kinema.cli.commands.cache.folder import Folder, existing


def stat(context: typer.Context, folder: Folder) -> None:
    """Files, blocks and bytes of a node cache, and published files that were fetched from other nodes."""
    command: Command = context.obj
    cache = existing(folder)
    found = cache.stat()
    command.print_result(lambda: _facts(found), lambda: "\n".join(_lines(cache.root, found)))


def _facts(found: dict[str, Any]) -> dict[str, Any]:
    files = [{"path": path, "blocks": blocks, "bytes": size} for path, blocks, size in found["files"]]
    fetched = [{"path": path, "bytes": size} for path, size in found["fetched"]]
    return {**found, "files": files, "fetched": fetched}


def _lines(root: str, found: dict[str, Any]) -> list[str]:
    files = counted(len(found["files"]), "file")
    lines = [f"{root}: {counted(found['blocks'], 'block')}, {found['bytes']:,} bytes of {files}"]
    if found["temporary"]:
        lines.append(f"  {counted(found['temporary'], 'block')} being fetched")
    lines += [f"  {size:>18,} bytes in {blocks:>8,} blocks  {path}" for path, blocks, size in found["files"]]
    if found["fetched"]:
        fetched = counted(len(found["fetched"]), "published file")
        lines.append(f"{fetched} of other nodes, beyond the limit of the cache")
    return lines + [f"  {size:>18,} bytes  {path}" for path, size in found["fetched"]]
