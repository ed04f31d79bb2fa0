"""Measures which lines the tests run, in Python and in Rust, for `make coverage`.

    measure_coverage.py [build] [rust] [python] [report]

`build` compiles the Rust tests and the extension with counters, and installs this extension. `rust` runs the Rust
tests. `python` runs the Python tests, which count lines of Rust too; words after `--` go to pytest. `report` prints a
table of folders, and the files with most lines that no test runs. Without a step all four run.

A process that is killed leaves no counts, so lines that run only in killed processes count as missed. The
counters of Rust need LLVM's tools of the compiler's own version: `rustup component add llvm-tools`.
"""

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "target/coverage"
BUILD, COUNTS, EXTENSION = FOLDER / "build", FOLDER / "rust", ROOT / "python/kinema/_core.abi3.so"
CARGO = ("--workspace", "--profile", "checked", "--target-dir", str(BUILD))
# folders and modules of Rust that do not belong to the library
NOT_COUNTED = {"tests", "examples"}
# lines of a table, and levels of folders in it
MOST, LEVELS = 20, 3


class Lines(NamedTuple):
    """How many lines of a file a test may run, and how many of them none does."""

    file: str
    total: int
    missed: int


def environment() -> dict[str, str]:
    """With counters in what is compiled, and a folder for what they count: few files, which many processes add to."""
    flags = f"{os.environ.get('RUSTFLAGS', '')} -C instrument-coverage".strip()
    return {**os.environ, "RUSTFLAGS": flags, "LLVM_PROFILE_FILE": str(COUNTS / "%4m.profraw")}


def cargo(*words: str) -> str:
    return subprocess.run(
        ["cargo", *words], cwd=ROOT, env=environment(), check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def llvm(tool: str) -> str:
    """The path of a tool of LLVM that fits the compiler."""
    ask = ["rustc", "--print", "target-libdir"]
    folder = Path(subprocess.run(ask, check=True, stdout=subprocess.PIPE, text=True).stdout.strip())
    found = folder.parent / "bin" / tool
    if not found.exists():
        sys.exit(f"error: {found} is missing; install it with: rustup component add llvm-tools")
    return str(found)


def build() -> None:
    llvm("llvm-cov")
    cargo("test", *CARGO, "--quiet", "--no-run")
    cargo("build", *CARGO, "--quiet")
    # under another inode: a process may have mapped the one of before
    beside = EXTENSION.with_suffix(".new")
    shutil.copyfile(BUILD / "checked/libkinema_python.so", beside)
    beside.rename(EXTENSION)


def run_rust_tests() -> None:
    """The counts replace earlier ones."""
    shutil.rmtree(COUNTS, ignore_errors=True)
    print(cargo("test", *CARGO, "--quiet", "--", "--include-ignored"), end="")


def run_python_tests(words: list[str]) -> None:
    shutil.rmtree(FOLDER / "python", ignore_errors=True)
    (FOLDER / "python").mkdir(parents=True)
    command = [
        sys.executable,
        "-m",
        "coverage",
        "run",
        "-m",
        "pytest",
        *(words or ["-n", "auto", "--dist", "loadscope"]),
    ]
    # a failed test has run lines, too
    code = subprocess.run(command, cwd=ROOT, env=environment()).returncode
    print(f"pytest: exit code {code}")


def python_lines() -> Iterator[Lines]:
    coverage = [sys.executable, "-m", "coverage"]
    if parts := list((FOLDER / "python").glob("data.*")):
        subprocess.run([*coverage, "combine", "--append", "--quiet"], cwd=ROOT, check=True)
        # files of killed processes cannot be read, which is said, and would stay for the next report
        for part in parts:
            part.unlink(missing_ok=True)
    # tests make packages of the name `kinema`, which are gone by now
    words = ["json", "--ignore-errors", "--quiet", "-o", str(FOLDER / "python.json")]
    subprocess.run([*coverage, *words], cwd=ROOT, check=True)
    files = json.loads((FOLDER / "python.json").read_text())["files"]
    for name in sorted(name for name in files if name.startswith("python/kinema/")):
        file = files[name]
        yield Lines(name, file["summary"]["num_statements"], file["summary"]["missing_lines"])


def rust_lines() -> Iterator[Lines]:
    """Lines of functions of the library."""
    merged = FOLDER / "rust.profdata"
    counts = [str(path) for path in sorted(COUNTS.glob("*.profraw"))]
    # a process that was killed while it wrote leaves a file that cannot be read, which is named
    merge = [llvm("llvm-profdata"), "merge", "--sparse", "--failure-mode=all", *counts, "-o", str(merged)]
    subprocess.run(merge, check=True)
    objects = [word for path in instrumented() for word in ("--object", str(path))]
    command = [llvm("llvm-cov"), "export", "--format=lcov", f"--instr-profile={merged}", *objects[1:]]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    (FOLDER / "rust.lcov").write_text(said)
    for record in said.split("end_of_record\n"):
        lines = record.splitlines()
        names = [line.removeprefix("SF:") for line in lines if line.startswith("SF:")]
        path = Path(*names) if names else ROOT
        if path.is_relative_to(ROOT / "crates") and not NOT_COUNTED & {*path.parts, path.stem.rpartition("_")[2]}:
            yield rust_file(path, lines)


def rust_file(path: Path, lines: list[str]) -> Lines:
    """From the lines of its record: `DA:line,runs`."""
    end = first_line_of_tests(path)
    counted = [line.removeprefix("DA:").split(",")[:2] for line in lines if line.startswith("DA:")]
    runs = [int(count) for number, count in counted if int(number) < end]
    return Lines(str(path.relative_to(ROOT)), len(runs), runs.count(0))


def instrumented() -> list[Path]:
    """The extension, and the programs of the Rust tests as cargo names them."""
    told = cargo("test", *CARGO, "--no-run", "--message-format", "json").splitlines()
    programs = [json.loads(line).get("executable") for line in told]
    return [BUILD / "checked/libkinema_python.so", *(Path(one) for one in programs if one)]


def first_line_of_tests(path: Path) -> int:
    """Where the unit tests begin, which end a file."""
    lines = path.read_text().splitlines()
    for number, (line, following) in enumerate(itertools.pairwise(lines), start=1):
        if line == "#[cfg(test)]" and following.startswith("mod tests {"):
            return number
    return len(lines) + 1


def folder_of(file: str) -> str:
    """For tables: `python/kinema/formats`, `crates/kinema-core/format`."""
    parts = [part for part in Path(file).parent.parts if part != "src"]
    return "/".join(parts[:LEVELS])


def table(title: str, files: Iterable[Lines]) -> Iterator[str]:
    found = [file for file in files if file.total]
    folders: dict[str, list[Lines]] = defaultdict(list)
    for file in found:
        folders[folder_of(file.file)].append(file)
    yield f"{title:42} {'lines':>7} {'missed':>7} {'run':>7}"
    for name, members in [*sorted(folders.items()), ("total", found)]:
        total, missed = sum(one.total for one in members), sum(one.missed for one in members)
        yield f"{name:42} {total:7} {missed:7} {1 - missed / total:7.1%}"
    yield f"\n{'most lines that no test runs':66} {'missed':>7} {'of':>7}"
    for file in sorted(found, key=lambda one: one.missed, reverse=True)[:MOST]:
        yield f"{file.file:66} {file.missed:7} {file.total:7}"
    yield ""


STEPS = ("build", "rust", "python", "report")


def main(words: list[str]) -> None:
    cut = words.index("--") if "--" in words else len(words)
    steps = words[:cut] or STEPS
    if unknown := set(steps) - set(STEPS):
        sys.exit(f"error: no step {', '.join(sorted(unknown))}; there are {', '.join(STEPS)}")
    if "build" in steps:
        build()
    if "rust" in steps:
        run_rust_tests()
    if "python" in steps:
        run_python_tests(words[cut + 1 :])
    if "report" in steps:
        measured = {"Python": (FOLDER / "python", python_lines), "Rust": (COUNTS, rust_lines)}
        for language, (folder, lines) in measured.items():
            print("\n".join(table(language, lines())) if folder.exists() else f"{language}: not measured\n")


if __name__ == "__main__":
    main(sys.argv[1:])
