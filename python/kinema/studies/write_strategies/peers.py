"""Programs other than Kinema: the PnetCDF program of a cell, and formatted writes of one process by Fortran, as in
DL_POLY, and by Python.

Formatted records are those of CONFIG: 73 bytes, four per atom.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kinema.base.errors import os_errors
from kinema.base.printable import printable
from kinema.formats.h5md.read.netcdf4.conventions import AMBER
from kinema.studies.launching import placed, run_bounded
from kinema.studies.write_strategies.pyrochlore import Pyrochlore

_ATOM_BYTES = 292
_MOST_FORTRAN, _MOST_PYTHON = 200_000, 50_000
# direct access, record by record: SDAW without MPI. The program prints the seconds of its loop.
_FORTRAN = """\
program formatted_writes
  use, intrinsic :: iso_fortran_env, only: real64, int64
  implicit none
  integer :: n, i, level, unit
  integer(int64) :: began, ended, rate
  real(real64), allocatable :: values(:, :, :)
  character(len=200) :: word, path
  call get_command_argument(1, word)
  read (word, *) n
  call get_command_argument(2, path)
  allocate (values(3, 3, n))
  call random_number(values)
  values = 400 * values - 200
  call system_clock(began, rate)
  open (newunit=unit, file=trim(path), access='direct', form='formatted', recl=73, status='new')
  do i = 1, n
    write (unit, '(a8,i10,54x,a1)', rec=4 * i - 3) 'Gd      ', i, new_line('a')
    do level = 1, 3
      write (unit, '(3g20.10,12x,a1)', rec=4 * i - 3 + level) values(:, level, i), new_line('a')
    end do
  end do
  close (unit)
  call system_clock(ended)
  print '(es16.8)', real(ended - began, real64) / real(rate, real64)
end program formatted_writes
"""


@dataclass(frozen=True)
class FormattedWrite:
    """Writes of one process; `reason` if they were not measured."""

    name: str
    bytes: int = 0
    seconds: float = 0.0
    reason: str = ""

    @property
    def rate(self) -> float:
        """MB/s (1e6 bytes), formatted into the page cache."""
        return self.bytes / self.seconds / 1e6

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def formatted_writes(folder: Path, n_atoms: int, environment: Mapping[str, str], limit: float) -> list[FormattedWrite]:
    """Rates of Fortran, if gfortran is installed, and of Python; files are made in `folder` and removed."""
    return [
        _fortran(folder, min(n_atoms, _MOST_FORTRAN), environment, limit),
        _python(folder, min(n_atoms, _MOST_PYTHON)),
    ]


def _fortran(folder: Path, n: int, environment: Mapping[str, str], limit: float) -> FormattedWrite:
    name = "Fortran (gfortran -O2, direct access)"
    compiler = shutil.which("gfortran", path=environment.get("PATH"))
    if compiler is None:
        return FormattedWrite(name, reason="gfortran is not installed")
    source, program, path = folder / "formatted.f90", folder / "formatted", folder / "fortran.txt"
    try:
        source.write_text(_FORTRAN)
        for words in ([compiler, "-O2", "-o", str(program), str(source)], [str(program), str(n), str(path)]):
            ended = run_bounded(words, environment, limit)
            if ended.code != 0:
                why = "out of time" if ended.code is None else printable(ended.printed.strip()[-200:])
                return FormattedWrite(name, reason=f"{Path(words[0]).name}: {why}")
        size = path.stat().st_size
        path.unlink()
    except (OSError, subprocess.SubprocessError) as error:
        return FormattedWrite(name, reason=printable(error))
    if size != n * _ATOM_BYTES:
        return FormattedWrite(name, reason=f"it wrote {size} bytes, expected {n * _ATOM_BYTES}")
    return FormattedWrite(name, size, float(ended.printed))


def _python(folder: Path, n: int) -> FormattedWrite:
    values = np.random.default_rng(1).uniform(-200.0, 200.0, (n, 3, 3)).tolist()
    path = folder / "python.txt"
    blanks = " " * 54
    began = time.perf_counter()
    with os_errors("cannot write", str(path)):
        with open(path, "w", encoding="ascii") as file:
            for number, (positions, velocities, forces) in enumerate(values, 1):
                file.write(f"{'Gd':<8}{number:>10}{blanks}\n")
                for x, y, z in (positions, velocities, forces):
                    file.write(f"{x:>20.10g}{y:>20.10g}{z:>20.10g}            \n")
        seconds = time.perf_counter() - began
        size = os.path.getsize(path)
        path.unlink()
    return FormattedWrite("Python (f-strings)", size, seconds)


# -- PnetCDF ----------------------------------------------------------------------------------------------------------

_PNETCDF_SOURCE = Path(__file__).with_name("pnetcdf_records.c")
_PNETCDF_PROGRAM, _PNETCDF_VALUES = "pnetcdf_records", "values.float64"
# a library fits the MPI that it was built with: tried after the compiler that it names, with Debian's two variants
_COMPILERS = ("mpicc", "mpicc.openmpi", "mpicc.mpich")
_COMPILING_SECONDS = 120.0
_VALUES_BATCH = 1 << 17


@dataclass(frozen=True)
class PnetcdfProgram:
    """The program that writes a configuration through PnetCDF, and the launcher that fits it.

    Attributes
    ----------
    folder : holds the program and the values
    launcher : mpiexec with its options; the number of ranks is added
    reason : why there is no program; "" if there is one
    """

    folder: Path
    launcher: tuple[str, ...] = ()
    reason: str = ""

    def words(self, ranks: int, path: str, result: Path, warm_bytes: int) -> list[str]:
        """The command that writes `path`, and its measurements to `result`; before that it writes `warm_bytes`."""
        program, values = self.folder / _PNETCDF_PROGRAM, self.folder / _PNETCDF_VALUES
        return [*self.launcher, "-n", str(ranks), str(program), str(values), path, str(result), str(warm_bytes)]


def pnetcdf_program(folder: Path, environment: Mapping[str, str], ranks_per_node: int | None) -> PnetcdfProgram:
    """Compiles it into `folder`, with the compiler of the MPI that PnetCDF was built with; gives a reason on failure.

    `mpicc X` and `mpiexec X` in one folder belong together: a pair fits PnetCDF if two ranks have started as two.
    """
    where = environment.get("PATH")
    config = shutil.which("pnetcdf-config", path=where)
    if config is None:
        return PnetcdfProgram(folder, reason="PnetCDF is not installed (no pnetcdf-config)")
    said = run_bounded([config, "--cc"], environment, _COMPILING_SECONDS).printed.strip()
    compilers = dict.fromkeys(filter(None, (shutil.which(name, path=where) for name in (said, *_COMPILERS) if name)))
    root = Path(config).resolve().parent.parent
    why = "no mpicc"
    for compiler in compilers:
        launcher = Path(compiler).with_name(Path(compiler).name.replace("mpicc", "mpiexec"))
        if not launcher.exists():
            continue
        program = folder / _PNETCDF_PROGRAM
        options = ["-O2", f"-I{root / 'include'}", f"-L{root / 'lib'}", f"-Wl,-rpath,{root / 'lib'}"]
        made = [compiler, *options, "-o", str(program), str(_PNETCDF_SOURCE), "-lpnetcdf"]
        try:
            words = (str(launcher), *placed(str(launcher), ranks_per_node))
            for call in (made, [*words, "-n", "2", str(program)]):
                ended = run_bounded(call, environment, _COMPILING_SECONDS)
                if ended.code != 0:
                    break
        except OSError as error:
            return PnetcdfProgram(folder, reason=f"PnetCDF: {printable(error)}")
        if ended.code == 0 and ended.printed.strip() == "ranks: 2":
            return PnetcdfProgram(folder, words)
        why = f"{Path(call[0]).name}: {printable(ended.printed.strip()[-200:]) or f'exit {ended.code}'}"
    return PnetcdfProgram(folder, reason=f"PnetCDF is installed, and no program with it can be run; {why}")


def write_values(folder: Path, system: Pyrochlore) -> None:
    """Writes the values that the program reads before its clock starts: all atoms in order, in AMBER's units."""
    path = folder / _PNETCDF_VALUES
    with os_errors("cannot write", str(path)), open(path, "wb") as file:
        np.int64(system.n_atoms).tofile(file)
        np.diag(system.box).tofile(file)
        # three vectors in sequence, each made separately, so that all atoms are never in memory
        for number, name in enumerate(("positions", "velocities", "forces")):
            for start in range(0, system.n_atoms, _VALUES_BATCH):
                ids = np.arange(start, min(start + _VALUES_BATCH, system.n_atoms))
                (system.state(ids)[number] / AMBER.size(name)).tofile(file)
