"""`dataclass`: Python's decorator, except that frozen classes share methods instead of compiling six for each class.

A command makes seventy such classes at its start, and Python compiles the text of `__init__`, `__repr__`, `__eq__`,
`__hash__`, `__setattr__` and `__delattr__` for each: a quarter of the start. Here only `__init__` is compiled, and the
others are functions that look up the fields. A class behaves the same, and may inherit from one of the other kind.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, FrozenInstanceError
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        cls: type | None = None, /, *, frozen: bool = False, eq: bool = True, repr: bool = True, **others: Any
    ):
        """As `dataclasses.dataclass`, which it calls for other arguments and for classes that are not frozen."""

        def decorated(cls: type) -> type:
            if not frozen or others:
                return dataclasses.dataclass(cls, frozen=frozen, eq=eq, repr=repr, **others)
            return _frozen(cls, eq, repr)

        return decorated if cls is None else decorated(cls)


def _frozen(cls: Any, eq: bool, repr: bool) -> Any:
    own = vars(cls)
    if "__setattr__" in own or "__delattr__" in own:
        raise TypeError(f"{cls.__name__} is frozen and has a __setattr__ or __delattr__ of its own")
    explicit_hash = own.get("__hash__", MISSING)
    has_hash = not (explicit_hash is MISSING or (explicit_hash is None and "__eq__" in own))
    methods: dict[str, Any] = {"__repr__": _repr if repr else None, "__eq__": _eq if eq else None}
    wanted = {name: method for name, method in methods.items() if method is not None and name not in own}
    # Python's decorator refuses a class that is not frozen below a frozen one; then it makes the two methods as well
    inherits = any("__dataclass_fields__" in vars(base) for base in cls.__mro__[1:])
    cls = dataclasses.dataclass(cls, init=False, repr=False, eq=False, frozen=inherits)
    if not inherits:
        cls.__dataclass_params__.frozen = True
        wanted |= {"__setattr__": _setattr, "__delattr__": _delattr}
    if "__init__" not in own:
        wanted["__init__"] = _initialiser(cls)
    if eq and not has_hash:
        wanted["__hash__"] = _hash
    for name, method in wanted.items():
        setattr(cls, name, method)
    return cls


def _initialiser(cls: Any) -> Any:
    """`__init__` with the fields as arguments."""
    words, lines = ["self"], []
    names: dict[str, Any] = {"_factory": _FACTORY}
    keyword_only = False
    # a keyword-only field comes after the others
    for one in sorted(dataclasses.fields(cls), key=lambda one: bool(one.kw_only)):
        value = one.name
        if one.default_factory is not MISSING:
            names[f"_make_{one.name}"] = one.default_factory
            value = f"_make_{one.name}()" + (f" if {one.name} is _factory else {one.name}" if one.init else "")
            default = "_factory"
        else:
            names[f"_default_{one.name}"] = one.default
            default = "" if one.default is MISSING else f"_default_{one.name}"
        if one.init:
            if one.kw_only and not keyword_only:
                keyword_only = True
                words.append("*")
            words.append(one.name + (f"={default}" if default else ""))
        if one.init or one.default_factory is not MISSING:
            # the class refuses to set attributes itself
            lines.append(f"  _own_[{one.name!r}] = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("  self.__post_init__()")
    text = "\n".join([f"def __init__({', '.join(words)}):", "  _own_ = self.__dict__", *lines])
    made: dict[str, Any] = {}
    exec(text, names, made)
    made["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
    made["__init__"].__annotations__ = {one.name: one.type for one in dataclasses.fields(cls) if one.init}
    return made["__init__"]


class _Factory:
    """Default of an argument that stands for a value made separately for each object."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


@recursive_repr()
def _repr(self: Any) -> str:
    shown = [one.name for one in dataclasses.fields(self) if one.repr]
    return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


def _eq(self: Any, other: Any) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    compared = [one.name for one in dataclasses.fields(self) if one.compare]
    return tuple(getattr(self, name) for name in compared) == tuple(getattr(other, name) for name in compared)


def _hash(self: Any) -> int:
    hashed = [one.name for one in dataclasses.fields(self) if (one.compare if one.hash is None else one.hash)]
    return hash(tuple(getattr(self, name) for name in hashed))


def _setattr(self: Any, name: str, value: Any) -> None:
    if _is_frozen(self, name):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _delattr(self: Any, name: str) -> None:
    if _is_frozen(self, name):
        raise FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _is_frozen(self: Any, name: str) -> bool:
    """Whether an attribute may not be changed: any attribute of a dataclass, and the fields in its subclasses."""
    return "__dataclass_fields__" in vars(type(self)) or name in self.__dataclass_fields__
