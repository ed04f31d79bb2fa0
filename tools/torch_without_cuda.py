"""Makes an installed torch importable that was built for CUDA and has no library of CUDA beside it. For tests only.

The wheels of torch for Linux need libraries of three gigabytes, which a machine without a GPU loads and never calls.
For each one that is missing this writes a small library of the same name, which defines the symbols that torch's
libraries take from it: functions that return 100 (in CUDA's runtime: no device), so that `torch.cuda.is_available()` is
False. Needs readelf and gcc.

    python tools/torch_without_cuda.py FOLDER    # .../site-packages/torch/lib
"""

import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

# what the runtime answers if there is no device
NO_DEVICE = 100
# of a variable that is taken from a missing library; none is read
BYTES_OF_A_VARIABLE = 4096


def main() -> None:
    """The command line."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit("usage: torch_without_cuda.py FOLDER, that of torch's libraries")
    folder = Path(sys.argv[1])
    for name, symbols in sorted(missing_symbols(folder).items()):
        write_library(folder / name, symbols)
        print(f"{name}: {len(symbols)} symbols")


# kind of each symbol, FUNC or OBJECT, by its name and version
Symbols = dict[tuple[str, str], str]


def missing_symbols(folder: Path) -> dict[str, Symbols]:
    """Symbols that each missing library has to define."""
    files = sorted(path for path in folder.iterdir() if ".so" in path.name)
    missing: dict[str, Symbols] = {}
    defined: set[str] = set()
    wanted: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for file in files:
        for name in needed(file):
            if not (folder / name).exists() and not is_installed(name):
                missing[name] = {}
        for kind, binding, is_defined, name, version in symbols_of(file):
            if is_defined:
                defined.add(name)
            elif binding != "WEAK":
                wanted[file.name].append((kind, name, version))
    for file in files:
        owners = [name for name in needed(file) if name in missing]
        libraries = libraries_of_versions(file)
        for kind, name, version in wanted[file.name]:
            # of a symbol without a version it is not known whose it is, and any missing library will do
            if libraries.get(version) in missing:
                missing[libraries[version]][name, version] = kind
            elif owners and not version and name not in defined and not name.startswith(("Py", "_Py")):
                missing[owners[0]][name, ""] = kind
    return missing


def needed(file: Path) -> list[str]:
    """Names of the libraries that a library needs."""
    return re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "-d", "-W", str(file)))


def libraries_of_versions(file: Path) -> dict[str, str]:
    """The library that each version of symbols is of which a library takes from others."""
    found, library = {}, ""
    for line in output_of("readelf", "-V", "-W", str(file)).partition("Version needs section")[2].splitlines():
        library = next(iter(re.findall(r"File: (\S+)", line)), library)
        found.update(dict.fromkeys(re.findall(r"Name: (\S+)", line), library))
    return found


def symbols_of(file: Path) -> list[tuple[str, str, bool, str, str]]:
    """Kind, binding, whether it is defined, name and version of each symbol for the linker."""
    found = []
    for line in output_of("readelf", "--dyn-syms", "-W", str(file)).splitlines():
        words = line.split()
        if len(words) >= 8 and words[0].rstrip(":").isdecimal():
            name, _, version = words[7].partition("@")
            found.append((words[3], words[4], words[6] != "UND", name, version.lstrip("@")))
    return found


def is_installed(name: str) -> bool:
    """Whether the system's loader finds a library."""
    return any(line.split()[:1] == [name] for line in output_of("/sbin/ldconfig", "-p").splitlines())


def write_library(path: Path, symbols: Symbols) -> None:
    """Compiles a library that defines symbols, each in its version."""
    lines, names = [], defaultdict(list)
    for (name, version), kind in sorted(symbols.items()):
        names[version].append(name)
        if kind == "OBJECT":
            lines.append(f"char {name}[{BYTES_OF_A_VARIABLE}];")
        else:
            lines.append(f"long {name}(void) {{ return {NO_DEVICE}; }}")
    with tempfile.TemporaryDirectory() as scratch:
        source, versions = Path(scratch, "stub.c"), Path(scratch, "stub.map")
        source.write_text("\n".join(lines) + "\n")
        # those without a version stay as they are, which no file of versions can say
        versions.write_text("".join(f"{one} {{ global: {'; '.join(names[one])}; }};\n" for one in names if one))
        words = ["gcc", "-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,-soname,{path.name}", "-o", str(path)]
        words += [str(source), *([f"-Wl,--version-script,{versions}"] if any(names) else [])]
        found = subprocess.run(words, capture_output=True, text=True)
        if found.returncode != 0:
            sys.exit(f"error: {path.name} cannot be compiled: {found.stderr}")


def output_of(*words: str) -> str:
    """Output of a command."""
    try:
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"error: {words[0]}: {error}")


if __name__ == "__main__":
    main()
