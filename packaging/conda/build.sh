#!/usr/bin/env bash
# Builds Kinema within rattler-build or conda-build, which set PYTHON, PREFIX and the compilers.
set -euxo pipefail

cargo-bundle-licenses --format yaml --output THIRDPARTY.yml

# one's own folders are no business of others: neither the build's nor cargo's
export RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=${SRC_DIR:-$PWD}=/kinema --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"

"$PYTHON" -m pip install . -vv --no-deps --no-build-isolation
