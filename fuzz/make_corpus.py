"""Makes the seeds of the fuzz targets in fuzz/corpus from small real files and from hand-made ones.

Needs Kinema, MDAnalysis, MDAnalysisTests, netCDF4, h5py and hdf5plugin. It does not run the targets: run.sh does.
"""

import struct
import tempfile
import zlib
from pathlib import Path

import h5py
import hdf5plugin
import MDAnalysis
import numpy as np
from MDAnalysisTests import datafiles

from kinema.testing import history_bytes, unformatted_bytes, write_netcdf
from kinema.testing.dlpoly_files import DL_POLY_3

CORPUS = Path(__file__).parent / "corpus"
EXPANDS = b"\xe0"


def put(targets, name, data):
    """Writes one seed for each target."""
    for target in targets:
        folder = CORPUS / target
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def cut(source, ending, n_atoms, n_frames):
    """The first atoms and frames of a trajectory, written by MDAnalysis."""
    universe = MDAnalysis.Universe(*source)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/cut{ending}"
        with MDAnalysis.Writer(path, n_atoms) as writer:
            for _ in universe.trajectory[:n_frames]:
                writer.write(universe.atoms[:n_atoms])
        return Path(path).read_bytes()


def made(positions, cell, ending, **options):
    """A file with these positions (frames x atoms x 3, angstrom) and cell lengths."""
    universe = MDAnalysis.Universe.empty(positions.shape[1], trajectory=True)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/made{ending}"
        with MDAnalysis.Writer(path, positions.shape[1], **options) as writer:
            for frame in positions:
                universe.atoms.positions = frame
                universe.dimensions = [*cell, 90, 90, 90]
                writer.write(universe.atoms)
        return Path(path).read_bytes()


def as_2023(frame, start):
    """One XTC frame with the magic number of GROMACS 2023: its length in eight bytes."""
    head, n_bytes = frame[start : start + 88], frame[start + 88 : start + 92]
    (length,) = struct.unpack(">i", n_bytes)
    body = frame[start + 92 : start + 92 + (length + 3) // 4 * 4]
    return struct.pack(">i", 2023) + head[4:] + struct.pack(">q", length) + body


def runs(data):
    """Zeros as counts: the form of long files that fuzz/src/files.rs expands."""
    out, at = bytearray(EXPANDS), 0
    while at < len(data):
        gap = data.find(b"\0" * 8, at)
        end = min(len(data) if gap < 0 else gap, at + 255)
        zeros = 0
        while end + zeros < len(data) and data[end + zeros] == 0 and zeros < 65535:
            zeros += 1
        out += bytes([end - at]) + data[at:end] + struct.pack("<H", zeros)
        at = end + zeros
    return bytes(out)


def xtc_seeds():
    """Real water, protein and random walks; plain floats; wide and separate integers; magic 2023; cut."""
    random = np.random.default_rng(7)
    real = cut((datafiles.GRO, datafiles.XTC), ".xtc", 120, 3)
    yield "protein", real
    yield "protein_cut", real[:-9]
    yield "ten_atoms", Path(datafiles.XTC_multi_frame).read_bytes()
    yield "plain_floats", Path(datafiles.COORDINATES_XTC).read_bytes()
    yield "nine_atoms", made(random.normal(0, 5, (2, 9, 3)), (50, 50, 50), ".xtc")
    # neighbours at different distances, so that the width of the differences moves up and down
    water = np.cumsum(random.normal(0, 0.6, (4, 90, 3)) * random.choice([0.2, 1, 8], (4, 90, 1)), axis=1)
    yield "widths", made(water, (60, 60, 60), ".xtc")
    yield "wide", made(random.uniform(0, 9000, (2, 30, 3)), (9000, 9000, 9000), ".xtc")
    yield "separate", made(random.uniform(-200_000, 200_000, (2, 20, 3)), (1, 1, 1), ".xtc")
    yield "large_differences", made(random.uniform(0, 160, (2, 40, 3)), (160, 160, 160), ".xtc", precision=5)
    yield "magic_2023", as_2023(real, 0)
    yield "both_magics", real + as_2023(real, 0)
    yield "same_place", made(np.zeros((2, 200, 3)), (10, 10, 10), ".xtc")
    yield "many_frames", made(random.normal(0, 3, (40, 10, 3)), (30, 30, 30), ".xtc")
    yield "no_atoms", struct.pack(">4i", 1995, 0, 1, 0) + bytes(36) + struct.pack(">i", 0)
    yield "header_only", real[:92]
    yield "trr_magic", struct.pack(">i", 1993) + real[4:200]


def trr_frame(n_atoms, step, sections, double=False, cell=True, swap=False):
    """One TRR frame with these sections out of x, v and f."""
    kind, width = ("d", 8) if double else ("f", 4)
    vector = [3 * width * n_atoms if name in sections else 0 for name in "xvf"]
    words = [0, 0, 9 * width if cell else 0, 0, 0, 0, 0, *vector, n_atoms, step, 0]
    order = "<" if swap else ">"
    head = struct.pack(f"{order}3i12s13i2{kind}", 1993, 13, 12, b"GMX_trn_file", *words, step / 2, 0.5)
    numbers = np.arange(9 * cell + 3 * n_atoms * len(sections)) / 7
    return head + numbers.astype(f"{order}{kind}").tobytes()


def _with_zeros(frame, n_bytes):
    """A frame whose last bytes are zeros."""
    return frame[: len(frame) - n_bytes] + bytes(n_bytes)


def trr_seeds():
    """Real and synthetic frames: fields at different strides, double precision, cells alone, cut, swapped bytes."""
    yield "mdanalysis", Path(datafiles.COORDINATES_TRR).read_bytes()
    yield "ten_atoms", Path(datafiles.TRR_multi_frame).read_bytes()[:3000]
    strides = b"".join(trr_frame(6, i, "x" + "v" * (i % 2 == 0) + "f" * (i % 3 == 0)) for i in range(7))
    yield "strides", strides
    yield "strides_cut", strides[:-9]
    yield "double", b"".join(trr_frame(5, i, "xv", double=True) for i in range(3))
    yield "both_precisions", trr_frame(5, 0, "x") + trr_frame(5, 1, "x", double=True)
    yield "velocities_first", trr_frame(4, 0, "v") + trr_frame(4, 1, "x") + trr_frame(4, 2, "f")
    yield "cells_alone", trr_frame(4, 0, "") * 3
    yield "many_atoms_of_no_vectors", trr_frame(2**31 - 1, 0, "")
    yield "no_cell", trr_frame(3, 0, "x", cell=False) * 2
    yield "damaged", strides[:700] + bytes(40) + strides[740:]
    yield "swapped", trr_frame(3, 0, "x", swap=True)
    yield "long_frames", runs(_with_zeros(trr_frame(5600, 0, "xv"), 12 * 5600 * 2) * 2)


def netcdf_seeds():
    """Real files; all classic versions in both precisions, restarts, streams, counts beyond the file, cut ones."""
    for name in ("ace_mbondi3.nc", "cpptraj_traj.nc"):
        yield name.partition(".")[0], (Path(datafiles.NCDF).parent / name).read_bytes()
    random = np.random.default_rng(9)
    positions = random.normal(0, 9, (4, 7, 3)).astype(np.float32)
    cells = np.stack([np.diag([30.0, 31, 32])] * 4).astype(np.float32)
    for number, form in ((1, "NETCDF3_CLASSIC"), (2, "NETCDF3_64BIT_OFFSET"), (5, "NETCDF3_64BIT_DATA")):
        for kind in ("f4", "f8"):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "made.nc"
                write_netcdf(
                    path, positions, velocities=positions, times=np.arange(4.0), cells=cells, form=form, dtype=kind
                )
                data = path.read_bytes()
            yield f"cdf{number}_{kind}", data
    with tempfile.TemporaryDirectory() as folder:
        write_netcdf(Path(folder) / "made.nc", np.zeros((2, 5600, 3), np.float32))
        yield "long_frames", runs((Path(folder) / "made.nc").read_bytes())
    yield "stream", data[:4] + b"\xff" * 8 + data[12:]
    yield "more_records_than_file", data[:4] + bytes(7) + b"\x09" + data[12:]
    yield "cut", data[:-13]
    yield "header_alone", data[:300]
    yield "other_convention", data.replace(b"AMBER", b"CF-18")


def history_seeds():
    """All keys, both ends of lines, compressed and unsorted files, counts beyond the file and below, cut ones."""
    random = np.random.default_rng(11)
    positions, cells = random.normal(0, 9, (3, 4, 3)), np.stack([np.diag([30.0, 31, 32])] * 3)
    order = np.array([[0, 1, 2, 3], [2, 0, 3, 1], [3, 2, 1, 0]])
    whole = history_bytes(positions, velocities=positions * 1e-3, forces=positions * 1e12, cells=cells)
    yield "three_levels", whole
    yield "positions", history_bytes(positions)
    yield "windows", history_bytes(positions, velocities=positions, end=b"\r\n")
    yield "compressed", history_bytes(positions, cells=cells, compressed=True)
    yield "compressed_windows", history_bytes(positions, compressed=True, end=b"\r\n")
    yield "unsorted", history_bytes(positions, order=order)
    yield "unsorted_behind", history_bytes(positions, order=order[[0, 0, 1]])
    yield "not_counted", history_bytes(positions, counted=0)
    yield "counted_short", history_bytes(positions, counted=2)
    yield "counted_long", history_bytes(positions, counted=9)
    yield "older_heads", history_bytes(positions, cells=cells, heads=DL_POLY_3)
    yield "free_heads", history_bytes(positions, heads=" {step} {atoms} {keytrj} {imcon} {between} {time}")
    yield "cut", whole[:-100]
    yield "head_alone", whole[:146]
    yield "asterisks", whole.replace(b"0.001", b"*****")
    yield "no_time", whole.replace(b"0.000000\n", b"        \n")


def config_seeds():
    """Real files; free format with and without indices, in any order, of every shape; records of one width."""
    for name in ("CONFIG_minimal", "CONFIG_order"):
        yield name.lower(), (Path(datafiles.__file__).parent / "data/dlpoly" / name).read_bytes()
    cell = "12. 0 0\n0 12. 0\n0 0 12.\n"
    for imcon in range(8):
        body = "".join(f"A{i} {(i * 3) % 5 + 1}\n{i} .5 -1d0\n" for i in range(5))
        yield f"imcon_{imcon}", f"title\n0 {imcon}\n{cell if imcon else ''}{body}".encode("ascii")
    lines = ["a title", f"{1:10d}{1:10d}{4:10d}{7:10d}{0.001:16.7E}{0.5:16.7E}"]
    lines += [f"{x:20.10f}{y:20.10f}{z:20.10f}" for x, y, z in 9 * np.eye(3)]
    for i in (1, 2, 3, 4):
        lines += [f"Na+     {i:10d}", f"{i + 0.5:16.9f}    " * 3, f"{i / 100:20.10E}" * 3]
    fixed = "".join(f"{line:72.72s}\n" for line in lines).encode("ascii")
    yield "fixed", fixed
    yield "fixed_windows", fixed.replace(b"\n", b"\r\n")
    yield (
        "fixed_swapped",
        fixed.replace(b"Na+              1", b"Na+              9").replace(b"         2", b"         1"),
    )
    yield "fixed_cut", fixed[:-40]
    yield "no_end", fixed.replace(b" ", b"")[:-1]


def xtc_coordinate_seeds():
    """Precision, then for each atom: shift, 32 if from the atom before, three numbers of eight bits."""
    random = np.random.default_rng(8)

    def atoms(how):
        return np.column_stack([how, random.integers(0, 256, (len(how), 3))]).astype(np.uint8).tobytes()

    yield "chain", b"\x04" + atoms(np.full(60, 32))
    yield "water", b"\x04" + atoms(np.tile([6, 32, 32], 20))
    yield "chain_of_all_widths", b"\x07" + atoms(32 + random.integers(0, 18, 80))
    yield "gas", b"\x02" + atoms(np.full(40, 9))
    yield "separate_integers", b"\x01" + atoms(np.full(20, 22))
    yield "too_far_apart", b"\x01" + atoms(np.full(20, 24))
    yield "plain", b"\x03" + atoms(np.full(9, 4))
    yield "all_in_one_place", b"\x05" + bytes(4 * 30)


def dcd(n_atoms, n_frames, order="<", wide=False, magic=b"CORD", cell=None, free=None, four=False, version=24):
    """A DCD file of any variant, record by record."""

    def record(payload):
        marker = struct.pack(order + ("q" if wide else "i"), len(payload))
        return marker + payload + marker

    control = [n_frames, 100, 10, 0, 0, 0, 0, 0, n_atoms - len(free) if free else 0]
    head = struct.pack(f"{order}9i", *control)
    if version:
        head += struct.pack(f"{order}f10i", 0.5, cell is not None, four, *[0] * 7, version)
    else:
        head += struct.pack(f"{order}d9i", 0.5, *[0] * 9)
    out = record(magic + head)
    out += record(struct.pack(f"{order}i", 1) + b"REMARKS made by hand".ljust(80))
    out += record(struct.pack(f"{order}i", n_atoms))
    if free:
        out += record(struct.pack(f"{order}{len(free)}i", *[atom + 1 for atom in free]))
    for frame in range(n_frames):
        if cell is not None:
            out += record(struct.pack(f"{order}6d", *cell))
        stored = free if free and frame else range(n_atoms)
        for axis in range(4 if four else 3):
            values = [0.0 if n_atoms > 1000 else 100 * frame + atom + axis / 4 for atom in stored]
            out += record(struct.pack(f"{order}{len(values)}f", *values))
    return out


def dcd_seeds():
    """Real CHARMM and NAMD files cut; every variant by hand; frames so long that parts of planes are read."""
    cell = (50.0, 90.0, 60.0, 90.0, 90.0, 70.0)
    yield "charmm", Path(datafiles.COORDINATES_DCD).read_bytes()
    yield "water", Path(datafiles.waterDCD).read_bytes()
    yield "shape_matrix", Path(datafiles.DCD_TRICLINIC).read_bytes()[: 276 + 4680 + 4680]
    yield "protein", cut((datafiles.PSF, datafiles.DCD), ".dcd", 30, 2)
    for order, name in (("<", "little"), (">", "big")):
        for wide in (False, True):
            ending = "_wide" if wide else ""
            yield f"{name}{ending}", dcd(5, 3, order, wide, cell=cell)
            yield f"{name}{ending}_fixed", dcd(6, 3, order, wide, cell=cell, free=[1, 4, 5])
    yield "velocities", dcd(4, 2, magic=b"VELD")
    yield "xplor", dcd(4, 2, version=0)
    yield "xplor_fixed", dcd(4, 3, version=0, free=[0, 2])
    yield "four_dimensional", dcd(3, 2, four=True, cell=cell)
    yield "cosines", dcd(3, 2, cell=(50.0, 0.0, 60.0, 0.1, -0.2, 70.0))
    yield "no_frames", dcd(3, 0)
    yield "cut", dcd(5, 3, cell=cell)[:-7]
    yield "long_frames", runs(dcd(5600, 2, cell=cell))
    yield "long_frames_big_wide", runs(dcd(5600, 2, ">", True))
    yield "long_frames_fixed", runs(dcd(5600, 3, free=[7, 5000]))


def index_seeds():
    """True indices, of a file that has grown, with changes, of other frames, and none: see fuzz/src/stored_index.rs."""
    as_it_is, grew, other_frames, checksum = 4, 8, 16, 32
    xtc = made(np.random.default_rng(3).normal(0, 3, (6, 10, 3)), (30, 30, 30), ".xtc")
    trr = b"".join(trr_frame(6, i, "xv") for i in range(4))
    history = dict(classic_seeds())["minimal"]

    def change(place, byte):
        return struct.pack("<HB", place, byte)

    for kind, file in enumerate((xtc, trr, history)):
        head = struct.pack("<H", len(file)) + file
        name = ("xtc", "trr", "history")[kind]
        yield f"true_{name}", bytes([kind]) + head
        yield f"grown_{name}", bytes([kind | grew]) + head
        # number of atoms, size, first byte and number of frames, the width of sizes and one of them
        for place in (28, 32, *range(136, 152, 3), 152, 154):
            yield f"changed_{place}_{name}", bytes([kind]) + head + change(place, 200)
        yield f"wrong_checksum_{name}", bytes([kind | checksum]) + head + change(140, 1)
        yield f"shorter_{name}", bytes([kind]) + head + change(0x8000 | 160, 20)
        frames = struct.pack("<Q", 4) + struct.pack("<4H", 60, 1, 80, 2)
        yield f"other_frames_{name}", bytes([kind | other_frames]) + head + frames
    yield "none", bytes([as_it_is]) + struct.pack("<H", len(xtc)) + xtc + b"KINEMAIX\3\0\0\0XTC" + bytes(150)


def partial_seeds():
    """Empty and small partials of every kind, and counts that nothing can hold."""
    named = b"\x80"
    for width in (1, 3, 4):
        for rows in (0, 1, 3):
            values = np.arange(rows * (1 + width), dtype="<f8")
            yield f"series_{width}_{rows}", named + struct.pack("<QQ", width, rows) + values.tobytes()
        yield f"series_{width}_huge", named + struct.pack("<QQ", width, (1 << 61) + 1) + bytes(64)
    for columns in (2, 3):
        for frames in (0, 2, (1 << 64) - 1):
            values = np.arange(9 * columns if frames else 0, dtype="<f8")
            yield f"moments_{columns}_{frames}", named + struct.pack("<QQ", 9, frames) + values.tobytes()
    for bins, hit in ((40, [3, 39]), (40, range(40)), (100_000, [0, 99_999]), (40, [39, 3])):
        pairs = np.asarray(hit, "<u4").tobytes() if len(hit) < 27 else b""
        counts = np.arange(1, len(hit) + 1, dtype="<u8").tobytes()
        yield f"counts_{bins}_{len(hit)}_{hit[0]}", named + struct.pack("<QQQ", bins, 2, len(hit)) + pairs + counts
    for rows in ([0], [2, 1], [1 << 63, 1 << 63]):
        n = min(sum(rows), 9)
        columns = np.arange(n, dtype="<u4").tobytes() + np.arange(n, dtype="<f8").tobytes()
        head = struct.pack("<QQ", 2, len(rows)) + bytes(8 * len(rows)) + struct.pack(f"<{len(rows)}Q", *rows)
        yield f"lists_{len(rows)}_{n}", named + head + columns
    cell = np.diag([20.0, 20.0, 20.0]).tobytes() + np.diag([0.05, 0.05, 0.05]).tobytes()
    for kind, sum_type in (("jumps", "<u4"), ("displacements", "<f8")):
        for case, frames, last in (("", 5, 19.0), ("_beyond_64_bits", (1 << 64) - 1, 19.0), ("_not_finite", 5, np.nan)):
            rows = [cell + np.full(9, x, "<f4").tobytes() for x in (1.0, last)]
            sums = np.arange(3 * 9, dtype=sum_type).tobytes()
            head = struct.pack("<QQQQQd", 9, frames, 2, 0, 3, 0.25)
            yield f"{kind}{case}", named + head + b"".join(rows) + sums
    for case, last in (("", 2.0), ("_not_finite", np.nan)):
        rows = [np.arange(9, dtype="<f4") ** 2 % 7, np.full(9, last, "<f4")]
        turns = np.eye(3, dtype="<f8").tobytes()
        yield f"rotations{case}", named + struct.pack("<QQ", 9, 1) + b"".join(row.tobytes() for row in rows) + turns
    yield "unnamed", b"\0\6rmsd/1" + struct.pack("<QQ", 1, 0)


def hdf5_head(filters, mask, element, count):
    """The head of an input of decode_hdf5_filters; ids are those of IDS in fuzz/src/hdf5_filters.rs."""
    ids = [1, 2, 3, 6, 32000, 32004, 32008, 32015, 32001]
    out = bytes([len(filters)])
    for number, values in filters:
        out += bytes([ids.index(number), len(values)])
        for value in values:
            out += bytes([value]) if value < 255 else b"\xff" + struct.pack("<I", value)
    return out + struct.pack("<BBH", mask, element, count)


def hdf5_chunk_seeds():
    """Chunks that libhdf5 and its plugins wrote, by every filter; some with one more than once, or with a mask."""
    i = np.arange(90)
    values = (i % 7 * (i % 3) * 37 - 60).astype("<i4")
    cases = {
        "shuffle_gzip_fletcher32": {"shuffle": True, "compression": "gzip", "fletcher32": True},
        "gzip": {"compression": "gzip"},
        "lzf": {"compression": "lzf"},
        "lz4": dict(hdf5plugin.LZ4()),
        "lz4_blocks": dict(hdf5plugin.LZ4(nbytes=100)),
        "zstd": dict(hdf5plugin.Zstd()),
        "bitshuffle": dict(hdf5plugin.Bitshuffle(cname="none")),
        "bitshuffle_lz4": dict(hdf5plugin.Bitshuffle(nelems=32, cname="lz4")),
        "bitshuffle_zstd": dict(hdf5plugin.Bitshuffle(nelems=32, cname="zstd")),
        "scaleoffset": {"scaleoffset": 0},
        "scaleoffset_gzip": {"scaleoffset": 0, "compression": "gzip"},
    }
    for name, options in cases.items():
        for dtype in ("<i4", ">i2", "<f8"):
            if dtype == "<f8" and "scaleoffset" in options:
                options = {**options, "scaleoffset": 2}
            with h5py.File(f"{name}_{dtype}", "w", driver="core", backing_store=False) as file:
                dataset = file.create_dataset("x", data=values.astype(dtype), chunks=values.shape, **options)
                properties = dataset.id.get_create_plist()
                found = [properties.get_filter(i) for i in range(properties.get_nfilters())]
                mask, stored = dataset.id.read_direct_chunk((0,))
                head = hdf5_head([(one[0], one[2]) for one in found], mask, np.dtype(dtype).itemsize, len(values))
            yield f"{name}_{np.dtype(dtype).name}", head + stored
    yield "no_filter", hdf5_head([], 0, 4, 90) + values.tobytes()
    yield "all_skipped", hdf5_head([(2, (4,)), (1, (6,))], 3, 4, 90) + values.tobytes()
    yield "shuffled_twice", hdf5_head([(2, (4,)), (2, (3,)), (3, ()), (3, ())], 0, 4, 90) + values.tobytes()


def hdf5_raw_seeds():
    """Raw chunks for every compression: random walks, equal bytes, none at all."""
    walk = np.random.default_rng(4).normal(0, 1, 150).cumsum().astype("<f4").tobytes()
    for way in range(7):
        yield f"walk_{way}", bytes([way, 3, 3, 0, 0, 1, 0, 7]) + walk
        yield f"blocks_{way}", bytes([way, 1, 7, 24, 0, 0, 0, 3]) + walk
        yield f"equal_{way}", bytes([way, 9, 11, 0, 1, 1, 1, 7]) + bytes(400)
        yield f"empty_{way}", bytes([way])


def chunk_map_seeds():
    """Chunk maps of six frames of five atoms, with the bytes that they point into."""

    def value(number):
        return bytes([number]) if number < 254 else b"\xff" + struct.pack("<Q", number)

    def seed(kind, dtype, flags, chunk, filters=(), rows=b"", holes=()):
        values = np.arange(90).reshape(6, 5, 3).astype(dtype)
        shape = (6, 15, 1) if flags & 1 else (6, 5, 3)
        values = values.reshape(shape)
        size = chunk or shape
        head = bytes([kind, flags]) + value(6) + value(5) + (b"".join(map(value, chunk)) if chunk else b"") + rows
        grid = list(np.ndindex(*(-(-n // c) for n, c in zip(shape, size, strict=True))))
        places, body = b"", b""
        for number, corner in enumerate(grid):
            part = np.zeros(size, dtype)
            start = [i * c for i, c in zip(corner, size, strict=True)]
            cut = values[tuple(slice(a, a + c) for a, c in zip(start, size, strict=True))]
            part[tuple(slice(0, n) for n in cut.shape)] = cut
            stored = part.tobytes()
            if "shuffle" in filters:
                stored = np.frombuffer(stored, np.uint8).reshape(-1, part.itemsize).T.tobytes()
            if "deflate" in filters:
                stored = zlib.compress(stored)
            places += (value(254) if number in holes else value(len(body))) + value(len(stored)) + b"\0"
            body += stored
        # 254 in one byte says that a chunk is not stored
        return head + bytes([len(grid)]) + places.replace(b"\xff" + struct.pack("<Q", 254), b"\xfe") + body

    yield "contiguous", seed(0, "<f4", 0, None)
    yield "flat", seed(3, ">i2", 1 | 2, (2, 4, 1))
    yield "split", seed(1, ">f4", 2, (4, 2, 2))
    yield "frames", seed(2, "<f8", 2, (1, 5, 3), holes=(2,))
    yield "deflate", seed(0, "<f4", 2 | 8, (2, 5, 3), ("deflate",))
    yield "shuffle", seed(0, "<f4", 2 | 4 | 8, (4, 2, 3), ("shuffle", "deflate"))
    yield "rows", seed(4, "|u1", 2 | 32, (3, 5, 3), rows=bytes([255, 0, 0, 2, 254, 5]))


def classic_seeds():
    """Real HISTORY files of any width, with Windows' line ends, lost and double lines; cut; records of one width."""
    folder = Path(datafiles.__file__).parent / "data/dlpoly"
    real = {
        name: (folder / f"HISTORY{name}").read_bytes() for name in ("_classic", "_minimal", "_minimal_cell", "_order")
    }
    for name, data in real.items():
        yield name.strip("_"), data
    classic = real["_classic"]
    lines = classic.splitlines(keepends=True)
    yield "crlf", classic.replace(b"\n", b"\r\n")
    yield "cut", classic[:-20]
    yield "lost_lines", b"".join(lines[:14] + lines[16:])
    yield "double_line", b"".join(lines[:14] + lines[13:])
    yield "other_atoms", classic.replace(b"2001         3", b"2001         2")
    yield (
        "no_cell",
        b"".join(line for line in lines if b".607" not in line).replace(b"   1    0.000500", b"   0    0.000500"),
    )
    yield "stars", classic.replace(b"-1.1677E+01", b"***********")
    yield (
        "unsorted",
        classic.replace(b"B                1", b"B                3").replace(
            b"A                1", b"A                2"
        ),
    )
    fixed = (folder / "HISTORY").read_bytes().splitlines()
    few = [fixed[0], fixed[1].replace(b"216", b"  2"), fixed[2].replace(b"216", b"  2"), *fixed[3:14]]
    yield "fixed", b"".join(line + b"\n" for line in few + few[2:])


def unformatted_seeds():
    """Unformatted HISTORY files: all layouts of records, with and without a cell; cut, of other numbers of atoms."""
    vectors = [10.0**i * np.random.default_rng(i).normal(size=(3, 4, 3)) for i in range(3)]
    cells = np.array([20 * np.eye(3)] * 3)
    yield "plain", (plain := unformatted_bytes(vectors[:1]))
    yield "forces_big", unformatted_bytes(vectors, cells=cells, byte_order=">")
    yield "velocities_wide", unformatted_bytes(vectors[:2], cells=cells, imcon=6, marker="i8")
    yield "wide_big", unformatted_bytes(vectors[:1], byte_order=">", marker="i8")
    yield "cut", plain[:-20]
    yield "other_atoms", plain.replace(np.float64(4).tobytes(), np.float64(5).tobytes(), 1)
    yield "no_frame", unformatted_bytes([vectors[0][:0]])
    # of which parts are read
    nothing = {"names": ["\0" * 8] * 5600, "masses": np.zeros(5600)}
    yield "long_frames", runs(unformatted_bytes([np.zeros((2, 5600, 3))], **nothing))
    yield "long_frames_wide", runs(unformatted_bytes([np.zeros((1, 5600, 3))], byte_order=">", marker="i8", **nothing))


def text_seeds():
    """Numbers as Fortran and others write them."""
    yield "reals", b"  1.234567890    -0.1234567890E-01   0.1-102 1D5 .5 5. +7q3 NaN -Infinity ********\n1 2 3\r\n"
    yield (
        "long",
        b"123456789012345678901234567890.5 0.00000000000000000000000001 9007199254740993 2.2250738585072011e-308\n",
    )
    yield "integers", b"0 -9223372036854775808 9223372036854775807 9223372036854775808 +00012 1_0\n" * 20
    for number, value in enumerate([0.1, -9999999999.5, 999999.99995, 5e-324, 1.7976931348623157e308, -0.0, np.inf]):
        yield f"value_{number}", struct.pack("<d", value) + bytes([12, 6]) + b"name"


def grown_seeds():
    """Files of each format that can be extended, each after the format's number in fuzz/src/append.rs."""
    for number, kind in enumerate(("xtc", "trr", "dcd", "netcdf", "history")):
        for path in _made_for(kind):
            yield f"{kind}_{path.name}", bytes([number]) + path.read_bytes()


def snapshot_seeds():
    """Files, and changes of what a catalogue keeps of them."""
    for kind in ("xtc", "trr", "dcd", "netcdf", "history"):
        for path in [path for path in _made_for(kind) if path.stat().st_size < 4000][:5]:
            data = path.read_bytes()
            changes = struct.pack("<HB", 30, 1) + struct.pack("<HB", 0x8000 | 200, 3)
            yield f"{kind}_{path.name}", struct.pack("<H", len(data)) + data
            yield f"{kind}_{path.name}_changed", struct.pack("<H", len(data)) + data + changes


def _made_for(kind):
    return sorted(path for path in (CORPUS / f"scan_{kind}").iterdir() if not path.name.startswith("learnt_"))


def peer_seeds():
    """Acts of fuzz/src/peers.rs, after a byte that says how far the peers keep to the protocol."""

    def acts(*all_of_them):
        return b"".join(bytes([what, len(said)]) + said for what, said in all_of_them)

    sealed, raw, hear, end = 4, 0, 2, 3
    ask = struct.pack("<QQ", 0, 1 << 40) + b"data"
    given = bytes([0]) + struct.pack("<QQ", 40, 40)
    yield "server_nothing", bytes([0])
    yield "server_other_words", bytes([0]) + acts((raw, b"GET / HTTP/1.0" + bytes(26)), (hear, bytes(40)))
    yield "server_wrong_proof", bytes([0]) + acts((raw, b"KINEMAP3" + bytes(48)), (hear, bytes(57)))
    yield "server_older", bytes([0]) + acts((raw, b"KINEMAP2" + bytes(32)), (hear, bytes(57)))
    yield "server_no_first_message", bytes([2]) + acts((hear, bytes(57)), (raw, bytes(20)))
    yield "server_request", bytes([6]) + acts((sealed, ask), (hear, bytes(53)), (hear, bytes(200)), (sealed, ask))
    yield (
        "server_names",
        bytes([6]) + acts((sealed, ask[:16] + b"0" * 32 + b"/a"), (hear, bytes(53)), (sealed, ask[:16] + b"#")),
    )
    yield "server_short_request", bytes([6]) + acts((sealed, ask[:9]))
    yield "server_long_request", bytes([6]) + acts((1, ask), (raw, bytes(200)), (end, b"\1"))
    yield "client_nothing", bytes([1])
    yield "client_refused", bytes([3]) + acts((raw, b"KINEMAP3" + bytes(49)))
    yield "client_older", bytes([3]) + acts((raw, b"KINEMAP2" + bytes(49)))
    yield "client_given", bytes([7]) + acts((sealed, given), (sealed, bytes(40)))
    yield (
        "client_given_more",
        bytes([7]) + acts((sealed, bytes([0]) + struct.pack("<QQ", 4000, 4000)), (sealed, bytes(200))),
    )
    yield "client_absent", bytes([7]) + acts((sealed, b"\1"))
    yield "client_failed", bytes([7]) + acts((sealed, b"\2it is broken"))
    yield "client_unsealed", bytes([7]) + acts((raw, struct.pack("<I", 17) + bytes(33)))
    yield "client_too_long", bytes([7]) + acts((raw, b"\xff" * 4), (end, b""))


def g96_seeds():
    """Frames of GROMOS-96 text with every choice of blocks."""
    title, step = "TITLE\na title\nEND\n", "TIMESTEP\n{:15d}{:15.6f}\nEND\n"
    vectors = "".join(f"{atom:15.9f}{-atom / 3:15.9f}{1e3 * atom:15.9f}\n" for atom in range(3))
    named = "".join(f"    1 SOL   OW   {i:7d}{line}\n" for i, line in enumerate(vectors.splitlines(), 1))
    positions, velocities = f"POSITIONRED\n{vectors}END\n", f"VELOCITYRED\n{vectors}END\n"
    small, whole = (f"BOX\n{''.join(f'{8 - i / 4:15.9f}' for i in range(n))}\nEND\n" for n in (3, 9))

    def frames(*blocks, n=3):
        return "".join("".join(blocks).replace(step, step.format(7 * i, i / 4)) for i in range(n)).encode()

    yield "positions", frames(title, step, positions, small)
    yield "velocities", frames(title, step, positions, velocities, whole)
    yield "named", frames(title, f"POSITION\n{named}END\n", whole, n=1)
    yield "no_cell", frames(step, positions, velocities)
    yield "some_velocities", frames(step, positions, velocities, whole, step, positions, whole)
    yield "comments", frames(step, positions.replace("\n", "\n# 1\n", 1), small)
    yield "windows", frames(title, step, positions, small).replace(b"\n", b"\r\n")
    yield "cut", frames(title, step, positions, small)[:-30]
    yield "any_title", frames("TITLE\n\0\xffTITLE\nTIMESTEP\nEND\n", step, positions, small)


def main():
    """Writes all seeds and says how many bytes they are."""
    for name, data in xtc_seeds():
        put(("scan_xtc", "decode_xtc"), name, data)
        if name in ("protein", "widths", "wide", "separate", "magic_2023", "nine_atoms"):
            put(("roundtrip_xtc",), name, data)
    for name, data in xtc_coordinate_seeds():
        put(("roundtrip_xtc",), name, data)
    for name, data in trr_seeds():
        put(("scan_trr", "decode_trr", "roundtrip_trr"), name, data)
    for name, data in g96_seeds():
        put(("scan_g96", "decode_g96", "roundtrip_g96"), name, data)
    for name, data in classic_seeds():
        put(("scan_history", "decode_history"), f"classic_{name}", data)
    for name, data in unformatted_seeds():
        put(("scan_history", "decode_history"), f"unformatted_{name}", data)
    for name, data in text_seeds():
        put(("text_numbers",), name, data)
    for name, data in netcdf_seeds():
        put(("scan_netcdf", "decode_netcdf", "roundtrip_netcdf"), name, data)
    for name, data in history_seeds():
        put(("scan_history", "decode_history", "roundtrip_history"), name, data)
    for name, data in config_seeds():
        put(("scan_config", "decode_config", "roundtrip_config"), name, data)
    for name, data in dcd_seeds():
        put(("scan_dcd", "decode_dcd", "roundtrip_dcd"), name, data)
    for name, data in index_seeds():
        put(("load_index",), name, data)
    for name, data in partial_seeds():
        put(("partials",), name, data)
    for name, data in hdf5_chunk_seeds():
        put(("decode_hdf5_filters",), name, data)
    for name, data in chunk_map_seeds():
        put(("decode_hdf5_chunks",), name, data)
    for name, data in hdf5_raw_seeds():
        put(("roundtrip_hdf5_filters",), name, data)
    for name, data in grown_seeds():
        put(("append",), name, data)
    for name, data in snapshot_seeds():
        put(("snapshot",), name, data)
    for name, data in peer_seeds():
        put(("peers",), name, data)
    print(sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()), "bytes of seeds")


if __name__ == "__main__":
    main()
