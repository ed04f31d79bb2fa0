"""The call of `kinema.Writer` that an experiment makes and its report prints, and the same for native binary records."""
