"""`kinema.base.frozen_dataclass.dataclass`: its classes behave as those of `dataclasses`."""

import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, field

import pytest

from kinema.base.frozen_dataclass import dataclass

pytestmark = pytest.mark.usefixtures("nobody_changes_files")


def classes(decorator):
    """The same classes by either decorator."""

    @decorator(frozen=True)
    class Base:
        name: str
        size: int = 3
        parts: list[int] = field(default_factory=list)
        seen: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)
        half: float = field(default=0.5, kw_only=True)

        def __post_init__(self):
            self.seen[self.name] = self.size

    @decorator(frozen=True)
    class Derived(Base):
        more: tuple[int, ...] = ()

        def __repr__(self):
            return "its own"

    @decorator(frozen=True, eq=False)
    class ByIdentity:
        value: int

    @decorator(frozen=True, repr=False)
    class Hashed:
        value: int
        other: list[int] = field(default_factory=list, hash=False)

        def __hash__(self):
            return 7

    @decorator
    class Changing:
        value: int = 1

    @decorator(frozen=True)
    class Named:
        fields: tuple[int, ...]
        cls: int = 1
        names: int = 2
        value: int = 3

    return Base, Derived, ByIdentity, Hashed, Changing, Named


OURS, THEIRS = classes(dataclass), classes(dataclasses.dataclass)


def outcome(call):
    """The value of a call, or the error that it raises, with only the names from its message."""
    try:
        return call()
    except (TypeError, FrozenInstanceError) as error:
        return type(error), str(error).rpartition(".")[2]


def changed(one, name):
    setattr(one, name, 1)


def removed(one, name):
    delattr(one, name)


@pytest.mark.parametrize("number", range(6))
def test_a_class_is_as_by_dataclasses(number):
    ours, theirs = OURS[number], THEIRS[number]
    names = [one.name for one in dataclasses.fields(ours)]
    assert names == [one.name for one in dataclasses.fields(theirs)]
    assert ours.__match_args__ == theirs.__match_args__
    assert [(one.name, one.kind, one.default is inspect.Parameter.empty) for one in parameters(ours)] == [
        (one.name, one.kind, one.default is inspect.Parameter.empty) for one in parameters(theirs)
    ]
    given = (("a",), ("a", 4), ("a", 4, [5]), ("a", 4, [5], 6, 7, 8), ())
    keywords = ({}, {"half": 2.0}, {"seen": {}}, {"name": "twice"}, {"unknown": 1})
    for words in given:
        for named in keywords:
            ours_made = outcome(lambda words=words, named=named: vars(ours(*words, **named)))
            assert ours_made == outcome(lambda words=words, named=named: vars(theirs(*words, **named)))


def parameters(cls):
    return inspect.signature(cls).parameters.values()


@pytest.mark.parametrize("number", range(6))
def test_its_objects_are_as_those_by_dataclasses(number):
    ours, theirs = OURS[number], THEIRS[number]
    for of, compared in (("a", "a"), ("a", "b"), ("a", 3)):
        one, theirs_one = ours(of), theirs(of)
        other, theirs_other = (3, 3) if compared == 3 else (ours(compared), theirs(compared))
        assert (one == other) == (theirs_one == theirs_other)
        if number != 2:  # the place in memory
            assert outcome(lambda one=one: hash(one)) == outcome(lambda it=theirs_one: hash(it))
        if number in (0, 1, 4, 5):
            assert repr(one) == repr(theirs_one)
        assert dataclasses.asdict(one) == dataclasses.asdict(theirs_one)
        for change in (changed, removed):
            for name in ("value", "name", "new"):
                found = outcome_of_change(change, ours("a"), name)
                assert found == outcome_of_change(change, theirs("a"), name), (change, name)


def outcome_of_change(change, one, name):
    try:
        return change(one, name)
    except (AttributeError, FrozenInstanceError) as error:
        return type(error), str(error)


def test_objects_are_copied_pickled_and_compared():
    one = WithNumbers(3, (4,))
    assert pickle.loads(pickle.dumps(one)) == one
    assert dataclasses.replace(one, size=5) == WithNumbers(5, (4,))
    assert {one: 1}[WithNumbers(3, (4,))] == 1
    assert WithNumbers(3, (4,)) != 3
    assert WithNumbers(3) != OtherNumbers(3)
    OtherNumbers(3).__dict__["cached"] = 1


@pytest.mark.parametrize(("above", "below"), [(dataclass, dataclasses.dataclass), (dataclasses.dataclass, dataclass)])
def test_either_kind_inherits_from_the_other(above, below):
    @above(frozen=True)
    class Above:
        value: int

    @below(frozen=True)
    class Below(Above):
        more: int = 2

    assert Below(1) == Below(1, 2) != Below(1, 3)
    with pytest.raises(FrozenInstanceError):
        Below(1).value = 3
    with pytest.raises(TypeError, match="frozen"):

        @below
        class Changing(Above):
            pass


def test_a_frozen_class_sets_no_attributes_its_own_way():
    with pytest.raises(TypeError, match="__setattr__"):

        @dataclass(frozen=True)
        class Wrong:
            value: int

            def __setattr__(self, name, value):
                pass


@dataclass(frozen=True)
class WithNumbers:
    size: int
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True)
class OtherNumbers(WithNumbers):
    pass
