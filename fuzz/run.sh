#!/bin/sh
# Runs every fuzz target in turn for SECONDS each (default 60) and exits non-zero when any of them has a finding.
# It keeps what it learns in fuzz/work and writes findings to fuzz/artifacts; neither belongs to the repository.
# Usage: fuzz/run.sh [SECONDS [TARGET...]]
set -u

seconds=${1:-60}
[ $# -gt 0 ] && shift
case $seconds in
'' | *[!0-9]*)
    echo "usage: fuzz/run.sh [SECONDS [TARGET...]]" >&2
    exit 2
    ;;
esac
cd "$(dirname "$0")" || exit 2

if ! cargo fuzz --version >/dev/null 2>&1; then
    echo "installing cargo-fuzz" >&2
    cargo install cargo-fuzz || exit 2
fi
# stored indices are written before they are loaded: in memory where there is such a folder
if [ -d /dev/shm ] && [ -w /dev/shm ]; then
    export TMPDIR=/dev/shm
fi
# The C libraries get AddressSanitizer too. gcc takes constant tables of a function, which it stores outside of the stack,
# for variables whose scope has ended (zstd has such a table): without this switch that is a finding.
export CFLAGS="${CFLAGS:-} -fno-sanitize-address-use-after-scope"
[ $# -gt 0 ] || set -- $(cargo +nightly fuzz list --fuzz-dir .)
[ $# -gt 0 ] || exit 2
cargo +nightly fuzz build --fuzz-dir . || exit 2

found=
for target in "$@"; do
    mkdir -p "work/$target" "findings/$target"
    # threads of a server go on between two inputs
    leaks=
    [ "$target" = peers ] && leaks=-detect_leaks=0
    # bounded memory, so that a wild allocation is a finding; 20 s for one input, as sanitizers are slow
    if ! cargo +nightly fuzz run --fuzz-dir . "$target" "work/$target" "corpus/$target" "findings/$target" -- \
        -max_total_time="$seconds" -rss_limit_mb=1024 -malloc_limit_mb=64 -timeout=20 -max_len=8192 \
        -use_value_profile=1 -print_final_stats=1 $leaks; then
        found="$found $target"
    fi
done
if [ -n "$found" ]; then
    echo "findings in:$found (inputs in fuzz/artifacts)" >&2
    exit 1
fi
echo "no finding in $seconds s each of: $*"
