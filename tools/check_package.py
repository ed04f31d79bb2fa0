"""Checks what import-linter does not see of the package `kinema`; the order of its folders stands in pyproject.toml.

Names of modules in strings that `import_module` may get, imports from the facade `kinema`, comparisons with names of
formats, class names, and sizes of folders. Imports inside functions count as those at the top do. Tests and benchmarks
are not checked.
"""

import ast
import functools
import gc
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

MODULES_OF_A_FOLDER = 15
# folders that may import public names from `kinema` itself
ABOVE_THE_FACADE = {"interop", "testing", "ml", "studies", "demo", "cli", "__main__"}
# tables with the names of modules in higher folders, which are imported when somebody asks for them
UPWARD_TABLES = {
    ("formats/writer.py", "parallel"): "the writer of many ranks, as comm= chooses it",
    ("runners/access.py", "studies"): "packages that register access methods",
}
# the old paths of modules that lie anywhere
MOVED = "base/moved.py"


@functools.cache
def modules_of(root: Path) -> list[tuple[str, list[ast.AST]]]:
    """Path below the package of each module, and all nodes of its syntax tree."""
    package = root / "python" / "kinema"
    files = sorted(package.rglob("*.py"))
    return [(file.relative_to(package).as_posix(), list(ast.walk(ast.parse(file.read_text())))) for file in files]


def layers_of(root: Path) -> dict[str, int]:
    """The layer of each folder, from the bottom up."""
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    return {name.strip(): -number for number, layer in enumerate(layers) for name in layer.split("|")}


def check_strings(root: Path) -> Iterator[str]:
    """Strings that name modules of higher folders, where modules are imported by name."""
    layers = layers_of(root)
    for path, nodes in modules_of(root):
        here = layers.get(path.split("/")[0].removesuffix(".py"))
        by_name = any("import_module" in (getattr(node, "id", ""), getattr(node, "attr", "")) for node in nodes)
        for node in nodes if by_name and here is not None and path != MOVED else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("kinema."):
                folder = node.value.split(".")[1]
                if layers.get(folder, here) > here and (path, folder) not in UPWARD_TABLES:
                    yield f"python/kinema/{path}:{node.lineno}: may not import {node.value}, which lies above it"


def check_facade(root: Path) -> Iterator[str]:
    """Imports from `kinema` itself in folders below it; its folders and `_core` do not count as names of `kinema`."""
    folders = {*layers_of(root), "_core"}
    for path, nodes in modules_of(root):
        if path.split("/")[0].removesuffix(".py") in {*ABOVE_THE_FACADE, "__init__"}:
            continue
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and node.module == "kinema":
                names = sorted({alias.name for alias in node.names} - folders)
            elif isinstance(node, ast.Import) and "kinema" in (alias.name for alias in node.names):
                names = ["all"]
            else:
                continue
            for name in names:
                yield f"python/kinema/{path}:{node.lineno}: imports {name} of the facade kinema, which lies above it"


def names_of_formats(root: Path) -> set[str]:
    """The names that classes in the folders of formats declare."""
    folder = root / "python" / "kinema" / "formats"
    return {
        node.value.value
        for file in sorted({*folder.glob("*/format.py"), *folder.glob("*/__init__.py")})
        for one in ast.parse(file.read_text()).body
        for node in (one.body if isinstance(one, ast.ClassDef) else ())
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and _is_called("name", node)
    }


def _is_called(name: str, node: ast.Assign) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in node.targets)


def check_formats(root: Path) -> Iterator[str]:
    """Comparisons with the name of a format outside of `formats`: what differs is an attribute of `Format`."""
    names = names_of_formats(root)
    for path, nodes in modules_of(root):
        # suites of tests are made for formats
        if path.split("/")[0] in ("formats", "testing"):
            continue
        for node in nodes:
            if not isinstance(node, ast.Compare):
                continue
            sides = [part for side in (node.left, *node.comparators) for part in getattr(side, "elts", [side])]
            for name in sorted({one.value for one in sides if isinstance(one, ast.Constant)} & names):
                yield f"python/kinema/{path}:{node.lineno}: compares with {name}; ask an attribute of its `Format`"


def check_class_names(root: Path) -> Iterator[str]:
    """Names that two classes have; leading underscores do not make names different."""
    places: dict[str, list[str]] = defaultdict(list)
    for path, nodes in modules_of(root):
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(f"python/kinema/{path}:{node.lineno}")
    for name, where in sorted(places.items()):
        if len(where) > 1:
            yield f"class name {name} is used {len(where)} times: {', '.join(where)}"


def check_folders(root: Path) -> Iterator[str]:
    """Folders with too many modules to find one's way in."""
    for folder in sorted({file.parent for file in (root / "python" / "kinema").rglob("*.py")}):
        size = sum(file.name != "__init__.py" for file in folder.glob("*.py"))
        if size > MODULES_OF_A_FOLDER:
            yield f"{folder.relative_to(root)}: {size} modules, expected at most {MODULES_OF_A_FOLDER}; split it"


def check(root: Path) -> list[str]:
    """All that is wrong with the package in `root`, one line each."""
    return [
        *check_strings(root),
        *check_facade(root),
        *check_formats(root),
        *check_class_names(root),
        *check_folders(root),
    ]


if __name__ == "__main__":
    # all syntax trees stay: to look for garbage among them takes half of the time
    gc.disable()
    wrong = check(Path(__file__).resolve().parent.parent)
    print("\n".join(wrong) or "package: strings, facade, formats, class names and folders are in order")
    sys.exit(1 if wrong else 0)
