"""Checks that dependencies of the Rust half point one way: between crates, and between modules of the core and of net.

Checks too that only formats compare names of formats: elsewhere what differs is a fact or a method of the format.
It does not look at tests, benches or examples: these may use whatever they like.
The tables below are the architecture; a module without a row is an error: a new one is placed on purpose.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

CRATES: dict[str, set[str]] = {
    "kinema-core": set(),
    "kinema-net": {"kinema-core"},
    "kinema-analysis": {"kinema-core"},
    "kinema-python": {"kinema-core", "kinema-net", "kinema-analysis"},
}

# Modules that every module of the core may use.
CORE_COMMON = {"error", "frame", "named", "selection", "trace"}
CORE_MODULES: dict[str, set[str]] = {
    "error": set(),
    "trace": set(),
    "named": set(),
    "selection": set(),
    "frame": set(),
    "source": set(),
    "sink": set(),
    "container": {"source"},
    "index": {"source", "container"},
    "clock": set(),
    # decoders that read through another library say how long that took
    "format": {"clock", "container", "source", "index"},
    "reduce": set(),
    "trajectory": {"clock", "source", "index", "format", "reduce"},
    "plan": {"format", "index", "reduce", "trajectory"},
    # rows of archives are those of HDF5 data sets, without a format between
    "pipeline": {"clock", "container", "format", "index", "plan", "reduce", "sink", "source", "trajectory"},
}

# The modules of kinema-net.
NET_MODULES: dict[str, set[str]] = {
    "cache": set(),
    "peer": {"cache"},
}

# Modules that formats share, in the folder of the formats.
SHARED_BY_FORMATS = {
    "cells",
    "decoder",
    "encoder",
    "frame_layout",
    "labels",
    "lines",
    "numbers",
    "planes",
    "registry",
    "scan",
}


def paths_of_use_tree(tree: str) -> Iterator[list[str]]:
    """All paths of one `use` tree: `a::{b, c::d}` gives a::b and a::c::d."""
    tree = tree.strip()
    brace = tree.find("{")
    if brace < 0:
        yield [part.strip().split(" as ")[0] for part in tree.split("::")]
        return
    prefix = [part.strip() for part in tree[:brace].split("::") if part.strip()]
    depth, start, inner = 0, 0, tree[brace + 1 : tree.rindex("}")]
    for position, character in enumerate([*inner, ","]):
        depth += (character == "{") - (character == "}")
        if character == "," and depth == 0:
            if inner[start:position].strip():
                yield from (prefix + path for path in paths_of_use_tree(inner[start:position]))
            start = position + 1


def drop_tests(text: str) -> str:
    """The code before its tests, without comments; lines stay where they are."""
    # a declaration of a file of tests, which code may follow
    text = re.sub(r"#\[cfg\(test\)\]\s*(?=mod \w+;)", "\n", text)
    text = re.split(r"#\[cfg\((?:test|all\(test)", text)[0]
    return re.sub(r"//[^\n]*", "", text)


def is_test(file: Path) -> bool:
    """Whether a file of a crate holds tests alone."""
    return file.stem in ("tests", "damage_tests") or file.stem.endswith("_tests")


def rust_paths(text: str) -> Iterator[list[str]]:
    """Paths from `crate`, `self` or `super` that the code, tests left out, names in `use` lines or inline."""
    text = drop_tests(text)
    for match in re.finditer(r"\buse\s+([^;]+);", text):
        yield from paths_of_use_tree(match.group(1))
    body = re.sub(r"\buse\s+[^;]+;", "", text)
    for match in re.finditer(r"\b(?:crate|super)(?:::\w+)+", body):
        yield match.group(0).split("::")


def absolute(path: list[str], module: list[str]) -> list[str] | None:
    """The path from the crate's root, or None for a path into another crate."""
    if path[0] == "crate":
        return path[1:]
    if path[0] not in ("self", "super"):
        return None
    here = list(module)
    while path and path[0] in ("self", "super"):
        if path[0] == "super" and here:
            here.pop()
        path = path[1:]
    return here + path


def check_crates(root: Path) -> Iterator[str]:
    """Cargo dependencies among the crates of the workspace."""
    for manifest in sorted((root / "crates").glob("*/Cargo.toml")):
        settings = tomllib.loads(manifest.read_text())
        name = settings["package"]["name"]
        used = {crate for crate in settings.get("dependencies", {}) if crate.startswith("kinema")}
        if name not in CRATES:
            yield f"{manifest.relative_to(root)}: crate {name} has no row in tools/check_layers.py"
            continue
        for crate in sorted(used - CRATES[name]):
            yield f"{manifest.relative_to(root)}: {name} may not depend on {crate}"


def check_modules(root: Path, crate: str, modules: dict[str, set[str]], common: set[str]) -> Iterator[str]:
    """Modules of a crate, and formats that know each other."""
    source = root / "crates" / crate / "src"
    siblings = {path.stem for path in (source / "format").glob("*")} - {"mod"} - SHARED_BY_FORMATS
    for file in sorted(source.rglob("*.rs")):
        parts = list(file.relative_to(source).with_suffix("").parts)
        if parts == ["lib"] or is_test(file):
            continue
        module = parts[:-1] if parts[-1] == "mod" else parts
        place = file.relative_to(root)
        if module[0] not in modules:
            yield f"{place}: module {module[0]} has no row in tools/check_layers.py"
            continue
        allowed = modules[module[0]] | common | {module[0]}
        for path in rust_paths(file.read_text()):
            target = absolute(path, module)
            if not target:
                continue
            if target[0] in modules and target[0] not in allowed:
                yield f"{place}: {module[0]} may not use {target[0]}"
            if module[0] == target[0] == "format" and len(module) > 1 and len(target) > 1:
                other = target[1]
                if other in siblings and other != module[1]:
                    yield f"{place}: format {module[1]} may not use format {other}"


def format_names(formats: Path) -> list[str]:
    """The names of all formats as their facts state them: a text, or the constant `NAME`."""
    names = set()
    for file in formats.rglob("*.rs"):
        text = file.read_text()
        stated = re.search(r'\bFormatInfo\s*=\s*FormatInfo\s*\{\s*name:\s*(?:"([^"]+)"|NAME)', text)
        constant = re.search(r'\bconst NAME: &str = "([^"]+)"', text)
        if stated:
            names.add(stated[1] or (constant[1] if constant else f"{file}: no name"))
    return sorted(names)


def name_comparisons(text: str, names: list[str]) -> Iterator[int]:
    """Lines of code, tests left out, that compare something with a name of a format, whatever its case."""
    text = drop_tests(text)
    name = '"(?:' + "|".join(map(re.escape, names)) + ')"' if names else '"(?!)"'
    of_format = r"info\(\)\s*\.\s*name\b"
    comparisons = [
        rf"[=!]=\s*&?{name}",
        rf"{name}\s*[=!]=",
        rf"\beq_ignore_ascii_case\(\s*{name}",
        # an arm of `match`, or a pattern of `matches!` or `let`
        rf"{name}\s*(?:\)\s*)*(?:=>|\bif\b)",
        rf"{name}\s*\||\|\s*{name}",
        rf"\bmatches!\([^;]*?,\s*(?:Some\(\s*)?{name}",
        rf"\bmatch\s+[^{{;]*{of_format}",
        rf"{of_format}\s*[=!]=",
        rf"[=!]=\s*[&*\w.()]*{of_format}",
    ]
    found = re.finditer("|".join(comparisons), text, re.IGNORECASE)
    yield from sorted({text.count("\n", 0, match.end()) + 1 for match in found})


def check_format_names(root: Path) -> Iterator[str]:
    """Comparisons with names of formats, outside of the formats themselves."""
    formats = root / "crates/kinema-core/src/format"
    names = format_names(formats)
    for file in sorted((root / "crates").glob("*/src/**/*.rs")):
        if formats in file.parents or is_test(file):
            continue
        for line in name_comparisons(file.read_text(), names):
            place = f"{file.relative_to(root)}:{line}"
            yield f"{place}: only formats compare names of formats; what differs is a fact or a method of the format"


def check(root: Path) -> list[str]:
    """All wrong dependencies and comparisons of the project in `root`, one line each."""
    return [
        *check_crates(root),
        *check_modules(root, "kinema-core", CORE_MODULES, CORE_COMMON),
        *check_modules(root, "kinema-net", NET_MODULES, set()),
        *check_format_names(root),
    ]


if __name__ == "__main__":
    wrong = check(Path(__file__).resolve().parent.parent)
    print("\n".join(wrong) or "layers: all dependencies point one way")
    sys.exit(1 if wrong else 0)
