"""Options of formats as keywords, for editors, type checkers and `help()`.

Written by tools/write_options.py from what each format declares: change it there, in `formats/NAME/`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    import os

    from numpy.typing import ArrayLike, DTypeLike

    from kinema.cache.node_cache import NodeCacheChoice
    from kinema.execution.checkpoint import CheckpointChoice
    from kinema.files.conversion.compare import Verification
    from kinema.formats.external.writer import AtomsAsText
    from kinema.model.atom_table import Atoms


class OpenOptions(TypedDict, total=False):
    """Options of `kinema.open` that formats declare."""

    axis: str | None
    particles: str | None
    dataset: str | None
    unwrap: bool
    root: str | None
    absent_particles: str
    external: str
    reader_options: Mapping[str, Any] | None


class WriteOptions(TypedDict, total=False):
    """Options of `kinema.Writer` that formats declare."""

    resume_from: int | None
    fields: str | Sequence[str] | None
    title: str | None
    atoms: Atoms | AtomsAsText | None
    netcdf4: bool
    convention: str | None
    layout: str | Sequence[int] | None
    n_frames: int | None
    chunk_bytes: int
    compression: str | tuple[int, Sequence[int]] | None
    level: int | None
    shuffle: bool | None
    checksum: bool
    dtype: DTypeLike | None
    native: bool
    topology: Any
    precision: float | None
    particles: str | None
    align: int | None
    max_error: float | None
    unit: str
    length_unit: str | None
    time_unit: str | None
    cell: ArrayLike | None
    boundary: str | Sequence[str] | None
    masses: ArrayLike | None
    charges: ArrayLike | None
    species: ArrayLike | Sequence[str] | None
    ids: ArrayLike | None
    bonds: ArrayLike | None
    author: str
    author_email: str | None
    creator: str
    creator_version: str
    provenance: str | None
    dialect: str
    strategy: str
    hints: Mapping[str, object] | None
    order: str
    verify: bool
    buffer_frames: int | None


class ConvertOptions(TypedDict, total=False):
    """Options of `kinema.convert`, of `kinema.open`, and those that formats declare."""

    dump: float | None
    index_file: str | os.PathLike[str] | None
    group: str | None
    split: int | None
    topology_out: str | os.PathLike[str] | None
    strategy: str
    hints: Mapping[str, Any] | None
    memory: int | str | None
    append: bool
    verify: Verification
    rotate_cell: bool
    checkpoint: CheckpointChoice
    checkpoint_interval: float | None
    skip_damaged: bool
    overlap: str
    on_truncated: str
    index: str
    stored: bool
    max_open_files: int | None
    node_cache: NodeCacheChoice
    units: Mapping[str, str] | None
    dt: float | None
    time_offset: float | None
    t0: float | None
    absent: str
    axis: str | None
    particles: str | None
    dataset: str | None
    unwrap: bool
    root: str | None
    absent_particles: str
    external: str
    reader_options: Mapping[str, Any] | None
    title: str | None
    netcdf4: bool
    convention: str | None
    layout: str | Sequence[int] | None
    chunk_bytes: int
    compression: str | tuple[int, Sequence[int]] | None
    level: int | None
    shuffle: bool | None
    checksum: bool
    dtype: DTypeLike | None
    precision: float | None
    align: int | None
    max_error: float | None
    unit: str
    length_unit: str | None
    time_unit: str | None
    boundary: str | Sequence[str] | None
    masses: ArrayLike | None
    charges: ArrayLike | None
    species: ArrayLike | Sequence[str] | None
    ids: ArrayLike | None
    bonds: ArrayLike | None
    author: str
    author_email: str | None
    creator: str
    creator_version: str
    dialect: str


OPEN_DEFAULTS: Mapping[str, Any] = {
    "axis": None,
    "particles": None,
    "dataset": None,
    "unwrap": False,
    "root": None,
    "absent_particles": "mask",
    "external": "folder",
    "reader_options": None,
}

OPEN_OLD_NAMES: Mapping[str, str] = {
    "group": "particles",
}

OPEN_TABLE = """\
    Options by format
    -----------------
    all formats but TRR and G96
        axis : {"positions", "velocities", "forces"}
            The quantity whose steps define the frames, if quantities were written at different strides; by
            default the first of them that the file has. A quantity that the files lack is refused. Not for TRR,
            whose frames each declare their fields: choose frames with `frames=`.
    H5MD
        particles : str
            The particles group, "system", "particles/system" or "/particles/system"; required if a file has
            several.
        dataset : str
            A bare data set of positions, (frames, 3 N) or (frames, N, 3), in any HDF5 file.
        unwrap : bool
            Add the image vectors to the positions, so that particles leave the box instead of jumping across
            it.
        root : str
            The group that holds the H5MD structure, if it is not the file's root and there are several.
        absent_particles : {"mask", "error"}
            Result for particles that are missing in some frames: NaN, or an error.
        external : {"folder", "none", "any"}
            Other files that a file may refer to by external links and virtual data sets: those in its own
            folder and below, symbolic links of both resolved, none, or any. Files that these refer to count as
            well. Raw files as storage of data sets are always refused. See docs/trust.md.
    files that MDAnalysis reads
        reader_options : mapping
            Arguments of MDAnalysis' reader: {"unwrap_images": True} for LAMMPS dumps.
"""

WRITE_TABLE = """\
    Options by format
    -----------------
    H5MD
        fields : names out of "positions", "velocities", "forces"
            Fields of each frame; by default the fields of the first.
        particles : str
            Name below `particles`; "trajectory" by default.
        layout : {"frames", "atoms", "contiguous"} or (frames, atoms, components)
            Chunks of whole frames, of few atoms over many frames, none at all (needs `n_frames`), or of this
            shape.
        n_frames : int
            Number of frames to be written, if known.
        chunk_bytes : int
            Approximate size of chunks; 1 MiB.
        align : int
            Chunks begin at multiples of this many bytes: the stripe of a parallel file system, or a page.
        compression : None, "gzip", "zstd", "lz4", "bitshuffle-lz4", "bitshuffle-zstd", "lzf", "szip", or
                (number, values)
            Only files with gzip (or none) are read by every HDF5, and with szip by most; LZF is h5py's own; the
            others need its plugins (package hdf5plugin). A registered filter may be named by its number with
            its client values: (32001, (0, 0, 0, 0, 5, 1, 1)) is Blosc. LZF, szip and those are encoded by
            libhdf5, on one thread.
        level : int
            Level for gzip (1 to 9; 1), zstd and bitshuffle-zstd (1 to 22; 3).
        shuffle : bool
            HDF5's shuffle before the compression; by default with gzip, zstd, lz4 and LZF.
        checksum : bool
            A Fletcher32 checksum of every chunk, which each reader compares.
        max_error : float
            Round positions so that none moves by more than this, in `unit`; they compress better then.
        unit : {"angstrom", "nm", "pm"}
            Unit of `max_error`.
        dtype : {"float32", "float64"}
            Type of positions, velocities and forces; float32 by default.
        length_unit : {"angstrom", "nm", "pm"}
            Unit of length of the file; angstrom by default.
        time_unit : {"ps", "fs", "ns"}
            Unit of time of the file; ps by default.
        native : bool
            Values are given in the units of the file, and not divided.
        cell : (3,) or (3, 3), angstrom
            A box that does not change; otherwise each frame brings its own, or none does.
        boundary : "periodic", "none", or three of these
            By default periodic if there is a cell.
        atoms : kinema.Atoms
            Names, residues, masses, charges, species (elements, or else types), identifiers and bonds of the
            atoms. `Trajectory.atoms` and `read_atoms` give back the same table. Guessed columns are marked as
            such, with a note.
        topology : MDAnalysis Universe or AtomGroup, kinema.Topology, or file name
            Source of the atoms, instead of `atoms`.
        masses : (n_atoms,) in u
        charges : (n_atoms,) in elementary charges
        species : (n_atoms,) numbers or names
        ids : (n_atoms,) unique numbers
        bonds : (bonds, 2) atom numbers from 0
        author, author_email, creator, creator_version : str
        provenance : str
            Provenance of the file, as text: the data set `parameters/kinema/provenance`.
        dialect : {"h5md", "mdanalysis"}
            "h5md" follows the specification. "mdanalysis" deviates in one point, for MDAnalysis' own reader:
            strings have variable length. Also steps and boxes are then stored one by one even if they could be
            stored once.
        resume_from : int
            With mode="a": cut the file after the last frame whose step is not greater; ArgumentError if there
            is none.
    NetCDF with netcdf4=True
        fields : names out of "positions", "velocities", "forces"
            By default the fields of the first frame.
        netcdf4 : True
        convention : {"amber", "dl_poly"}
            AMBER's, 1.0: cells as lengths and angles, times as float32, no steps. Velocities are stored divided
            by their scale_factor 20.455, and forces in kcal/(mol angstrom). Or DL_POLY's, 0.0: cells as
            vectors, steps, times as float64, forces in Da angstrom/ps^2, and names, indices, masses and charges
            of the atoms; without its variable RSD, and with `timestep` unset, because frames do not state it.
        layout : "frames", "atoms", or (frames, atoms, components)
            As for H5MD; "contiguous" is refused, since frames can always be added to netCDF files.
        n_frames, chunk_bytes : as H5MD
        compression : as H5MD
            Programs with netCDF-C read gzip, or nothing, everywhere; others need plugins of HDF5.
        level, shuffle, checksum, dtype : as H5MD
        native : bool
            Values are given in the units of the file.
        atoms : as H5MD
            For DL_POLY's convention; AMBER's has nothing of atoms.
        topology : as H5MD
            Likewise.
    comm=, of any format
        strategy : str
            "auto", or one that `docs/parallel-writing.md` lists for the format.
        hints : {name: value}
            With ROMIO's names: "cb_nodes" (ranks that write) and "cb_buffer_size" (bytes of a batch, 8 MiB by
            default) steer all strategies; all hints go to MPI with "mpiio" and "mpiio-collective".
        order : {"sorted", "given"}
            By number; or, in HISTORY and CONFIG files, as the atoms come: the atoms of each rank after the
            atoms of lower ranks, without an exchange of values.
        verify : bool
            Each rank reads what another has written, and compares checksums; a note says how. ArgumentError
            with "serial" of formats other than H5MD, because only rank 0 knows what was written.
        buffer_frames : int
            Keep up to this number of frames and write them together; with "serial" and "direct" in a thread,
            while the program computes. Each takes the memory of this rank's share of a frame (of a whole frame
            on ranks that gather).
    DL_POLY HISTORY, DL_POLY CONFIG
        resume_from : int
            With mode="a": the file is cut after the last frame whose step is not greater, as a restart needs
            it. ArgumentError if there is none.
        fields : as NetCDF with netcdf4=True
        title : str
            The first line, cut at 72 characters.
        atoms : kinema.Atoms
            Names, masses and charges; without them all atoms are named X, which is noted. With mode="a" an
            existing file keeps its own unless others are given.
    NetCDF
        resume_from : as DL_POLY HISTORY
        fields : as NetCDF with netcdf4=True
        netcdf4 : bool
            Write NetCDF-4 instead, with its options. With mode="a" an existing file keeps its kind.
    TRR
        resume_from : as DL_POLY HISTORY
        fields : names out of "positions", "velocities", "forces"
            Fields to write, of frames that have them; by default all.
        dtype : "float32" or "float64"
            Precision of all numbers of a frame; float32 by default, as in GROMACS' usual build. Frames that
            mode="a" adds to a file have by default the precision of its first frame.
    XTC
        resume_from : as DL_POLY HISTORY
        fields : "positions"
        precision : float
            Numbers to a nm; 1000 by default. With mode="a" an existing file keeps the precision of its last
            frame.
    G96
        resume_from : as DL_POLY HISTORY
        fields : "positions", or "positions" and "velocities"
            By default the fields of the first frame.
        title : The title of the first frame.
    PDB, GRO
        n_frames : int
            Number of frames to be written: with 1 a PDB file has no MODEL records.
        atoms : kinema.Atoms, or the AtomsAsText of several files
            Names, residues, ... of the atoms. One of `atoms` and `topology` is needed; columns that it lacks
            are written as MDAnalysis' placeholders (X, UNK, 1), with a note.
        topology : as H5MD
    DCD
        resume_from : as DL_POLY HISTORY
        fields : "positions" or "velocities"
            By default positions if the first frame has them.
"""

CONVERT_TABLE = """\
    Options
    -------
    dump : float, ps
        Write only the frame nearest to this time, as `gmx trjconv -dump`; the first if two are equally
        near.
    index_file : path
        As for `Trajectory.select`, like `group`.
    group : str
        A group of the index file.
    split : int
        Write files of this many frames each (the last may have fewer): out0.xtc, out1.xtc, ... for
        "out.xtc". Each appears when it is complete.
    topology_out : path
        Also write a PDB or GRO file of the written atoms, in their order, with the positions and cell of
        the first written frame. Needs a topology, and appears after the trajectory.
    strategy : str
        How workers write one file. "direct": each worker writes what it has encoded; "serial": one process
        writes all bytes; "mpiio" and "mpiio-collective": through MPI-IO; "auto": "direct" if the format has
        it. See docs/parallel-writing.md.
    hints : mapping
        Hints with ROMIO's names. cb_buffer_size: bytes that a worker encodes and writes at a time; others
        are for MPI-IO.
    memory : int or str
        Limit of working memory, such as "256 MiB".
    append : bool
        Append the frames to `out` if it exists, as `kinema.Writer` does with mode="a". They are not read
        back.
    verify : bool or "all"
        Read some frames back, or all, and compare them with the source, before a file gets its name.
    rotate_cell : bool
        Rotate each frame whose cell is not in standard orientation (first edge along x, second in the xy
        plane, right-handed), with positions, velocities and forces: `kinema.transforms.rotate_cell`, after
        all other transforms; noted.
    checkpoint : path or Checkpoint
        File that records the progress: however a call ends, the same call continues after the written
        frames and makes the same bytes (for H5MD the same values). It is removed when the output is
        complete. For one file of any format except PDB and GRO; not if an H5MD file is repacked.
    checkpoint_interval : float
        Seconds between two saves of the checkpoint; 30 by default.
    skip_damaged : bool
        Leave out frames that cannot be decoded, with a note that names them; without it they are an error.
        Finding them decodes all frames once more, unless that was done before.

    Options by format, as of `kinema.Writer`
    ----------------------------------------
    DL_POLY HISTORY, DL_POLY CONFIG, G96
        title
    DCD, PDB, GRO
        none
    NetCDF
        netcdf4
    NetCDF with netcdf4=True
        netcdf4, convention, layout, chunk_bytes, compression, level, shuffle, checksum, dtype
    TRR
        dtype
    XTC
        precision
    H5MD
        layout, chunk_bytes, align, compression, level, shuffle, checksum, max_error, unit, dtype, length_unit,
        time_unit, boundary, masses, charges, species, ids, bonds, author, author_email, creator,
        creator_version, dialect
"""
