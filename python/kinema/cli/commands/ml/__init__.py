"""Sample archives for training: made, exported, and found again."""

# in the order of --help; each is a function in a module of its name, as in `kinema.cli.app`
COMMANDS: tuple[str, ...] = ("convert", "export", "statistics", "catalogue", "bench")
