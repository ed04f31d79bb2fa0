"""`LoopEvents`: events of a loop over a loader for a trace; `LoaderTimes.waited` is the sum of some."""

from __future__ import annotations

from time import perf_counter_ns

from kinema.base.tracing.recording import finish_with_trace, lap


class LoopEvents:
    """Events of one loop over an epoch.

    They are: waiting for a batch (`fetch.iter`), the work of the loop on it (`train.step`), and the whole
    (`epoch.block`). The last one ends when the loop ends, for whatever reason, or with the trace.
    """

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self._began = self._asked = perf_counter_ns()
        # time at which the loop was given its last batch, and the number of that batch
        self._given: tuple[int, int] | None = None
        self._is_over = False
        finish_with_trace(self)

    def _step_ended(self) -> None:
        if self._given is not None:
            given, step = self._given
            self._given = None
            lap("train.step", "pipeline", given, epoch=self._epoch, step=step)

    def asked(self) -> None:
        """The loop asks for a batch."""
        self._step_ended()
        self._asked = perf_counter_ns()

    def waited(self, step: int, size: int) -> float:
        """The loop has waited for a batch of `size` bytes until now. Returns the seconds."""
        return lap("fetch.iter", "dataloader", self._asked, epoch=self._epoch, step=step, size=size) * 1e-9

    def given(self, step: int) -> None:
        """The loop continues with a batch."""
        self._given = perf_counter_ns(), step

    def finish(self) -> None:
        """The loop was given all batches, or was left. A second call does nothing."""
        if not self._is_over:
            self._is_over = True
            self._step_ended()
            lap("epoch.block", "pipeline", self._began, epoch=self._epoch)

    def __del__(self) -> None:
        # a loop that is left by `break`, or by an error, drops its iterator
        self.finish()
