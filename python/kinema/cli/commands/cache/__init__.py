"""Blocks of files on a disk of this node: fetched before a job computes, listed, verified, removed."""

# in the order of --help; each is a function in a module of its name, as in `kinema.cli.app`
COMMANDS: tuple[str, ...] = ("fill", "stat", "verify", "clear")
