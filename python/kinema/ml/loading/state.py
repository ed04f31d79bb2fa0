"""States of loaders: the position of a loop, its order, and its data set."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kinema.base.errors import ArgumentError
from kinema.base.notes import emit
from kinema.ml.fingerprint import DataIdentity
from kinema.ml.loading.order import Order


@dataclass(frozen=True)
class LoaderState:
    """A position in an epoch.

    `data`: identity of the data set; None if it is not known, as in states of earlier versions.
    """

    order: Order
    place: int
    data: DataIdentity | None

    def to_dict(self) -> dict[str, Any]:
        """The state as plain numbers and strings, for `taken_over`."""
        return {
            "order": self.order.state(),
            "epoch": self.order.epoch,
            "place": self.place,
            "data": None if self.data is None else self.data.to_json(),
        }

    def taken_over(self, state: Mapping[str, Any], stated: Collection[str]) -> LoaderState:
        """The state that `to_dict` returned, for the loader of this state.

        Window and chunk of the order come from `state`, except those that the user of this loader has given (`stated`).
        Raises ArgumentError if the data set or the order differs.
        """
        try:
            stored, epoch, place = dict(state["order"]), int(state["epoch"]), int(state["place"])
            data = None if state.get("data") is None else DataIdentity.from_json(state["data"])
        except (AttributeError, KeyError, TypeError, ValueError):
            raise ArgumentError(f"this is not a state of a Loader: {state!r}") from None
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
        return LoaderState(order.with_epoch(epoch), place, self.data)

    def _check_data(self, data: DataIdentity | None) -> None:
        if data is not None and self.data is not None:
            if difference := data.difference(self.data):
                raise ArgumentError(f"the state is of another data set: {difference}")
        elif self.data is not None:
            emit(["whether the state is of this data set cannot be compared: it is of an earlier version of Kinema"])
