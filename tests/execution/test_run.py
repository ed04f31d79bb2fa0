"""Running analyses: together, on any number of workers, over chosen frames, with progress and timings."""

import re

import numpy as np
import pytest

import kinema as kn
from kinema.base.progress import report_slowest
from kinema.testing import random_walk, write_dcd


def all_analyses(traj):
    return [
        kn.analysis.RMSD(traj, select=range(2, 12), groups=[[1, 3]]),
        kn.analysis.RMSF(traj, align="average"),
        kn.analysis.RadiusOfGyration(traj, weights=None, axes=True),
        kn.analysis.RMSF(traj, select=[4, 1]),
    ]


def test_together_is_as_alone(small):
    together = kn.run(all_analyses(small), start=1, step=2, workers=2)
    for found, alone in zip(together, all_analyses(small), strict=True):
        alone.run(start=1, step=2, workers=1)
        assert found.results.keys() == alone.results.keys()
        for name in found.results:
            np.testing.assert_array_equal(found.results[name], alone.results[name])
    # two rounds for the aligned RMSF; the others share the first of them
    assert len(together[0].timings.passes) == 2
    assert together[0].timings is together[3].timings


def test_together_is_as_alone_over_thousands_of_frames(adk_dcd):
    # where leaves hold several frames, whose number may depend on nothing but the frames and each analysis itself
    traj = kn.open([adk_dcd.trajectory] * 174, overlap="all", stored=False, on_truncated="drop")

    def analyses():
        return [
            kn.analysis.RMSF(traj, select=range(0, 3341, 16)),
            kn.analysis.RMSD(traj, select=range(0, 3341, 16)),
            kn.analysis.RadiusOfGyration(traj, weights=None),
            kn.analysis.RMSF(traj),
        ]

    each_alone = [one.run(workers=2) for one in analyses()]
    for workers in (1, 2):
        for found, alone in zip(kn.run(analyses(), workers=workers), each_alone, strict=True):
            for name in alone.results:
                assert np.asarray(found.results[name]).tobytes() == np.asarray(alone.results[name]).tobytes(), name


@pytest.mark.parametrize("system", ["adk_dcd", "adk_xtc"])
def test_same_bits_for_any_number_of_workers(request, system):
    files = request.getfixturevalue(system)
    traj = kn.open(files.trajectory, topology=files.topology, stored=False)
    select = "protein and name CA"

    def found(**arguments):
        analyses = [
            kn.analysis.RMSD(traj, select=select, weights="mass", groups=["protein"]),
            kn.analysis.RMSF(traj, select=select, align="average"),
            kn.analysis.RadiusOfGyration(traj, select="protein"),
        ]
        kn.run(analyses, **arguments)
        return [analysis.results.values.tobytes() for analysis in analyses]

    expected = found(runner="serial")
    for workers in (1, 2, 3, 7):
        assert found(workers=workers) == expected
    assert found(workers=3, memory="16 MiB") == expected


def test_partial_results_count_as_memory(tmp_path):
    write_dcd(tmp_path / "a.dcd", random_walk(40, 20_000))
    traj = kn.open(tmp_path / "a.dcd", stored=False)
    expected = kn.analysis.RMSF(traj, align=None).run()
    # 72 bytes an atom
    assert ", of which 1" in expected.plan and "MiB for partial results" in expected.plan
    with pytest.raises(kn.MemoryLimitError, match="one frame of this selection and the partial results") as caught:
        kn.analysis.RMSF(traj).run(memory="4 MiB")
    needed = int(re.search(r"at least (\d+) bytes", str(caught.value)).group(1))
    assert 3 * 72 * 20_000 < needed < 20 << 20
    with pytest.raises(kn.MemoryLimitError):
        kn.analysis.RMSF(traj).run(memory=needed - 1)
    found = kn.analysis.RMSF(traj).run(memory=needed, workers=2)
    assert found.timings.n_workers == 1
    assert found.results.rmsf.tobytes() == expected.results.rmsf.tobytes()


def test_frames_exclude_a_slice(small):
    analysis = kn.analysis.RMSD(small)
    with pytest.raises(ValueError, match="start/stop/step cannot be combined with frames"):
        analysis.run(stop=3, frames=[1])
    with pytest.raises(kn.ArgumentError, match=r"start=30, stop=None, step=None names no frame.*20 frames"):
        analysis.run(start=30)
    with pytest.raises(kn.ArgumentError, match="names no frame"):
        analysis.run(frames=[])
    with pytest.raises(kn.OutOfRangeError, match=r"frame 20 is out of range, the trajectory has 20 frames"):
        analysis.run(frames=[3, 20])
    with pytest.raises(kn.ArgumentError, match="step"):
        analysis.run(step=0)
    assert not analysis.results
    with pytest.raises(AttributeError, match=r"call run\(\) first"):
        _ = analysis.results.rmsd


def test_what_cannot_run_together(small):
    a = kn.analysis.RMSD(small)
    for analyses, said in (
        ([], "no analyses"),
        ([a, a], "twice"),
        ([a, kn.analysis.RMSD(small[:5])], "one trajectory"),
        ([a, 3], "found int"),
        (a, "a list"),
    ):
        with pytest.raises(kn.ArgumentError, match=said):
            kn.run(analyses)


def test_arguments_of_run(small):
    analysis = kn.analysis.RMSD(small)
    for arguments, said in (
        ({"workers": 0}, "workers"),
        ({"workers": 1.5}, "workers"),
        ({"memory": "much"}, "256 MiB"),
        ({"runner": "magic"}, "'serial', 'threads'"),
        ({"runner": "serial", "workers": 2}, "one worker"),
        ({"progress": 3}, "progress"),
    ):
        with pytest.raises(kn.ArgumentError, match=said):
            analysis.run(**arguments)


def test_progress_is_reported(small):
    seen = []
    kn.analysis.RMSD(small).run(progress=lambda done, total: seen.append((done, total)))
    assert all(0 <= done <= total == 20 for done, total in seen)
    assert seen == sorted(seen)


def test_an_error_in_progress_ends_the_run(small):
    def fail(done, total):
        raise RuntimeError("enough")

    analysis = kn.analysis.RMSD(small)
    with pytest.raises(RuntimeError, match="enough"):
        analysis.run(progress=fail)
    assert not analysis.results


def test_the_slowest_worker_is_named_where_somebody_asks():
    class Told:
        def __init__(self):
            self.said = []

        def __call__(self, done, total):
            pass

        def slowest(self, worker, frames_per_second):
            self.said.append((worker, frames_per_second))

    told = Told()
    report_slowest(told, {"rank 0": 40, "rank 1": 10, "rank 2": 30}, 2.0)
    assert told.said == [("rank 1", 5.0)]
    # not before they have settled, not of one alone, not to a plain function
    report_slowest(told, {"rank 0": 40, "rank 1": 10}, 0.1)
    report_slowest(told, {"rank 0": 40}, 2.0)
    report_slowest(lambda done, total: None, {"rank 0": 40, "rank 1": 10}, 2.0)
    report_slowest(None, {"rank 0": 40, "rank 1": 10}, 2.0)
    assert len(told.said) == 1


def test_no_progress_bar_in_a_pipe(small, capfd):
    kn.analysis.RMSD(small).run(progress=True)
    assert capfd.readouterr() == ("", "")


def test_timings(small):
    timings = kn.analysis.RMSF(small, align="average").run(workers=2).timings
    assert timings.frames == 20
    assert timings.frames_read == 40 == sum(worker.frames for worker in timings.workers)
    assert timings.blocks[:, 2].sum() == 40
    assert timings.wall > 0
    assert timings.frames_per_second > 0
    assert sum(timings.fractions.values()) == pytest.approx(1.0)
    assert timings.bytes_read > 0
    assert "20 frames in 2 rounds" in str(timings)


def test_results_by_name(small):
    results = kn.analysis.RMSD(small).run().results
    assert dict(results).keys() == {"rmsd", "frames", "time", "values"}
    assert results["rmsd"] is results.rmsd
    assert "rmsd" in results


def test_runner_of_ones_own(small):
    class Counting:
        name = "counting"
        passes = 0

        def map_reduce(self, request):
            self.passes += 1
            return kn.runners.ThreadsRunner().map_reduce(request)

    runner = Counting()
    kn.analysis.RMSF(small, align="average").run(runner=runner)
    assert runner.passes == 2
