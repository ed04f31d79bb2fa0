"""Checks the docstrings of the public names: each exists, states the shapes of its arrays, and names its parameters.

It looks at functions, classes, and public methods and properties of the packages that docs use (`PACKAGES`). An array
is a parameter or a result whose annotation says `NDArray` or `ArrayLike`. Its shape is text such as
`(frames, atoms, 3)` or `(n,)` in the docstring of the function or of its class.
"""

import importlib
import inspect
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any

PACKAGES = (
    "kinema", "kinema.analysis", "kinema.transforms", "kinema.ml", "kinema.cache", "kinema.runners", "kinema.testing",
)  # fmt: skip
ARRAY = re.compile(r"NDArray|ArrayLike")
# (frames, atoms, 3), (n,), shape of, scalars
SHAPE = re.compile(r"\((?:[\w.+*/ -]+,)+(?: ?[\w.+*/ -]+)?\)|\bshape\b|\bscalar\b|\bone-dimensional\b|\bmask\b")


def public() -> Iterator[tuple[str, Any]]:
    """Name and object of each public function, class, method and property, once; not the tests that suites inherit."""
    seen = set()
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            item = getattr(module, name)
            if (
                id(item) in seen
                or inspect.ismodule(item)
                or not str(getattr(item, "__module__", "")).startswith("kinema")
            ):
                continue
            seen.add(id(item))
            if inspect.isclass(item):
                yield f"{package}.{name}", item
                for member, value in vars(item).items():
                    function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
                    if not member.startswith(("_", "test_")) and inspect.isfunction(function):
                        # a method that overrides another has that one's docstring
                        function.__doc__ = inspect.getdoc(getattr(item, member))
                        yield f"{package}.{name}.{member}", function
            elif inspect.isfunction(item):
                yield f"{package}.{name}", item


def arrays(function: Any) -> list[str]:
    """The parameters of a function that take arrays, and "return" if it gives one."""
    return [name for name, kind in getattr(function, "__annotations__", {}).items() if ARRAY.search(str(kind))]


def complaints() -> Iterator[str]:
    """Faults of the docstrings, one line each."""
    texts: dict[str, str] = {}
    for name, item in public():
        text = texts[name] = inspect.getdoc(item) or ""
        if not text:
            yield f"{name}: has no docstring"
        elif found := arrays(item) if inspect.isfunction(item) else []:
            with_class = text + texts.get(name.rpartition(".")[0], "")
            if not SHAPE.search(with_class):
                yield f"{name}: states no shape of {', '.join(found)}"


def main() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = sorted(complaints())
        number = sum(1 for _ in public())
    print("\n".join(found) or f"docstrings: {number} public names, each with the shapes of its arrays")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
