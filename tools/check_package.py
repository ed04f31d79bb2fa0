"""Checks the structure of the Python package `kinema`: layers, circles of imports, class names, sizes of folders.

Imports inside functions count as those at the top do; those for type checkers alone do not. A module that calls
`import_module` is taken to import each module that one of its strings names. Tests and benchmarks are not checked.
The tables below are the architecture; a module without a room is an error: a new one is placed on purpose.
"""

import ast
import functools
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import NamedTuple

PACKAGE = "kinema"

# Rooms from the bottom up: modules or folders below `kinema`; the longest name that fits a module is its room.
# `X.__init__` is the module of folder X that collects its public names, where it is not in the room of the folder.
# A room may import rooms of lower layers only, and none beside it in its own layer.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("_core", "printable", "values"),
    ("errors",),
    # functions of the user's: sent to other processes, and told from others
    ("runners.serialization", "execution.checkpoint.code_identity"),
    # what is asked of the machine, and nouns of one purpose
    ("choices", "files", "notes", "prefetch", "progress", "resources", "snapshot", "timings"),
    # what records: for all above
    ("tracing",),
    ("writing.output_checks", "writing.parallel.strategies", "writing.parallel.__init__"),
    ("writing.output_file",),
    # what is kept of files
    ("stored",),
    # frames and atoms
    ("frame",),
    ("selection", "writing.frames"),
    # storage of HDF5 files; then what H5MD means by what is stored
    ("formats.hdf5",),
    ("formats.h5md",),
    ("formats.h5md.read", "formats.h5md.write"),
    ("formats.netcdf4",),
    ("formats.registry",),
    # of any HDF5 file: H5MD, NetCDF-4, others
    ("formats.h5md.read.atoms", "formats.h5md.read.describe", "formats.external_frames"),
    ("formats.compressed", "formats.external_counts"),
    ("formats.h5md.__init__", "formats.external", "formats.dlpoly"),
    # blocks of files on a disk of the node; published files, and what nodes give each other
    ("cache",),
    ("following",),
    # what is done to frames; the transforms themselves know references of analyses, and come later
    ("transforms.base",),
    ("transforms.functions",),
    ("trajectory",),
    ("opening", "selection.time_range"),
    # of a file of any kind; then who looks for molecules
    ("selection.bonds",),
    ("selection.broken",),
    # who computes
    ("runners",),
    ("runners.local",),
    ("runners.dask", "runners.mpi"),
    ("runners.__init__",),
    ("checking",),
    # files from which an interrupted call goes on; what identifies a run knows analyses, and comes later
    ("execution.checkpoint",),
    # files that are written
    ("writing",),
    ("formats",),
    # many ranks, one file; what its strategies are called is known below
    ("writing.parallel",),
    ("formats.h5md.edit",),
    # of any format to any format; whole H5MD files by repacking them
    ("writing.conversion",),
    ("writing.convert",),
    # what a run is
    ("execution.computation",),
    ("execution.checkpoint.run_identity",),
    ("execution",),
    ("profile",),
    ("analysis",),
    ("transforms",),
    ("studies",),
    ("__init__",),
    # samples for training
    ("ml",),
    # loops over the samples of data sets, beside the loader
    ("studies.sample_loading",),
    # what is built on the public names
    ("interop", "testing"),
    ("demo",),
    ("cli",),
    # tests call the command
    ("testing.programs",),
    ("__main__",),
)

# Folders may have so many modules besides `__init__`; one with more stands here with the reason for it.
MODULES_OF_A_FOLDER = 15
LARGER_FOLDERS: dict[str, str] = {
    "python/kinema/analysis": "a module a quantity, which analyses.pyi lists; the command has its name",
}


class Module(NamedTuple):
    """What the checks ask of a module: syntax trees of all modules take longer to keep than to read."""

    file: Path
    #: line and split name of every import: `from a.b import c` gives a.b.c, which may be a module or a name
    imports: tuple[tuple[int, tuple[str, ...]], ...]
    #: line and name of every class
    classes: tuple[tuple[int, str], ...]


def modules_of(root: Path) -> dict[str, Module]:
    """Each module below the package, by dotted name; `__init__` is part of the name."""
    source = root / "python" / PACKAGE
    names = {".".join(file.relative_to(source).with_suffix("").parts): file for file in sorted(source.rglob("*.py"))}
    return {name: Module(file, *_read(file.read_text(), name)) for name, file in names.items()}


@functools.cache
def _read(text: str, module: str) -> tuple[tuple[tuple[int, tuple[str, ...]], ...], tuple[tuple[int, str], ...]]:
    """Imports and classes of a module; each check asks for those of all modules."""
    imports: list[tuple[int, tuple[str, ...]]] = []
    classes: list[tuple[int, str]] = []
    strings: list[tuple[int, tuple[str, ...]]] = []
    by_name = False
    nodes: list[ast.AST] = [ast.parse(text)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Import):
            imports += [(node.lineno, tuple(alias.name.split("."))) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            folder = [PACKAGE, *module.split(".")[:-1]]
            start = folder[: len(folder) - node.level + 1] if node.level else []
            start += node.module.split(".") if node.module else []
            imports += [(node.lineno, (*start, alias.name)) for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            strings.append((node.lineno, (*node.value.split("."), "")))
        elif isinstance(node, ast.Name) and node.id == "import_module":
            by_name = True
        elif isinstance(node, ast.ClassDef):
            classes.append((node.lineno, node.name))
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            nodes += node.orelse
            inner = (one for statement in node.body for one in ast.walk(statement))
            classes += [(one.lineno, one.name) for one in inner if isinstance(one, ast.ClassDef)]
        else:
            nodes += ast.iter_child_nodes(node)
    return tuple(imports + strings if by_name else imports), tuple(classes)


def imports_of(name: str, modules: Mapping[str, Module]) -> Iterator[tuple[int, str]]:
    """Line and name of every module of `modules` (and `_core`) that one of them imports, at the top or in functions."""
    known = modules.keys() | {"_core"}
    found = {(line, _module_of(dotted, known)) for line, dotted in modules[name].imports}
    yield from sorted((line, target) for line, target in found if target is not None and target != name)


def _module_of(name: tuple[str, ...], known: Set[str]) -> str | None:
    """The module that a dotted name is, or that holds it; None for other packages."""
    if name[0] != PACKAGE:
        return None
    for parts in (name[1:], name[1:-1]):
        for candidate in (".".join(parts), ".".join([*parts, "__init__"])):
            if candidate in known:
                return candidate
    return None


@functools.cache
def _layers_of_rooms() -> dict[str, int]:
    """The layer of each room."""
    return {room: layer for layer, rooms in enumerate(LAYERS) for room in rooms}


@functools.cache
def room_of(module: str) -> tuple[int, str] | None:
    """Layer and name of the room of a module; None where it has none."""
    layers = _layers_of_rooms()
    parts = module.split(".")
    folder = parts[:-1] if parts[-1] == "__init__" else parts
    for name in (module, *(".".join(folder[:length]) for length in range(len(folder), 0, -1))):
        if name in layers:
            return layers[name], name
    return None


def check_layers(root: Path) -> Iterator[str]:
    """Imports of a room that is not below the importing one, and modules without a room."""
    modules = modules_of(root)
    for module, found in modules.items():
        place = found.file.relative_to(root)
        here = room_of(module)
        if here is None:
            yield f"{place}: {module} has no room in tools/check_package.py"
            continue
        for line, target in imports_of(module, modules):
            there = room_of(target)
            if there is not None and there != here and there[0] >= here[0]:
                yield f"{place}:{line}: {here[1]} may not import {there[1]} ({target})"


def check_circles(root: Path) -> Iterator[str]:
    """Modules that import each other, directly or through others."""
    modules = modules_of(root)
    graph = {name: {target for _, target in imports_of(name, modules)} for name in modules}
    for circle in circles(graph):
        yield f"circle of imports: {' -> '.join([*circle, circle[0]])}"


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """One shortest circle through the first module, by name, of each set of modules that all reach each other."""
    found: list[list[str]] = []
    seen: set[str] = set()
    for start in sorted(graph):
        if start in seen:
            continue
        before = _paths_from(start, graph)
        if start in before:
            way = [start]
            while before[way[0]] != start:
                way.insert(0, before[way[0]])
            found.append([start, *way[:-1]])
            seen |= {other for other in before if start in _paths_from(other, graph)}
    return found


def _paths_from(start: str, graph: dict[str, set[str]]) -> dict[str, str]:
    """Of each module that `start` reaches in at least one step, the one before it on a shortest way."""
    before: dict[str, str] = {}
    edge = [start]
    while edge:
        following = []
        for module in edge:
            for target in sorted(graph.get(module, ())):
                if target not in before:
                    before[target] = module
                    following.append(target)
        edge = following
    return before


def check_class_names(root: Path) -> Iterator[str]:
    """Names that two classes of the package have; leading underscores do not make a name another one."""
    places: dict[str, list[str]] = defaultdict(list)
    for module in modules_of(root).values():
        for line, name in module.classes:
            places[name.lstrip("_")].append(f"{module.file.relative_to(root)}:{line}")
    for name, where in sorted(places.items()):
        if len(where) > 1:
            yield f"class name {name} is used {len(where)} times: {', '.join(where)}"


def check_folders(root: Path) -> Iterator[str]:
    """Folders with too many modules to find one's way in."""
    sizes: dict[str, int] = defaultdict(int)
    for module in modules_of(root).values():
        sizes[str(module.file.parent.relative_to(root))] += module.file.name != "__init__.py"
    for folder, size in sorted(sizes.items()):
        if size > MODULES_OF_A_FOLDER and folder not in LARGER_FOLDERS:
            yield f"{folder}: {size} modules, expected at most {MODULES_OF_A_FOLDER}; split it, or give a reason here"


def check(root: Path) -> list[str]:
    """All that is wrong with the package in `root`, one line each."""
    return [*check_layers(root), *check_circles(root), *check_class_names(root), *check_folders(root)]


if __name__ == "__main__":
    wrong = check(Path(__file__).resolve().parent.parent)
    print("\n".join(wrong) or "package: layers, imports, class names and folders are in order")
    sys.exit(1 if wrong else 0)
