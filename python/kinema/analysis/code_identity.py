"""The identity of Python code: a digest of a function or kernel that is the same when the same script runs again.

It runs no code. What counts: bytecode, constants, defaults, variables that a function closes over, globals that it
names, and the same for functions and classes of its own module that it uses; of other modules only the names. So an
edited function is noticed, an upgraded library is not. Bytecode differs between versions of Python.
"""

from __future__ import annotations

import dis
import functools
import pickle
import types
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import numpy as np

from kinema.errors import ArgumentError

__all__ = ["code_digest"]

# Py_TPFLAGS_HEAPTYPE: made by a class statement
_HEAP_TYPE = 1 << 9
_METHODS = (types.FunctionType, staticmethod, classmethod, property, functools.cached_property)


def code_digest(value: Any, name: str) -> str:
    """A digest (hexadecimal) of a function, or of an object with the code of its class.

    Raises ArgumentError where something in it has no stable identity: an open file, a generator, any object that pickle
    cannot store.
    """
    return _Digest(value, name).hexdigest()


class _Digest:
    def __init__(self, value: Any, name: str) -> None:
        self._hash = blake2b(digest_size=16)
        self._name = name
        self._active: list[int] = []  # what is being digested, from outside to inside
        self._named: set[object] = set()  # functions and classes that were digested
        self._module = _module_of(value)
        self._value(value, "")

    def hexdigest(self) -> str:
        return self._hash.hexdigest()

    def _put(self, *words: object) -> None:
        for word in words:
            data = word if isinstance(word, bytes) else str(word).encode()
            self._hash.update(len(data).to_bytes(8, "little") + data)

    def _value(self, value: Any, where: str) -> None:
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes, type(Ellipsis), np.generic)):
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
                self._put("array", value.dtype.str, value.shape, np.ascontiguousarray(value).tobytes())
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
            case types.CodeType():
                self._code(value, where)
            case types.FunctionType():
                self._function(value)
            case types.MethodType():
                self._put("method")
                self._value(value.__func__, where)
                self._value(value.__self__, where)
            case functools.partial():
                self._put("partial")
                self._value([value.func, value.args, value.keywords], where)
            case functools._lru_cache_wrapper():
                self._value(value.__wrapped__, where)
            case types.BuiltinFunctionType() | np.ufunc() | types.MemberDescriptorType() | types.GetSetDescriptorType():
                self._put("builtin", getattr(value, "__module__", None), value.__name__)
            case types.ModuleType():
                self._put("module", value.__name__)
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

    def _code(self, code: types.CodeType, where: str) -> None:
        self._put("code", code.co_code, code.co_names, code.co_varnames, code.co_flags)
        self._value(code.co_consts, where)

    def _class(self, kind: type) -> None:
        self._put("class", kind.__module__, kind.__qualname__)
        if kind.__module__ != self._module or kind in self._named or not kind.__flags__ & _HEAP_TYPE:
            return
        self._named.add(kind)
        for base in kind.__bases__:
            self._value(base, kind.__qualname__)
        for name, member in kind.__dict__.items():
            if isinstance(member, _METHODS):
                self._put(name)
                for function in _functions(member):
                    self._value(function, name)
            elif not name.startswith("__") and name != "_abc_impl":
                self._put(name)
                self._value(member, f"{kind.__qualname__}.{name}")

    def _object(self, value: Any, where: str) -> None:
        self._value(type(value), where)
        if hasattr(value, "__dict__") and _is_plain(type(value)):
            self._value(vars(value), where)
            return
        try:
            self._put("pickle", pickle.dumps(value, protocol=4))
        except Exception as error:  # whatever the object's own code raises
            what = where or self._name
            raise ArgumentError(
                f"{self._name} cannot be run with a checkpoint: {what} ({type(value).__name__}) has no identity that "
                f"another process could compare ({error}); use plain values and arrays, or run without checkpoint"
            ) from None


def _is_plain(kind: type) -> bool:
    """Whether all that an object of the class holds is in its `__dict__`."""
    own = [kind.__reduce__, kind.__reduce_ex__, getattr(kind, "__getstate__", None)]
    plain = [object.__reduce__, object.__reduce_ex__, getattr(object, "__getstate__", None)]
    slots = any(vars(base).get("__slots__") for base in kind.__mro__)
    return own == plain and not slots and _heap_only(kind)


def _heap_only(kind: type) -> bool:
    # of a class that is written in C, and of its children, nobody knows what else they hold
    return all(base is object or base.__flags__ & _HEAP_TYPE for base in kind.__mro__)


def _module_of(value: Any) -> str | None:
    """The module that is the user's own."""
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
        # a variable that has no value yet
        return None


def _globals_of(code: types.CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals_of(constant)


def _functions(member: Any) -> list[Any]:
    if isinstance(member, property):
        return [member.fget, member.fset]
    if isinstance(member, functools.cached_property):
        return [member.func]
    return [getattr(member, "__func__", member)]
