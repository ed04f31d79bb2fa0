"""`kinema doctor` says what there is, what is wrong and what to do; nothing that hangs or fails stops it."""

from __future__ import annotations

import getpass
import json
from importlib import metadata
from pathlib import Path

import pytest
from tests.cli.conftest import Kinema

import kinema
from kinema.cli.commands.doctor import anonymise, look
from kinema.cli.commands.doctor.probes import PROBES, ProbeResult


def results_by_name(findings: list[ProbeResult]) -> dict[str, ProbeResult]:
    return {one.name: one for one in findings}


def _is_installed() -> bool:
    """Whether the requirements of Kinema are known: `make test-oldest` runs it from its folder."""
    return any(one.metadata["Name"] == "kinema" for one in metadata.distributions())


@pytest.mark.skipif(not _is_installed(), reason="Kinema is not installed here, so its requirements are not known")
def test_it_reports_versions_libraries_and_limits(run_kinema: Kinema, tmp_path: Path) -> None:
    done = run_kinema("doctor", "--json", "--timeout", "120", cwd=tmp_path)
    found = results_by_name([ProbeResult(**one) for one in json.loads(done.stdout)["findings"]])
    expected = {"kinema", "python", "numpy", "h5py", "cores", "memory", "cache folder", "HDF5 of h5py", "MPI"}
    assert expected <= set(found)
    assert {found[name].state for name in expected} == {"ok"}, found
    assert "distributed [dask]" in found
    assert found["torch [ml]"].state == "absent" and "kinema[ml]" in found["torch [ml]"].remedy
    assert all(one.remedy for one in found.values() if one.state != "ok")
    assert done.returncode == int(any(one.state == "trouble" for one in found.values()))


def test_a_probe_that_hangs_or_fails_is_one_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, code in (("mpi4py", "import time; time.sleep(600)"), ("h5py", "raise ImportError('libhdf5 is gone')")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(kinema.__file__).parent.parent}", prepend=":")
    found = results_by_name([*look(["mpi"], timeout=5), *look(["hdf5", "limits"], timeout=120)])
    assert found["mpi"].state == "trouble" and "no answer within 5 s" in found["mpi"].value
    assert found["hdf5"].state == "trouble" and "libhdf5 is gone" in found["hdf5"].value
    assert found["cores"].state == "ok"


def test_a_package_that_is_not_installed_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", absent)
    found = results_by_name(list(PROBES["versions"]()))
    assert set(found) == {"kinema", "python", "system"}
    assert found["kinema"].state == "ok" and "not installed" in found["kinema"].value


def test_a_folder_that_cannot_be_written_is_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kinema").write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "kinema"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    (temporary, *_) = PROBES["temporary_files"]()
    assert temporary.state == "trouble" and "No such file" in temporary.value and "TMPDIR" in temporary.remedy


def test_home_folder_and_user_name_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")
    found = anonymise(ProbeResult("cache folder", "trouble", "/home/ada/.cache, /scratch/ada/x", "see /home/ada"))
    assert (found.value, found.remedy) == ("~/.cache, /scratch/USER/x", "see ~")


def test_a_limit_of_no_time_is_refused(run_kinema: Kinema, tmp_path: Path) -> None:
    done = run_kinema("doctor", "--timeout", "0", cwd=tmp_path)
    assert done.returncode == 2 and "expected a number from 0.1 to 3600, found '0'" in done.stderr
