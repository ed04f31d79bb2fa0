"""Exchange of the addresses of a job's nodes through the `torch.distributed` store, where its processes meet."""

from __future__ import annotations

import itertools
import os
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from kinema.base.errors import ArgumentError, CorruptFileError, WaitTimeoutError, missing_package
from kinema.cache.markers import Owner
from kinema.storage.signed_json import checked, signed

TORCHRUN = "torchrun"
# number of address exchanges of this process: equal for all processes of a job
_exchanges = itertools.count()


def from_store(store: Any, own: Owner, timeout: float) -> list[Owner]:
    """Exchanges owners with all processes of the job; returns each node once, in the order of ranks.

    Anyone who reaches the store can write to it: an entry counts only with a proof by the user's key.

    Raises
    ------
    WaitTimeoutError
        Not all `WORLD_SIZE` processes have given theirs in time.
    ArgumentError
        The environment is not that of torchrun.
    CorruptFileError
        The address of a rank is forged.
    """
    rank, size = _number("RANK"), _number("WORLD_SIZE")
    if isinstance(store, str):
        store = _torchrun_store(store, timeout)
    # the proof covers the whole name: an address is valid for one exchange only
    turn = f"kinema-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}-{next(_exchanges)}"
    names = [f"{turn}-{one}" for one in range(size)]
    store.set(names[rank], signed(names[rank], "address", asdict(own)).decode())
    try:
        store.wait(names, timedelta(seconds=timeout))
    except RuntimeError as error:  # torch.distributed.DistStoreError is one
        raise WaitTimeoutError(
            f"not all {size} processes have written their addresses to the store within {timeout:g} s: {error}"
        ) from None
    found = {}
    for name in names:
        content, is_ours = checked(name, "address", bytes(store.get(name)))
        if not is_ours:
            raise CorruptFileError(f"{name}: the address in the store is forged, or was written with another key")
        try:
            owner = Owner(**content)
        except (TypeError, ValueError) as error:
            raise CorruptFileError(f"{name}: is not a Kinema address ({error})") from None
        found[owner.node] = owner
    return list(found.values())


def _torchrun_store(name: str, timeout: float) -> Any:
    if name != TORCHRUN or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        raise ArgumentError(
            f'store= is a torch.distributed.Store, or "{TORCHRUN}" in a process that torchrun has started, '
            f"found {name!r}"
        )
    try:
        from torch.distributed import TCPStore
    except ImportError as error:
        raise missing_package("store=", "torch", "ml", error) from None
    address, port = os.environ["MASTER_ADDR"], _number("MASTER_PORT")
    return TCPStore(address, port, is_master=False, timeout=timedelta(seconds=timeout))


def _number(name: str) -> int:
    try:
        return int(os.environ[name])
    except (KeyError, ValueError):
        raise ArgumentError(f"store= needs {name}, as torchrun sets it") from None
