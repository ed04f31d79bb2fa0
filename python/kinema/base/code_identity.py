"""The identity of Python code: a digest of a function or kernel that is the same when the same script runs again.

The digest calls no function of the user's. It covers bytecode, constants, defaults, variables that a function closes
over, globals that it names, and the same for functions and classes of its own module that it uses; for other modules it
covers only the names. So an edited function is noticed, an upgraded library is not. Bytecode differs between versions
of Python.

The obvious substitutes do not work. Source text is missing for sessions and generated methods, is read from the file in
its current state, and changes with a comment; cloudpickle's bytes hold file names, line numbers and random class ids.
"""

from __future__ import annotations

import copyreg
import dis
import functools
import types
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import numpy as np

from kinema.base.errors import ArgumentError

# Py_TPFLAGS_HEAPTYPE: a type made by a class statement
_HEAP_TYPE = 1 << 9
_PLAIN = {type(None), bool, int, float, complex, str, bytes, type(Ellipsis)}
_METHODS = (types.FunctionType, staticmethod, classmethod, property, functools.cached_property)


def code_digest(value: Any, name: str) -> str:
    """A digest (hexadecimal) of a function, or of an object with the code of its class.

    Raises ArgumentError if something in it has no stable identity: an open file, a generator, any object that pickle
    cannot store.
    """
    return _Digest(value, name).hexdigest()


class _Digest:
    def __init__(self, value: Any, name: str) -> None:
        self._hash = blake2b(digest_size=16)
        self._name = name
        self._active: list[int] = []  # objects being digested, from outside to inside
        self._named: set[object] = set()  # functions and classes already digested
        self._module = _module_of(value)
        self._value(value, "")

    def hexdigest(self) -> str:
        return self._hash.hexdigest()

    def _put(self, *words: object) -> None:
        for word in words:
            data = word if isinstance(word, bytes) else str(word).encode()
            self._hash.update(len(data).to_bytes(8, "little") + data)

    def _value(self, value: Any, where: str) -> None:
        if isinstance(value, (*_PLAIN, np.generic)):
            self._put(type(value).__name__, repr(value))
            return
        if id(value) in self._active:
            self._put("recursion", self._active.index(id(value)))
            return
        self._active.append(id(value))
        self._compound(value, where)
        self._active.pop()

    def _compound(self, value: Any, where: str) -> None:
        match value:
            case np.ndarray() if not value.dtype.hasobject:
                # the rest of NumPy's own pickles differs between its versions
                self._put("array", value.dtype.str, value.shape, value.tobytes())
            case list() | tuple() if _PLAIN.issuperset(map(type, value)):
                self._put(type(value).__name__, repr([*value]))
            case list() | tuple():
                self._put(type(value).__name__, len(value))
                for item in value:
                    self._value(item, where)
            case dict():
                self._put("dict", len(value))
                for key, item in value.items():
                    self._value(key, where)
                    self._value(item, f"{where}[{key!r}]")
            case set() | frozenset():
                # their order changes from process to process
                self._put("set", *sorted(code_digest(item, self._name) for item in value))
            case types.FunctionType():
                self._function(value)
            case property():
                self._value([value.fget, value.fset, value.fdel], where)
            case functools.cached_property():
                self._value(value.func, where)
            case staticmethod() | classmethod() | functools._lru_cache_wrapper():
                self._value(value.__wrapped__, where)
            case types.ModuleType():
                self._put("module", value.__name__)
            case types.CodeType():
                self._put("code", value.co_code, value.co_names, value.co_varnames, value.co_flags)
                self._value(value.co_consts, where)
            case type():
                self._class(value)
            case _:
                self._object(value, where)

    def _function(self, function: types.FunctionType) -> None:
        name = function.__qualname__
        self._put("function", function.__module__, name)
        if function.__module__ != self._module or function in self._named:
            return
        self._named.add(function)
        self._value(function.__code__, name)
        self._value([function.__defaults__, function.__kwdefaults__], f"a default of {name}")
        for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
            self._put(variable)
            self._value(_content(cell), f"{variable}, which {name} uses")
        for variable in sorted(set(_globals_of(function.__code__))):
            if variable in function.__globals__:
                self._put(variable)
                self._value(function.__globals__[variable], f"{variable}, which {name} uses")

    def _class(self, kind: type) -> None:
        self._put("class", kind.__module__, kind.__qualname__)
        if kind.__module__ != self._module or kind in self._named or not kind.__flags__ & _HEAP_TYPE:
            return
        self._named.add(kind)
        self._value(kind.__bases__, kind.__qualname__)
        for name, member in vars(kind).items():
            if isinstance(member, _METHODS) or not (name.startswith("__") or name == "_abc_impl"):
                self._put(name)
                self._value(member, f"{kind.__qualname__}.{name}")

    def _object(self, value: Any, where: str) -> None:
        """Digests an object by the data from which pickle would rebuild it: a callable, its arguments, the state; or a
        name."""
        reduce = copyreg.dispatch_table.get(type(value))
        try:
            parts = value.__reduce_ex__(4) if reduce is None else reduce(value)
        except Exception as error:  # anything that the object's own code raises
            what = where or self._name
            raise ArgumentError(
                f"{self._name} cannot be run with a checkpoint: {what} ({type(value).__name__}) has no identity that "
                f"another process could compare ({error}); use plain values and arrays, or run without checkpoint"
            ) from None
        self._put("object", getattr(value, "__module__", None))
        if not isinstance(parts, str):
            # items of children of list and dict come from iterators
            parts = [list(part) if isinstance(part, Iterator) else part for part in parts]
        self._value(parts, where)


def _module_of(value: Any) -> str | None:
    """The module of an object, if it is the user's own."""
    while not isinstance(value, types.FunctionType):
        if isinstance(value, functools.partial):
            value = value.func
        elif isinstance(value, types.MethodType):
            value = value.__func__
        elif isinstance(value, functools._lru_cache_wrapper):
            value = value.__wrapped__
        else:
            value = type(value)
            break
    return getattr(value, "__module__", None)


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        # a variable without a value yet
        return None


def _globals_of(code: types.CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals_of(constant)
