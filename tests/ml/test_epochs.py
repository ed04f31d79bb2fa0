"""The loader across epochs: the next one is read while the last batches of one are used. Without torch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from kinema.base.errors import CorruptFileError
from kinema.ml import Batch, Order

sys.path.insert(0, str(Path(__file__).parent))
from loader_cases import Numbers, loader_of, readahead_threads, samples, settled


@pytest.mark.parametrize("readers", [1, 3])
@pytest.mark.parametrize("asks_behind_the_last", [True, False])
def test_the_next_epoch_is_read_while_the_last_batches_are_used(readers: int, asks_behind_the_last: bool) -> None:
    dataset = Numbers(20)
    loader = loader_of(dataset, 5, readers=readers)
    for epoch in range(4):
        batches, found = iter(loader), []
        for number in range(4):
            found.append(next(batches).ids.tolist())
            if number == 2:
                # the last batch was not asked for: all of the next epoch is there, and none of the one after it
                assert settled(dataset.reads) == 4 * (epoch + 2)
                assert loader.state_dict() == {
                    "order": loader.order.state(),
                    "epoch": epoch,
                    "place": 15,
                    "data": None,
                }
        assert found == [[*Order(20, epoch=epoch)][start : start + 5] for start in range(0, 20, 5)]
        assert loader.state_dict()["place"] == 20
        if asks_behind_the_last:
            assert list(batches) == [] and loader.epoch == epoch + 1
    read = [one.tolist() for one in dataset.reads[:20]]
    assert sorted(read) == sorted(
        [*Order(20, epoch=epoch)][start : start + 5] for epoch in range(5) for start in range(0, 20, 5)
    )


def test_another_epoch_or_state_discards_what_was_read_ahead() -> None:
    dataset = Numbers(20)
    loader = loader_of(dataset, 5)
    expected = [[[*Order(20, epoch=epoch)][start : start + 5] for start in range(0, 20, 5)] for epoch in range(9)]
    assert samples(loader) == expected[0]
    behind = loader.state_dict()
    assert (behind["epoch"], behind["place"]) == (1, 0)
    # the epoch that is there already
    settled(dataset.reads)
    loader.set_epoch(1)
    assert samples(loader) == expected[1] and loader.times.batches == 8
    assert settled(dataset.reads) == 12
    loader.set_epoch(7)
    assert not readahead_threads()
    assert samples(loader) == expected[7]
    assert settled(dataset.reads) == 20
    loader.load_state_dict({**behind, "epoch": 3, "place": 10})
    assert samples(loader) == expected[3][2:] and samples(loader) == expected[4]
    loader.load_state_dict({**behind, "epoch": 3, "place": 20})
    assert samples(loader) == [] and samples(loader) == expected[4]
    # a loop that is left in the middle
    assert next(iter(loader)).ids.tolist() == expected[5][0]
    assert samples(loader) == expected[5]
    loader.close()
    assert samples(loader) == expected[6]


def test_an_error_in_the_next_epoch_is_raised_there() -> None:
    class Damaged(Numbers):
        """The first five reads are good."""

        def read(self, ids: ArrayLike, **options: Any) -> Batch:
            self.bad = int(np.ravel(ids)[0]) if len(self.reads) == 5 else None
            return super().read(ids, **options)

    dataset = Damaged(20)
    loader = loader_of(dataset, 5)
    assert len(samples(loader)) == 4
    batches = iter(loader)
    next(batches)
    with pytest.raises(CorruptFileError, match=r"some\.h5") as caught:
        next(batches)
    assert "of epoch 1, from place 5 on" in caught.value.__notes__[0]
    assert (loader.epoch, loader.state_dict()["place"]) == (1, 5)
    # the sixth read was the only bad one
    assert samples(loader) == [[*Order(20, epoch=1)][start : start + 5] for start in range(0, 20, 5)]


def test_no_more_than_the_memory_across_epochs() -> None:
    dataset = Numbers(40, width=128)
    loader = loader_of(dataset, 10, memory=60 * 1024)
    batches = iter(loader)
    for _ in range(4):
        last = next(batches)
    # of 5 batches in memory the loop has the fourth: this epoch's four, and four of the next one
    assert settled(dataset.reads) == 8
    del last
    for _ in range(3):
        assert len(samples(loader)) == 4
    once = Numbers(40)
    single = loader_of(once, 10, next_epoch=False)
    assert len(samples(single)) == len(samples(single)) == 4 and settled(once.reads) == 8
