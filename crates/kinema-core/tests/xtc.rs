//! XTC against golden values of libmdaxdr, selections against whole frames, and damaged files against panics.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kinema_core::format::xtc::Xtc;
use kinema_core::format::xtc::encode::decode_integers;
use kinema_core::format::{Decoded, Decoder, Format, Request, Scan, ScanOptions, Scratch, SegmentBytes, Wanted};
use kinema_core::frame::{Block, Fields, Scales};
use kinema_core::index::Index;
use kinema_core::selection::AtomSelection;
use kinema_core::source::{FileSource, MemorySource, ReadLog, Source};
use kinema_core::trajectory::{OpenOptions, Trajectory};
use kinema_core::{Error, ErrorKind};

/// Every packing: plain floats, narrow, wide and separate full coordinates, wide differences, both magic numbers.
pub const SMALL_FILES: [&str; 13] = [
    "atoms_1",
    "atoms_9",
    "atoms_10",
    "precisions",
    "water",
    "gas",
    "mixed",
    "mixed_2023",
    "one_point",
    "wide",
    "separate",
    "wide_small",
    "huge_chain",
];

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

fn small_file(name: &str) -> Vec<u8> {
    std::fs::read(data().join(format!("xtc/{name}.xtc"))).expect("test data")
}

fn memory(bytes: &[u8]) -> MemorySource {
    MemorySource::new("test.xtc", bytes.to_vec())
}

fn scan(decoder: &dyn Decoder, source: &dyn Source) -> Result<Scan, Error> {
    decoder.scan(source, &ScanOptions { previous: None, workers: 1, progress: &|_| Ok(()), skip_damaged: false })
}

fn opened(source: &dyn Source) -> Result<(Arc<dyn Decoder>, Scan), Error> {
    let decoder = Xtc.open(source)?;
    let scan = scan(&*decoder, source)?;
    Ok((decoder, scan))
}

fn request(atoms: AtomSelection) -> Request {
    Request { fields: Fields::POSITIONS | Fields::CELL | Fields::STEP | Fields::TIME, atoms, scales: Scales::NATIVE }
}

/// Reads some frames as the pipeline does: what `segments` says first, more where `decode` asks for more.
fn read(
    decoder: &dyn Decoder,
    source: &dyn Source,
    index: &Index,
    frames: &[u64],
    request: &Request,
) -> Result<Block, Error> {
    let wanted: Vec<Wanted> =
        frames.iter().enumerate().map(|(row, &frame)| Wanted { frame, row: row as u32 }).collect();
    let mut segments = Vec::new();
    decoder.segments(index, &wanted, request, &mut segments)?;
    let mut block = Block::default();
    block.reset(frames.iter().copied(), request.atoms.len(), request.fields);
    block.positions.fill(f32::NAN);
    let mut scratch = Scratch::default();
    for segment in &segments {
        let mut len = segment.extent.len;
        loop {
            let mut bytes = vec![0; len as usize];
            source.read_exact_at(segment.whole.offset, &mut bytes)?;
            match decoder.decode(
                SegmentBytes { segment, bytes: &bytes, wanted: &wanted, request },
                &mut block.as_mut(),
                &mut scratch,
            )? {
                Decoded::Done => break,
                Decoded::NeedsPrefix(more) => {
                    assert!(more > len && more <= segment.whole.len, "{len} bytes given, {more} asked for");
                    len = more;
                }
            }
        }
    }
    Ok(block)
}

fn read_all(source: &dyn Source) -> Result<(Arc<dyn Decoder>, Scan, Block), Error> {
    let (decoder, scan) = opened(source)?;
    let frames: Vec<u64> = (0..scan.index.n_frames()).collect();
    let request = request(AtomSelection::all(decoder.header().n_atoms));
    let block = read(&*decoder, source, &scan.index, &frames, &request)?;
    Ok((decoder, scan, block))
}

/// CRC-32 as in zlib, of little-endian words.
fn crc32(values: impl IntoIterator<Item = f32>) -> u32 {
    let table: [u32; 256] = std::array::from_fn(|i| {
        (0..8).fold(i as u32, |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 })
    });
    let bytes = values.into_iter().flat_map(f32::to_le_bytes);
    !bytes.fold(!0, |crc, byte| (crc >> 8) ^ table[((crc ^ u32::from(byte)) & 255) as usize])
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Marsaglia's xorshift64: the same numbers on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Compares every frame named in a golden list with the frames of the file `path_of(label)`.
fn compare_with_golden(list: &str, path_of: impl Fn(&str) -> PathBuf) {
    let text = std::fs::read_to_string(data().join(list)).expect("test data");
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
    let mut labels: Vec<&str> = lines.iter().map(|line| line[0]).collect();
    labels.dedup();
    for label in labels {
        let source = FileSource::open(&path_of(label)).expect("test data");
        let (decoder, scan, block) = read_all(&source).expect("a sound file");
        assert!(scan.truncation.is_none());
        let expected: Vec<_> = lines.iter().filter(|line| line[0] == label).collect();
        assert_eq!(expected.len() as u64, scan.index.n_frames(), "{label}");
        let width = decoder.header().n_atoms as usize * 3;
        for (i, line) in expected.into_iter().enumerate() {
            let found = [
                label.to_owned(),
                i.to_string(),
                decoder.header().n_atoms.to_string(),
                block.stamps[i].step.to_string(),
                format!("{:08x}", (block.stamps[i].time as f32).to_bits()),
                format!("{:08x}", crc32(block.stamps[i].cell.into_iter().flatten().map(|value| value as f32))),
                format!("{:08x}", crc32(block.positions[i * width..][..width].iter().copied())),
            ];
            assert_eq!(line[..], found, "{label} frame {i}");
            assert_eq!(scan.index.step(i as u64), Some(block.stamps[i].step));
            assert_eq!(scan.index.time(i as u64), Some(block.stamps[i].time));
        }
    }
}

#[test]
fn small_files_equal_libmdaxdr_to_the_bit() {
    compare_with_golden("xtc_golden.txt", |label| data().join(format!("xtc/{label}.xtc")));
}

/// The files are not in this repository: `MDANALYSIS_TESTS_DATA` names the folder `data` of MDAnalysisTests.
#[test]
#[ignore = "needs MDAnalysisTests; set MDANALYSIS_TESTS_DATA and run with --ignored"]
fn files_of_mdanalysis_equal_libmdaxdr_to_the_bit() {
    let folder = std::env::var_os("MDANALYSIS_TESTS_DATA").expect("MDANALYSIS_TESTS_DATA");
    compare_with_golden("xtc_golden_mdanalysis.txt", |label| Path::new(&folder).join(label));
}

#[test]
fn scales_multiply_once_and_in_single_precision() {
    for name in SMALL_FILES {
        let source = memory(&small_file(name));
        let (decoder, scan, native) = read_all(&source).expect("a sound file");
        let frames = native.frames.clone();
        let mut wanted = request(AtomSelection::all(decoder.header().n_atoms));
        wanted.scales = Scales { time: 1000.0, ..Xtc.info().scales };
        let scaled = read(&*decoder, &source, &scan.index, &frames, &wanted).expect("a sound file");
        let by_ten: Vec<f32> = native.positions.iter().map(|x| x * 10.0).collect();
        assert_eq!(bits(&scaled.positions), bits(&by_ten), "{name}");
        for (scaled, native) in scaled.stamps.iter().zip(&native.stamps) {
            assert_eq!(scaled.time, native.time * 1000.0);
            assert_eq!(scaled.cell[1][0], native.cell[1][0] * 10.0);
        }
    }
}

#[test]
fn selected_atoms_are_a_slice_of_all() {
    let mut random = Random(20_261_121);
    for name in SMALL_FILES {
        let source = memory(&small_file(name));
        let (decoder, scan, all) = read_all(&source).expect("a sound file");
        let n_atoms = decoder.header().n_atoms;
        for round in 0..300 {
            let mut atoms: Vec<u32> = match round {
                0 => vec![],
                1 => vec![n_atoms - 1],
                2 => vec![0],
                3 => (0..n_atoms).step_by(10).collect(),
                _ => {
                    let (from, share) = (random.below(n_atoms as usize) as u32, 1 + random.below(30));
                    let to = from + random.below((n_atoms - from) as usize + 1) as u32;
                    (from..to).filter(|_| random.below(share) == 0).collect()
                }
            };
            atoms.dedup();
            let frames = [random.below(all.rows()) as u64];
            let wanted = request(AtomSelection::from_sorted(atoms.clone(), n_atoms).expect("sorted"));
            let part = read(&*decoder, &source, &scan.index, &frames, &wanted).expect("a sound file");
            let whole = all.view().positions_of(frames[0] as usize);
            let slice: Vec<f32> = atoms.iter().flat_map(|&a| whole[a as usize * 3..][..3].to_vec()).collect();
            assert_eq!(bits(&part.positions), bits(&slice), "{name} frame {frames:?} atoms {atoms:?}");
        }
    }
}

#[test]
fn a_prefix_of_a_frame_is_decoded_or_asks_for_more() {
    for name in SMALL_FILES {
        let bytes = small_file(name);
        let source = memory(&bytes);
        let (decoder, scan, all) = read_all(&source).expect("a sound file");
        let n_atoms = decoder.header().n_atoms;
        let wanted = [Wanted { frame: 0, row: 0 }];
        for last in [0, n_atoms / 3, n_atoms - 1] {
            let request = request(AtomSelection::from_sorted(vec![last], n_atoms).expect("sorted"));
            let mut segments = Vec::new();
            decoder.segments(&scan.index, &wanted, &request, &mut segments).expect("a sound index");
            let whole = segments[0].whole.len as usize;
            let mut block = Block::default();
            block.reset([0], 1, request.fields);
            let mut done = false;
            for end in 0..=whole {
                let decoded = decoder
                    .decode(
                        SegmentBytes {
                            segment: &segments[0],
                            bytes: &bytes[..end],
                            wanted: &wanted,
                            request: &request,
                        },
                        &mut block.as_mut(),
                        &mut Scratch::default(),
                    )
                    .expect("no error from a prefix of a sound frame");
                match decoded {
                    Decoded::NeedsPrefix(n) => assert!(!done && n > end as u64 && n <= whole as u64),
                    Decoded::Done => {
                        done = true;
                        let expected = &all.positions[last as usize * 3..][..3];
                        assert_eq!(bits(&block.positions), bits(expected), "{name} atom {last}, {end} bytes");
                    }
                }
            }
            assert!(done, "{name} atom {last}");
        }
    }
}

#[test]
fn a_block_for_other_atoms_and_atoms_of_another_file_are_refused() {
    let source = memory(&small_file("water"));
    let (decoder, scan) = opened(&source).expect("sound headers");
    let n_atoms = decoder.header().n_atoms;
    let wanted = [Wanted { frame: 0, row: 0 }];
    for (of, width, is_refused) in [(n_atoms, 2, false), (n_atoms, 1, true), (n_atoms, 3, true), (n_atoms + 1, 2, true)]
    {
        let request = request(AtomSelection::from_sorted(vec![1, 5], of).expect("two atoms"));
        let mut segments = Vec::new();
        decoder.segments(&scan.index, &wanted, &request, &mut segments).expect("in the index");
        let mut bytes = vec![0; segments[0].whole.len as usize];
        source.read_exact_at(segments[0].whole.offset, &mut bytes).expect("in memory");
        let mut block = Block::default();
        block.reset([0], width, request.fields);
        let mut scratch = Scratch::default();
        let given = SegmentBytes { segment: &segments[0], bytes: &bytes, wanted: &wanted, request: &request };
        let decoded = decoder.decode(given, &mut block.as_mut(), &mut scratch);
        let error = decoded.err().map(|error| (error.kind(), error.to_string()));
        let expected = "the block is not made for this selection of atoms";
        assert_eq!(error.is_some(), is_refused, "{of} atoms, {width} in the block");
        assert!(error.is_none_or(|(kind, text)| kind == ErrorKind::Internal && text.contains(expected)));
    }
}

#[test]
fn without_positions_only_headers_are_read() {
    let log = ReadLog::default();
    let source = memory(&small_file("mixed")).recorded(&log);
    let (decoder, scan) = opened(&source).expect("a sound file");
    log.take_extents();
    let mut wanted = request(AtomSelection::all(decoder.header().n_atoms));
    wanted.fields = Fields::TIME | Fields::CELL;
    let block = read(&*decoder, &source, &scan.index, &[2, 3], &wanted).expect("a sound file");
    let times = block.stamps.iter().map(|stamp| stamp.time);
    assert!(times.eq([f64::from(0.2_f32), f64::from(0.3_f32)]));
    let reads = log.take_extents();
    assert!(reads.len() == 2 && reads.iter().all(|extent| extent.len <= 96), "{reads:?}");
}

#[test]
fn a_selection_at_the_front_reads_the_front() {
    let source = memory(&small_file("mixed"));
    let (decoder, scan) = opened(&source).expect("a sound file");
    let front = request(AtomSelection::from_sorted((0..20).collect(), decoder.header().n_atoms).expect("sorted"));
    let mut segments = Vec::new();
    decoder.segments(&scan.index, &[Wanted { frame: 1, row: 0 }], &front, &mut segments).expect("a sound index");
    assert!(segments[0].extent.len < segments[0].whole.len / 3, "{segments:?}");
}

#[test]
fn a_file_cut_at_any_byte_keeps_its_complete_frames() {
    for name in ["atoms_9", "atoms_10", "one_point", "mixed_2023"] {
        let bytes = small_file(name);
        let (_, whole, all) = read_all(&memory(&bytes)).expect("a sound file");
        let ends: Vec<usize> = (0..whole.index.n_frames()).map(|i| whole.index.extent(i).end() as usize).collect();
        let header = if name == "atoms_9" {
            56
        } else if name == "mixed_2023" {
            96
        } else {
            92
        };
        for cut in 0..bytes.len() {
            let source = memory(&bytes[..cut]);
            if cut < header {
                let error = Xtc.open(&source).err().expect("no header");
                assert_eq!((error.kind(), error.frame()), (ErrorKind::Truncated, Some(0)), "{name} cut at {cut}");
                continue;
            }
            let (_, scan, block) = read_all(&source).expect("complete frames are sound");
            let complete = ends.iter().filter(|&&end| end <= cut).count();
            assert_eq!(block.rows(), complete, "{name} cut at {cut}");
            assert_eq!(bits(&block.positions), bits(&all.positions[..block.positions.len()]));
            match scan.truncation {
                None => assert!(ends.contains(&cut), "{name} cut at {cut}"),
                Some(error) => {
                    let start = complete.checked_sub(1).map_or(0, |last| ends[last]) as u64;
                    assert_eq!(error.kind(), ErrorKind::Truncated);
                    assert_eq!((error.frame(), error.offset()), (Some(complete as u64), Some(start)));
                }
            }
        }
    }
}

#[test]
fn garbage_in_the_middle_is_corrupt_and_has_its_place() {
    let bytes = small_file("mixed");
    let (decoder, scan, _) = read_all(&memory(&bytes)).expect("a sound file");
    let frame = scan.index.extent(2).offset as usize;
    for (at, word) in [(0, 7_i32), (4, 361), (52, 361), (88, -4)] {
        let mut broken = bytes.clone();
        broken[frame + at..][..4].copy_from_slice(&word.to_be_bytes());
        let error = opened(&memory(&broken)).err().expect("refused by the scan");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert_eq!((error.frame(), error.offset()), (Some(2), Some((frame + at) as u64)), "{error}");
    }
    // damage that a scan does not look at is found when the frame is decoded
    let nan = f32::NAN.to_bits() as i32;
    let high = i32::MAX;
    for (at, word, place) in [(56, 0, 56), (56, nan, 56), (60, high, 60), (84, 74, 84), (84, -1, 84), (84, high, 84)] {
        let mut broken = bytes.clone();
        broken[frame + at..][..4].copy_from_slice(&word.to_be_bytes());
        let source = memory(&broken);
        let wanted = request(AtomSelection::all(decoder.header().n_atoms));
        let block = read(&*decoder, &source, &scan.index, &[1, 2], &wanted);
        let error = block.map(|_| ()).expect_err("refused by the decoder");
        assert_eq!(
            (error.kind(), error.frame(), error.format()),
            (ErrorKind::Corrupt, Some(2), Some("XTC")),
            "{error}"
        );
        assert!(error.offset() >= Some((frame + place) as u64), "{error}");
    }
}

/// Reads some atoms of frame 0 of `bytes`, whose sound frames have the same places.
fn first_frame(sound: &[u8], bytes: &[u8], atoms: AtomSelection) -> Result<(), Error> {
    let (decoder, scan) = opened(&memory(sound)).expect("a sound file");
    read(&*decoder, &memory(bytes), &scan.index, &[0], &request(atoms)).map(|_| ())
}

#[test]
fn decoding_ends_at_the_stated_byte() {
    for name in ["mixed", "mixed_2023", "water", "gas", "separate", "wide", "wide_small", "huge_chain"] {
        let sound = small_file(name);
        let long = sound[2..4] == [0x07, 0xe7];
        let word = if long { 92 } else { 88 };
        let stated = u32::from_be_bytes(sound[word..word + 4].try_into().expect("four bytes"));
        let n_atoms = u32::from_be_bytes(sound[4..8].try_into().expect("four bytes"));
        // within the padding, so that the frame is as long as before
        let (first, last) = ((stated - 1) / 4 * 4 + 1, stated.next_multiple_of(4));
        for other in (first..=last).filter(|&other| other != stated) {
            let mut bytes = sound.clone();
            bytes[word..word + 4].copy_from_slice(&other.to_be_bytes());
            let of_last = AtomSelection::from_sorted(vec![n_atoms - 1], n_atoms).expect("sorted");
            for atoms in [AtomSelection::all(n_atoms), of_last] {
                let error = first_frame(&sound, &bytes, atoms).expect_err("another end");
                assert_eq!((error.kind(), error.frame()), (ErrorKind::Corrupt, Some(0)), "{name}: {error}");
                if other > stated {
                    let what = format!("wrong length of the compressed coordinates, expected {other}, found {stated}");
                    assert_eq!(error.what(), what, "{name}");
                }
            }
            // the end is not decoded
            let of_first = AtomSelection::from_sorted(vec![0], n_atoms).expect("sorted");
            first_frame(&sound, &bytes, of_first).expect("the first atom is sound");
        }
    }
}

#[test]
fn both_decoders_find_the_same_faults() {
    let mut random = Random(5);
    let mut found = std::collections::BTreeMap::new();
    for name in ["mixed", "mixed_2023", "water", "gas", "wide", "separate", "wide_small", "huge_chain"] {
        let sound = small_file(name);
        let (_, scan) = opened(&memory(&sound)).expect("a sound file");
        let len = scan.index.extent(0).len as usize;
        let n_atoms = u32::from_be_bytes(sound[4..8].try_into().expect("four bytes"));
        for round in 0..300 {
            let mut bytes = sound.clone();
            let at = 96 + random.below(len - 96 - 64);
            match round % 4 {
                0 => bytes[at] ^= 1 << random.below(8),
                1 => bytes[at..at + 4].fill(0xff),
                2 => bytes[at..at + 64].fill_with(|| random.next() as u8),
                _ => bytes[at..at + 64].fill(0),
            }
            let as_floats = first_frame(&sound, &bytes, AtomSelection::all(n_atoms)).map_err(|error| {
                let known = error.what().split_once(',').map_or(error.what(), |(what, _)| what);
                *found.entry(known.split(" of atom ").last().unwrap_or(known).to_owned()).or_insert(0) += 1;
                (error.what().to_owned(), error.offset())
            });
            let all = AtomSelection::all(n_atoms);
            let as_integers = decode_integers(&bytes[..len], 0, &all, &mut Vec::new(), &mut Vec::new());
            let as_integers = as_integers.map(|_| ()).map_err(|error| (error.what().to_owned(), error.offset()));
            assert_eq!(as_floats, as_integers, "{name}, round {round}");
        }
    }
    let n_found = |what: &str| found.iter().filter(|(known, _)| known.contains(what)).map(|(_, n)| n).sum::<i32>();
    for what in ["range of the frame", "a digit of a small difference", "wrong length", "end early", "too long"] {
        assert!(n_found(what) > 0, "{what}: {found:?}");
    }
}

#[test]
fn other_formats_are_refused_by_name() {
    let mut bytes = small_file("atoms_10");
    assert!(Xtc.sniff(&bytes) && Xtc.sniff(&small_file("mixed_2023")) && Xtc.sniff(&bytes[..20]));
    bytes[..4].copy_from_slice(&1993_i32.to_be_bytes());
    let error = Xtc.open(&memory(&bytes)).err().expect("TRR");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("TRR") && !Xtc.sniff(&bytes), "{error}");
}

/// Any bytes give an error or a result, with work in proportion to their number.
fn survives(bytes: &[u8], random: &mut Random) {
    let source = memory(bytes);
    let Ok(decoder) = Xtc.open(&source) else { return };
    let Ok(found) = scan(&*decoder, &source) else { return };
    let n_atoms = decoder.header().n_atoms;
    for frame in 0..found.index.n_frames() {
        // an atom takes two bits or more, so that there is no room for more in a complete frame
        assert!(u64::from(n_atoms) <= 4 * bytes.len() as u64);
        let some = AtomSelection::from_sorted((0..n_atoms).filter(|_| random.below(9) == 0).collect(), n_atoms);
        for atoms in [AtomSelection::all(n_atoms), some.expect("sorted")] {
            if let Err(error) = read(&*decoder, &source, &found.index, &[frame], &request(atoms)) {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                assert!(error.offset() <= Some(bytes.len() as u64), "{error}");
            }
        }
    }
}

#[test]
fn flipped_bits_never_panic() {
    let mut random = Random(7);
    for name in SMALL_FILES {
        let bytes = small_file(name);
        for round in 0..1500 {
            let mut broken = bytes.clone();
            for _ in 0..1 + random.below(3) {
                // every second time in the first header, in which damage does the most harm
                let bit = random.below(8 * if round % 2 == 0 { bytes.len() } else { bytes.len().min(120) });
                broken[bit / 8] ^= 1 << (bit % 8);
            }
            survives(&broken, &mut random);
        }
    }
}

#[test]
fn random_streams_never_panic() {
    let mut random = Random(11);
    for name in ["mixed", "precisions", "wide", "separate", "huge_chain"] {
        let bytes = small_file(name);
        for _ in 0..1000 {
            let mut broken = bytes.clone();
            let from = 60 + random.below(60);
            let to = from + random.below(bytes.len() - from);
            broken[from..to].iter_mut().for_each(|byte| *byte = random.next() as u8);
            survives(&broken, &mut random);
        }
    }
}

#[test]
fn absurd_sizes_never_panic() {
    let mut random = Random(13);
    let absurd = [0, 1, 9, 10, -1, i32::MAX, i32::MIN, 0xff_ffff, 0x100_0000, 298_261_618, 73, 2023, 1995];
    for name in ["atoms_9", "atoms_10", "mixed", "mixed_2023"] {
        let bytes = small_file(name);
        for at in (0..96).step_by(4) {
            for word in absurd {
                let mut broken = bytes.clone();
                broken[at..at + 4].copy_from_slice(&word.to_be_bytes());
                survives(&broken, &mut random);
                // both atom counts alike, so that the first check does not hide the others
                broken[4..8].copy_from_slice(&word.to_be_bytes());
                broken[52..56].copy_from_slice(&word.to_be_bytes());
                survives(&broken, &mut random);
            }
        }
    }
}

#[test]
fn more_atoms_than_the_file_can_hold_are_refused_when_it_is_opened() {
    let path = std::env::temp_dir().join(format!("kinema-claim-{}.xtc", std::process::id()));
    let golden = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/golden/ca.xtc")).unwrap();
    for (n_atoms, refused) in [(1_i32 << 24, false), ((1 << 24) + 1, true), (i32::MAX, true)] {
        let mut bytes = golden.clone();
        bytes[4..8].copy_from_slice(&n_atoms.to_be_bytes());
        bytes[52..56].copy_from_slice(&n_atoms.to_be_bytes());
        // as long as such an atom count lets it be
        bytes[88..92].copy_from_slice(&(n_atoms / 4 + 1).to_be_bytes());
        std::fs::write(&path, &bytes).unwrap();
        let opened = Trajectory::open(vec![path.clone()], OpenOptions::default());
        std::fs::remove_file(&path).unwrap();
        match opened {
            Ok(trajectory) => assert!(!refused && trajectory.n_atoms() == n_atoms as u32),
            Err(error) => assert!(refused && error.kind() == ErrorKind::Truncated, "{error}"),
        }
    }
}
