#!/bin/sh
# Runs a command and notes the seconds it took: tools/timed.sh PART COMMAND [WORD...]
# The notes are lines of the file that KINEMA_TIMES names; without it nothing is noted.
part=$1
shift
# a command is not a part of make: cargo would share its number of jobs
unset MAKEFLAGS MFLAGS
began=$(date +%s)
"$@"
code=$?
if [ -n "${KINEMA_TIMES:-}" ]; then
    echo "$part: $(($(date +%s) - began)) s" >> "$KINEMA_TIMES"
fi
exit $code
