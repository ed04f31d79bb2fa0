"""States of loaders: where a loop is, in which order, of which data set."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kinema.base.errors import ArgumentError
from kinema.base.notes import emit
from kinema.ml.fingerprint import DataIdentity
from kinema.ml.loading.order import Order

__all__ = ["LoaderState"]


@dataclass(frozen=True)
class LoaderState:
    """A place in an epoch.

    Attributes
    ----------
    order : Order
        Of the epoch.
    place : int
    data : identity of the data set; None where it is not known, as in states of earlier versions
    """

    order: Order
    place: int
    data: DataIdentity | None

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, which `taken_over` takes."""
        return {
            "order": self.order.state(),
            "epoch": self.order.epoch,
            "place": self.place,
            "data": None if self.data is None else self.data.to_json(),
        }

    def taken_over(self, state: Mapping[str, Any], stated: Collection[str]) -> LoaderState:
        """The state that `to_dict` gave, for the loader whose state this is.

        Window and chunk of the order are those of the state, but for what this loader's user has `stated`.
        ArgumentError if data set or order are others.
        """
        try:
            stored, epoch, place = dict(state["order"]), int(state["epoch"]), int(state["place"])
            data = None if state.get("data") is None else DataIdentity.from_json(state["data"])
        except (AttributeError, KeyError, TypeError, ValueError):
            raise ArgumentError(f"this is no state of a Loader: {state!r}") from None
        self._check_data(data)
        order = self.order
        if order.is_windowed and stored.get("window") is not None:
            order = order.with_windows(**{name: stored.get(name) for name in {"window", "chunk"} - set(stated)})
        own = order.state()
        if stored != own:
            names = [name for name in own if stored.get(name) != own[name]]
            name = names[0] if names else next(iter(set(stored) - set(own)))
            raise ArgumentError(
                f"the state is of another order: {name}, expected {own.get(name)!r}, found {stored.get(name)!r}"
            )
        if not 0 <= place <= order.n:
            raise ArgumentError(f"place of the state, expected 0 to {order.n}, found {place}")
        return LoaderState(order.at_epoch(epoch), place, self.data)

    def _check_data(self, data: DataIdentity | None) -> None:
        if data is not None and self.data is not None:
            if difference := data.difference(self.data):
                raise ArgumentError(f"the state is of another data set: {difference}")
        elif self.data is not None:
            emit(["whether the state is of this data set cannot be compared: it is of an earlier version of Kinema"])
