"""Many ranks write one file: `kinema.Writer(comm=)`, with strategies that do not depend on the format."""
