"""Numbers in messages and tables have the digits that they have."""

import numpy as np
import pytest

import kinema as kn
from kinema.base.printable import are_float32, counted, plot_text, shortest
from kinema.cli import main
from kinema.testing import random_walk, write_xtc


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float(np.float32(0.1)), "0.1"),
        (1234567.5, "1234567.5"),
        (1e6, "1000000"),
        (0.9999999119200186, "1"),
        (97.99999136816182, "98"),
        (123456789.25, "123456789.25"),
        (0.000012345, "0.000012345"),
        (-2.5, "-2.5"),
        (0.0, "0"),
        (1e20, "1e+20"),
        (np.inf, "inf"),
        (np.nan, "nan"),
    ],
)
def test_shortest(value, text):
    assert shortest(value) == text


def test_text_of_a_picture():
    assert plot_text("a$b\n\x1b") == r"a\$b\n\x1b"


def test_a_difference_has_fewer_digits():
    times = np.array([0.2, 0.3], dtype=np.float32).astype(np.float64)
    assert shortest(times[1] - times[0], 6) == "0.1"


def test_float32_is_recognised():
    assert are_float32(np.array([0.5, np.inf, np.nan, float(np.float32(0.1))]))
    assert not are_float32(np.array([0.5, 0.1]))
    assert not are_float32(np.array([1e300]))


def test_times_have_the_digits_of_the_file(tmp_path):
    path = tmp_path / "a.xtc"
    write_xtc(path, random_walk(4, 5), dt=0.1)
    traj = kn.open(path, stored=False)
    rmsd = kn.analysis.RMSD(traj).run()
    times = {}
    for suffix, column, unit in ((".csv", 1, "ps"), (".xvg", 0, "ps"), (".dat", 1, "ns")):
        rmsd.save(tmp_path / f"rmsd{suffix}", output_time_unit=unit)
        lines = (tmp_path / f"rmsd{suffix}").read_text().replace(",", " ").splitlines()
        rows = [line.split() for line in lines if line[:1] not in "#@" and not line.startswith("frame")]
        times[suffix] = [float(row[column]) for row in rows]
        assert max(len(row[column]) for row in rows) <= 7
    np.testing.assert_array_equal(np.float32(times[".csv"]), traj.times)
    assert times[".xvg"] == times[".csv"] == [0.0, 0.1, 0.2, 0.3]
    np.testing.assert_allclose(times[".dat"], [0.0, 1e-4, 2e-4, 3e-4], rtol=1e-7)


def test_messages_have_the_times_of_the_file(tmp_path):
    path = tmp_path / "late.xtc"
    write_xtc(path, random_walk(3, 5), dt=1234567.5)
    traj = kn.open(path, stored=False)
    with pytest.raises(kn.OutOfRangeError, match=r"no frame between 0.1 and 0.2 ps, its times are 0 to 2469135 ps"):
        kn.frames_between(traj, 0.1, 0.2)
    assert repr(traj[1]) == "<Frame 1: step 1, 1234567.5 ps>"


def test_numbers_of_things():
    assert [counted(1, "frame"), counted(0, "frame"), counted(47681, "atom")] == ["1 frame", "0 frames", "47,681 atoms"]


def test_summaries_of_one_frame_and_of_two_rounds(tmp_path, capsys):
    path = tmp_path / "a.xtc"
    write_xtc(path, random_walk(3, 4))
    done = kn.split(path, tmp_path / "parts", parts=2)
    assert [line.rsplit(": ", 1)[1] for line in str(done).splitlines()] == ["frame 0", "frames 1 to 2"]
    assert "a.000.xtc: 1 frame of 4 atoms" in str(kn.check(done.paths[0]))
    with pytest.raises(SystemExit, match="0"):
        main(["rmsf", "-f", str(path), "--align", "average", "-o", "-"])
    summary = capsys.readouterr().err
    assert "3 frames of 4 atoms (XTC), 2 rounds in " in summary
    assert summary.endswith("written: stdout\n")
