"""The exit codes of `kinema`."""

DONE = 0
PROBLEMS = 1
BAD_INPUT = 2
DEFECT = 70
# 128 and the number of the signal, as shells have it
INTERRUPTED = 130
TERMINATED = 143
