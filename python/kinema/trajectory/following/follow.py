"""`Following`: yields frames of files that are being written, each once it is complete."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kinema.base.errors import ArgumentError, Error, RewoundError
from kinema.base.notes import emit
from kinema.cache.waiting import Watch
from kinema.formats.all_formats import format_named
from kinema.model.frame import Block, Frame
from kinema.trajectory.following.awaited_files import TROUBLE, Status, is_of_beginning, status_of
from kinema.trajectory.following.end import FollowEnd
from kinema.trajectory.following.options import checked_options
from kinema.trajectory.following.patterns import GivenFiles
from kinema.trajectory.following.remembered_frames import RememberedFrames, atoms_at_origin, is_blank

if TYPE_CHECKING:
    from kinema.trajectory import Trajectory

# HDF5 files, whose structure is read again at each look: least time between looks, in multiples of a look's duration
_REST = 3.0
# only this number of last parts is polled; earlier ones are looked at when one of these changes
_LOOKED_AT = 8
# suffixes of marker files that say that a trajectory of one file is complete, without `end`
_MARKERS = (".end", ".ready")


class Following:
    """An iterator over frames, or blocks of frames, as they are completed; made by `Trajectory.follow`.

    `n_frames`: number of frames yielded since the last start.
    `restarts`: number of restarts, with `on_rewind="restart"`.
    `ended`: why it has ended, in words; None before.
    """

    def __init__(
        self,
        trajectory: Trajectory,
        given: GivenFiles,
        until: int | str | None,
        timeout: float | None,
        options: Mapping[str, Any],
    ) -> None:
        checked = checked_options(options)
        if timeout is not None and not 0 <= timeout < float("inf"):
            raise ArgumentError(f"timeout must be at least 0 s and finite, found {timeout:g}")
        self.restarts = 0
        self.ended: str | None = None
        self._trajectory = trajectory
        self._files = given
        self._until = FollowEnd.parse(until)
        self._timeout = timeout
        fields = checked["fields"]
        names = (fields,) if isinstance(fields, str) else tuple(fields)
        self._reading: dict[str, Any] = {"fields": names}
        self._reading |= {name: checked[name] for name in ("memory", "select", "dtype", "workers")}
        self._restarting = checked["on_rewind"] == "restart"
        self._poll, self._events = checked["poll"], checked["events"]
        self._markers = self._default_markers() if checked["end"] is None else [os.fspath(checked["end"])]
        self._given = RememberedFrames()
        self._notes: dict[str, None] = {}
        # the last seen state of the files, and when it was first seen
        self._seen: tuple[list[str], list[Status]] = ([], [])
        self._seen_since = 0.0
        self._grown = self._refreshed = 0.0
        self._cost = 0.0
        self._stale = True
        # whether bytes follow the last frame; whether the yielded frames are known to be still there
        self._pending = self._checked = False
        self._doubted = False
        # whether no frame can be yielded now
        self._all_given = False
        # an HDF5 frame in which nothing is written, after the yielded frames
        self._blank: int | None = None
        self._trouble: tuple[Error, float] | None = None
        self._looked_at = False
        self._iterator: Generator[Any, None, None]
        self._iterator = self._frames() if checked["over"] == "frames" else self._blocks()
        trajectory.check_fields(names)

    @property
    def n_frames(self) -> int:
        """See the class."""
        return len(self._given)

    @property
    def notes(self) -> tuple[str, ...]:
        """See the class."""
        return tuple(self._notes)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._iterator)

    def close(self) -> None:
        """Ends the iteration; nothing is yielded afterwards."""
        self._iterator.close()

    # -- the loop -----------------------------------------------------------------------------------------------

    def _frames(self) -> Generator[Frame, None, None]:
        for block in self._blocks():
            yield from block

    def _blocks(self) -> Generator[Block, None, None]:
        watch = Watch([*self._trajectory.paths, *self._files.patterns], self._poll, events=self._events)
        self._seen_since = self._grown = time.monotonic()
        try:
            while self.ended is None:
                # checked first: when the marker exists, the files are complete
                marker = next((name for name in self._markers if os.path.exists(name)), None)
                self._look()
                settled = self._settled()
                finished = marker is not None and settled
                if finished:
                    self._read_as_finished()
                yield from self._new_frames(settled, finished=finished)
                self._end(marker if finished else None)
                if self.ended is None:
                    watch.wait(self._patience())
        finally:
            watch.close()

    def _patience(self) -> float:
        """Seconds until there is something to do even if nothing happens."""
        now = time.monotonic()
        most = 3600.0 if self._timeout is None else self._grown + self._timeout - now
        if not self._all_given or self._trouble is not None:
            return max(0.0, min(most, self._poll / 2))
        for after in (self._poll / 2, self._stillness):
            if self._seen_since + after > now:
                return max(0.0, min(most, self._seen_since + after - now))
        return max(0.0, most)

    def _end(self, marker: str | None) -> None:
        """Ends the iteration if that is due, unless a yielded frame was incomplete."""
        if self.ended is None:
            self._end_of_files(marker)
        if self.ended is not None and self._was_filled():
            self.ended = None

    def _end_of_files(self, marker: str | None) -> None:
        timed_out = self._timeout is not None and time.monotonic() - self._grown >= self._timeout
        if timed_out and self._trouble is not None:
            raise self._trouble[0]
        if not self._all_given:
            return
        if marker is not None:
            self.ended = f"{marker} is there"
        elif timed_out:
            self.ended = f"nothing was written for {self._timeout:g} s"
            left = [part.truncation for part in self._trajectory.parts if part.truncation]
            self._note(f"{self._trajectory.paths[-1]}: {self.ended}; {self.n_frames} frames were given")
            for truncation in left:
                self._note(f"{truncation} (left out)")
            if self._blank is not None:
                path, number = self._place(self._blank)
                self._note(f"{path}: {self._trajectory.format} frame {number}: all atoms are at the origin (left out)")

    # -- the files ----------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Takes the state of the files, and finds the frames of changed files."""
        now = time.monotonic()
        paths = self._files.paths() if self._files.patterns else list(self._trajectory.paths)
        statuses = [status_of(path) for path in paths[-_LOOKED_AT:]]
        if (paths, statuses) != self._seen:
            self._seen, self._seen_since, self._grown = (paths, statuses), now, now
            self._stale = True
        elif not self._stale and self._pending and self._settled():
            # two changes within a tick of the file system's clock have the same time; zeros may count as numbers now
            moments = (self._poll / 2, self._stillness)
            self._stale = any(self._refreshed < self._seen_since + after <= now for after in moments)
        due = now >= self._refreshed + _REST * self._cost
        if due and (self._stale or self._doubted or self._trouble is not None):
            self._refresh(paths)
            self._cost = time.monotonic() - self._refreshed

    def _refresh(self, paths: list[str]) -> None:
        known = list(self._trajectory.paths)
        self._refreshed = time.monotonic()
        try:
            self._trajectory.refresh_as(paths, settled=self._is_still())
        except Error as error:
            self._troubled(error)
            if paths[: len(known)] != known or len(paths) == len(known):
                return
            # the known parts do not wait for a part that has only just been started
            try:
                self._trajectory.refresh_as(known)
            except Error:
                return
        else:
            self._trouble = None
        if not self._looked_at:
            self._looked_at = True
            self._note_on_writer()
        self._stale = self._checked = False
        self._pending = any(part.truncation for part in self._trajectory.parts[-1:])

    @property
    def _stillness(self) -> float:
        """Seconds after which a file counts as unchanging; then a few zeros at the end of a frame count as numbers."""
        return max(TROUBLE, 10 * self._poll)

    def _is_still(self) -> bool:
        return time.monotonic() - self._seen_since >= self._stillness

    def _settled(self) -> bool:
        """Whether the files have not changed for half an interval: then no frame at their end is being written."""
        return time.monotonic() - self._seen_since >= self._poll / 2

    def _troubled(self, error: Error) -> None:
        """Keeps an error that may come from a file between two writes, or before its first frame; raises one that
        stays."""
        now = time.monotonic()
        if self._trouble is None or str(self._trouble[0]) != str(error) or is_of_beginning(error):
            self._trouble = (error, now)
        elif now - max(self._trouble[1], self._seen_since) >= self._stillness:
            waiting = self._restarting and isinstance(error, FileNotFoundError)
            if not waiting:
                raise error

    def _read_as_finished(self) -> None:
        """Reopens the files as complete: the simulation has ended."""
        self._trajectory.refresh_as(self._files.paths() if self._files.patterns else None, finished=True)
        self._checked = False

    def _default_markers(self) -> list[str]:
        if self._files.patterns or len(self._files.given) > 1:
            return []
        return [self._files.given[0] + ending for ending in _MARKERS]

    # -- the frames ---------------------------------------------------------------------------------------------

    def _new_frames(self, settled: bool, *, finished: bool) -> Iterator[Block]:
        """The complete frames that were not yielded yet; all remaining frames if the files are `finished`."""
        self._all_given = False
        if self._stale or self._was_rewound():
            return
        n_frames = self._trajectory.n_frames
        # the last frame may still be written, unless nothing has happened for a while
        if not finished and (not settled or self._seems_empty(n_frames)):
            n_frames -= 1
        if n_frames <= self.n_frames:
            self._all_given = True
            return
        chosen = range(self.n_frames, n_frames)
        blocks = self._trajectory.blocks(frames=chosen, **self._reading)
        try:
            for block in blocks:
                if self.n_frames and not self._given.is_last(self._read(self.n_frames - 1)):
                    # something was rewritten while it was read
                    self._stale = True
                    return
                n, reached = self._until.count_before(self.n_frames, block.times)
                written = n if finished else self._n_written(block, n)
                self._blank = self.n_frames + written if written < n else None
                if written < n:
                    reached, n = False, written
                if n:
                    given = block if n == len(block) else _front(block, n)
                    self._given.add(given)
                    self._grown = time.monotonic()
                    yield given
                    self._grown = max(self._grown, time.monotonic())
                if reached:
                    self.ended = f"{self._until} are there"
                    return
                if self._blank is not None:
                    break
            self._all_given = True
        except Error as error:
            self._troubled(error)
            self._stale = True
        finally:
            blocks.close()  # type: ignore[attr-defined]

    def _read(self, frame: int) -> Block:
        """A block of one frame, read as the yielded frames are."""
        return next(iter(self._trajectory.blocks(frames=range(frame, frame + 1), **self._reading)))

    def _n_written(self, block: Block, n: int) -> int:
        """Counts the first frames of a block, at most `n`, before an HDF5 frame in which nothing is written.

        HDF5 chunks get their place before they are filled, in any order. Other formats were checked by their bytes.
        """
        if not self._trajectory.core.hdf5:
            return n
        for row in range(n):
            # transforms move atoms away from the origin
            suspect = bool(self._trajectory.transforms) or is_blank(block, row)
            if suspect and is_blank(self._read_stored(self.n_frames + row), 0):
                return row
        return n

    def _read_stored(self, frame: int) -> Block:
        """Positions of all atoms of a frame as stored in the file, because transforms see more atoms than asked for."""
        stored = self._trajectory.with_core(self._trajectory.core.with_transforms([]))
        reading = {**self._reading, "select": None, "fields": ("positions",)}
        return next(iter(stored.blocks(frames=range(frame, frame + 1), **reading)))

    def _seems_empty(self, n_frames: int) -> bool:
        """Whether the last frame of an HDF5 file has more atoms at the origin than the frame before it.

        Chunks get their place before they are filled.
        """
        if not self._trajectory.core.hdf5 or n_frames <= self.n_frames:
            return False
        follows = n_frames == self.n_frames + 1
        if not self._trajectory.transforms:
            before = self._given.last_atoms_at_origin if follows else 0
            return atoms_at_origin(self._read(n_frames - 1)) > before
        last, given = (
            atoms_at_origin(self._read_stored(frame)) if frame >= 0 else 0
            for frame in (n_frames - 1, self.n_frames - 1 if follows else -1)
        )
        return last > given

    def _was_rewound(self) -> bool:
        """Whether a yielded frame is missing, perhaps for a moment. Once that is certain, raises or restarts."""
        n_frames = self._trajectory.n_frames
        if not self.n_frames or self._checked:
            return False
        try:
            # frames may be filled in any order: frames that may have been incomplete are checked as well
            first = self._given.first_filled(n_frames, self._read)
            if first is None and n_frames >= self.n_frames and self._given.is_last(self._read(self.n_frames - 1)):
                self._doubted, self._checked = False, True
                return False
            if not self._doubted:
                # check again after a while
                self._doubted = True
                return True
            if first is None:
                first = self._given.first_changed(n_frames, self._read)
        except Error as error:
            self._troubled(error)
            self._stale = True
            return True
        self._rewound(first)
        return True

    def _was_filled(self) -> bool:
        """Whether a yielded frame was incomplete; if so, starts over or raises RewoundError."""
        n_frames = min(self._trajectory.n_frames, self.n_frames)
        first = self._given.first_filled(n_frames, self._read, every=True)
        if first is not None:
            self._rewound(first)
        return first is not None

    def _rewound(self, first: int) -> None:
        n_frames, given = self._trajectory.n_frames, self.n_frames
        path, number = self._place(first)
        found = f"{n_frames} frames" if first >= n_frames else "another frame"
        error = RewoundError(
            f"{self._trajectory.format} frame {number}: the file was rewritten from here on, though "
            f"frames up to {given - 1} were given already, expected the same frames, found {found}",
            at=path,
            format=self._trajectory.format,
            frame=first,
        )
        if not self._restarting:
            raise error
        self.restarts += 1
        self._note(f"{error}; it starts over from frame 0")
        self._given.clear()
        self._doubted = False

    def _place(self, frame: int) -> tuple[str, int]:
        """The file of a frame, and its number there; also for a frame that no longer exists."""
        for part in self._trajectory.parts:
            n = part.kept[1] - part.kept[0]
            if part.first_frame <= frame < part.first_frame + n:
                return part.path, part.kept[0] + frame - part.first_frame
        last = self._trajectory.parts[-1]
        return last.path, last.file_frames + frame - self._trajectory.n_frames

    # -- notes --------------------------------------------------------------------------------------------------

    def _note(self, text: str) -> None:
        self._notes[text] = None
        emit([text])

    def _note_on_writer(self) -> None:
        part = self._trajectory.parts[0]
        known = format_named(part.format).writers_that_commit
        if known and not any(name in part.variant.lower() for name in known):
            self._note(
                f"{part.path}: {part.format} of a writer that is not known ({part.variant}): its frames are taken as "
                "whole when they are counted, their chunks are in the file and their last atoms are not at the origin"
            )


def _front(block: Block, n: int) -> Block:
    """The first frames of a block."""
    arrays = {name: values for name, values in vars(block).items() if name != "atoms"}
    kept: dict[str, Any] = {name: None if values is None else values[:n] for name, values in arrays.items()}
    return Block(**kept, atoms=block.atoms)
