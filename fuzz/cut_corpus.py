"""Removes inputs of fuzz/corpus that reach nothing new: what is left reaches the same code, equally often.

libFuzzer chooses the inputs (`-set_cover_merge=1`); the findings of a target count as chosen, and stay. Needs a nightly
toolchain and cargo-fuzz, as run.sh does. Usage: python fuzz/cut_corpus.py [TARGET ...]
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FUZZ = Path(__file__).resolve().parent
# tests read these seeds by their names or count them; what is reached in threads differs from run to run
KEPT = ("scan_history/*", "scan_netcdf/cdf1_f8", "peers/*")


def chosen(target: str, corpus: Path) -> set[bytes]:
    """The contents of the inputs that libFuzzer chooses beside the findings of the target."""
    with tempfile.TemporaryDirectory() as folder:
        findings = FUZZ / "findings" / target
        if findings.is_dir():
            shutil.copytree(findings, folder, dirs_exist_ok=True)
        command = ["cargo", "+nightly", "fuzz", "run", "--fuzz-dir", str(FUZZ), target, folder, str(corpus), "--"]
        subprocess.run([*command, "-set_cover_merge=1", "-timeout=20"], check=True, cwd=FUZZ, stderr=subprocess.DEVNULL)
        found = {path.read_bytes() for path in Path(folder).iterdir()}
    if not found:
        raise SystemExit(f"error: {target}: libFuzzer has chosen no input")
    return found


def cut(target: str) -> tuple[int, int]:
    """Removes the other inputs of a target; returns how many there were and how many are left."""
    corpus = FUZZ / "corpus" / target
    before, contents = sorted(corpus.iterdir()), chosen(target, corpus)
    for path in before:
        data = path.read_bytes()
        if data in contents:
            contents.discard(data)  # of two that are equal, one stays
        elif not any(path.relative_to(FUZZ / "corpus").match(pattern) for pattern in KEPT):
            path.unlink()
    return len(before), len(list(corpus.iterdir()))


def main() -> None:
    # the C libraries as run.sh builds them
    os.environ["CFLAGS"] = f"{os.environ.get('CFLAGS', '')} -fno-sanitize-address-use-after-scope"
    for target in sys.argv[1:] or sorted(path.name for path in (FUZZ / "corpus").iterdir()):
        before, after = cut(target)
        print(f"{target}: {before} inputs, {after} stay")


if __name__ == "__main__":
    main()
