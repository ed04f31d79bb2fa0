"""Sample archives for training: made, exported, and found again."""

# in the order of --help; each is a function in a module of its name, as those of `kinema.cli.app`
COMMANDS = ("convert", "catalogue", "bench")
