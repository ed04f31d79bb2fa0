"""Checks that dependencies point one way: between crates, modules of the core, Python packages.

It does not look at tests, benches or examples: these may use whatever they like.
The tables below are the architecture; a module without a row is an error: a new one is placed on purpose.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

CRATES: dict[str, set[str]] = {
    "kinema-core": set(),
    "kinema-analysis": {"kinema-core"},
    "kinema-python": {"kinema-core", "kinema-analysis"},
}

# What every module of the core may use.
CORE_COMMON = {"error", "selection", "frame", "units"}
CORE_MODULES: dict[str, set[str]] = {
    "error": set(),
    "units": set(),
    "selection": set(),
    "frame": set(),
    "source": set(),
    "container": {"source"},
    "index": {"source", "container"},
    "format": {"container", "source", "index"},
    "kernel": set(),
    "timing": set(),
    "merge": {"kernel"},
    "join": {"index"},
    "trajectory": {"source", "index", "format", "join"},
    "reader": {"format", "source", "timing", "trajectory"},
    "cuts": {"trajectory"},
    "plan": {"cuts", "format", "index", "kernel", "reader", "trajectory"},
    "engine": {"cuts", "plan", "kernel", "merge", "reader", "timing", "trajectory"},
    "bulk": {"engine", "plan", "reader", "trajectory"},
}

# What every module of the package may use: nouns without any dependency of their own.
PYTHON_COMMON = {"_core", "errors"}
PYTHON_MODULES: dict[str, set[str]] = {
    "_core": set(),
    "errors": set(),
    # what is asked of the machine, and small things of one purpose
    "resources": set(),
    "access": set(),
    "progress": set(),
    "peak_memory": set(),
    "registry": set(),
    "provenance": set(),
    # atoms and frames
    "topology": set(),
    "h5md": set(),
    "index_file": set(),
    "files": set(),
    "selection": {"topology"},
    "frames": set(),
    "blocks": set(),
    "trajectory": {"blocks", "frames", "h5md", "index_file", "progress", "resources", "selection", "topology"},
    "opening": {"files", "h5md", "topology", "trajectory"},
    "time_window": {"trajectory"},
    "writer": {"blocks", "h5md", "resources", "topology"},
    # H5MD files written anew from others
    "rewriting": {"h5md", "output", "progress"},
    "repacking": {"h5md", "opening", "progress", "resources", "rewriting", "selection", "trajectory"},
    "splitting": {"h5md", "opening", "progress", "resources", "rewriting", "trajectory"},
    "joining": {"blocks", "files", "h5md", "opening", "progress", "repacking", "resources", "rewriting", "trajectory"},
    "layout": {"h5md", "rewriting"},
    # work on them
    "runners": {"h5md", "access", "frames", "opening", "progress", "resources", "trajectory"},
    "output": {"provenance"},
    "checkpoint": {"output"},
    "result_file": {"frames", "output"},
    "profile": {"frames", "layout", "output", "resources", "runners"},
    "analysis": {
        "access", "blocks", "checkpoint", "frames", "opening", "output", "profile", "progress", "provenance",
        "resources", "result_file", "runners", "selection", "topology", "trajectory",
    },
    "experiments": {
        "__init__", "access", "analysis", "blocks", "opening", "profile", "resources", "runners", "trajectory",
        "writer",
    },
    "checking": {"opening", "progress", "trajectory"},
    # other packages' interfaces over ours; nothing of Kinema uses them
    "interop": {"blocks", "files", "opening", "progress", "registry", "resources", "runners", "trajectory", "writer"},
    "demo": {"peak_memory", "progress", "resources", "runners"},
    "testing": {
        "analysis", "blocks", "checkpoint", "frames", "output", "progress", "result_file", "runners", "selection",
        "topology", "trajectory",
    },
}  # fmt: skip
PYTHON_MODULES["__init__"] = set(PYTHON_MODULES) - {"testing", "demo", "experiments", "interop"}
PYTHON_MODULES["__main__"] = {"cli"}
# The command line may use whatever is public, but nothing may use the command line.
PYTHON_MODULES["cli"] = set(PYTHON_MODULES) - {"testing", "__main__", "interop"}


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


def rust_paths(text: str) -> Iterator[list[str]]:
    """Paths from `crate`, `self` or `super` that the code, tests left out, names in `use` lines or inline."""
    text = re.split(r"#\[cfg\((?:test|all\(test)", text)[0]
    text = re.sub(r"//[^\n]*", "", text)
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


def check_core(root: Path) -> Iterator[str]:
    """Modules of kinema-core, and formats that know each other."""
    source = root / "crates/kinema-core/src"
    for file in sorted(source.rglob("*.rs")):
        parts = list(file.relative_to(source).with_suffix("").parts)
        if parts == ["lib"] or parts[-1] == "tests" or file.stem.endswith("_tests"):
            continue
        module = parts[:-1] if parts[-1] == "mod" else parts
        place = file.relative_to(root)
        if module[0] not in CORE_MODULES:
            yield f"{place}: module {module[0]} has no row in tools/check_layers.py"
            continue
        allowed = CORE_MODULES[module[0]] | CORE_COMMON | {module[0]}
        siblings = {path.stem for path in (source / "format").iterdir()} - {"mod"}
        for path in rust_paths(file.read_text()):
            target = absolute(path, module)
            if not target:
                continue
            if target[0] in CORE_MODULES and target[0] not in allowed:
                yield f"{place}: {module[0]} may not use {target[0]}"
            if module[0] == target[0] == "format" and len(module) > 1 and len(target) > 1:
                other = target[1]
                if other in siblings and other != module[1]:
                    yield f"{place}: format {module[1]} may not use format {other}"


def kinema_imports(tree: ast.Module, module: list[str]) -> Iterator[tuple[int, str]]:
    """Line and module directly below `kinema` for every import, also inside functions; types do not count."""
    for_types_alone: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for_types_alone.update(child for statement in node.body for child in ast.walk(statement))
    for node in ast.walk(tree):
        if node in for_types_alone:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = ["kinema", *module[:-1]]
            start = package[: len(package) - node.level + 1] if node.level else []
            base = start + (node.module.split(".") if node.module else [])
            names = [base] if len(base) > 1 else [[*base, alias.name] for alias in node.names]
        else:
            continue
        for name in names:
            if name[0] == "kinema":
                yield node.lineno, name[1] if len(name) > 1 else "__init__"


def check_python(root: Path) -> Iterator[str]:
    """Modules and packages of `kinema`."""
    source = root / "python/kinema"
    for file in sorted(source.rglob("*.py")):
        module = list(file.relative_to(source).with_suffix("").parts)
        place = file.relative_to(root)
        if module[0] not in PYTHON_MODULES:
            yield f"{place}: module {module[0]} has no row in tools/check_layers.py"
            continue
        allowed = PYTHON_MODULES[module[0]] | PYTHON_COMMON | {module[0]}
        for line, target in kinema_imports(ast.parse(file.read_text()), module):
            known = target if target in PYTHON_MODULES else "__init__"  # a public name of the package
            if known not in allowed and not (module[0] == "testing" and known == "__init__"):
                yield f"{place}:{line}: {module[0]} may not import {target}"


def check(root: Path) -> list[str]:
    """All wrong dependencies of the project in `root`, one line each."""
    return [*check_crates(root), *check_core(root), *check_python(root)]


if __name__ == "__main__":
    wrong = check(Path(__file__).resolve().parent.parent)
    print("\n".join(wrong) or "layers: all dependencies point one way")
    sys.exit(1 if wrong else 0)
