"""Builds the wheel for others: abi3, for every Linux since glibc 2.17, without a path of the machine that built it.

It does not try the wheel; `tools/smoke_wheel.py` does. On Linux the linker is zig, from PyPI, which links against
the old glibc wherever it runs: no container is needed. On macOS the system's own linker does.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# glibc 2.17, that of CentOS 7: the oldest that Rust's standard library runs on
LINUX_POLICY = "manylinux2014"


def cargo_home() -> Path:
    """Where cargo keeps the sources of dependencies."""
    return Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")


def sysroot() -> Path:
    """Where the Rust toolchain is."""
    found = subprocess.run(["rustc", "--print", "sysroot"], check=True, capture_output=True, text=True, cwd=ROOT)
    return Path(found.stdout.strip())


def renamed_folders() -> list[tuple[Path, str]]:
    """Folders of this machine and what they are called in panic messages; of two that fit, the later one counts."""
    sources = sorted((cargo_home() / "registry/src").glob("*"))
    return [
        (cargo_home(), "/cargo"),
        *((folder, "/crates") for folder in sources),
        (sysroot(), "/rust"),
        (ROOT, "/kinema"),
    ]


def environment() -> dict[str, str]:
    """The environment of the build; the flags are encoded, as folders may have blanks in their names."""
    flags = os.environ.get("RUSTFLAGS", "").split()
    flags += [f"--remap-path-prefix={folder}={name}" for folder, name in renamed_folders()]
    return {**os.environ, "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags)}


def build(dist: Path) -> Path:
    """Builds into `dist`, from which wheels of earlier builds are removed, and returns the wheel."""
    for old in dist.glob("kinema-*.whl"):
        old.unlink()
    # the folders that are renamed must be there before their names are asked for
    subprocess.run(["cargo", "fetch", "--locked"], check=True, cwd=ROOT)
    command = [str(Path(sys.executable).with_name("maturin")), "build", "--release", "--locked", "--out", str(dist)]
    # a folder of its own: other flags would have `make setup` compile everything again
    command += ["--target-dir", str(Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "wheel")]
    if sys.platform == "linux":
        command += ["--zig", "--compatibility", LINUX_POLICY]
    # maturin finds zig through the interpreter that is first on the PATH
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    subprocess.run(command, check=True, cwd=ROOT, env={**environment(), "PATH": path})
    (wheel,) = dist.glob("kinema-*.whl")
    return wheel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of the wheel")
    wheel = build(parser.parse_args().out.resolve())
    print(f"{wheel}: {wheel.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
