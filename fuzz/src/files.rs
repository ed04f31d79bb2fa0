//! Bytes as a trajectory file: scanned in every way, decoded whole and in part.
//!
//! It knows no format's bytes. Laws: no panic; no `Internal` error; nothing large is allocated for a small file; all
//! scans agree; a selection is a slice of the whole.

use std::sync::Arc;

use kinema_core::format::{
    Arrangement, Decoded, Decoder, Format, Request, Scan, ScanOptions, Scratch, Segment, SegmentBytes, Wanted, detect,
    dlpoly, xtc,
};
use kinema_core::frame::{Block, Fields, Scales};
use kinema_core::index::{AtomCheckpoints, Index, TableIndex};
use kinema_core::selection::AtomSelection;
use kinema_core::source::{Gather, MemorySource, Source};
use kinema_core::{Error, ErrorKind, Result};

/// Input that begins with this byte, as no format does, is expanded by [`expand`].
const EXPANDS: u8 = 0xE0;
/// Longest file that is made of an input.
const LONGEST: usize = 160 << 10;
/// Threads of the scans that are done in ranges.
const WORKERS: [usize; 2] = [2, 3];

/// The file that an input stands for: the input itself, or, after [`EXPANDS`], runs of `(n, n bytes, m, m zeros)`.
///
/// `n` is a byte and `m` two bytes, little-endian. In this form the mutator can still change long frames as a whole.
pub fn expand(data: &[u8]) -> Vec<u8> {
    let Some((&EXPANDS, mut rest)) = data.split_first() else {
        return data.to_vec();
    };
    let mut file = Vec::new();
    while let Some((&n, behind)) = rest.split_first() {
        let (literal, behind) = behind.split_at(behind.len().min(usize::from(n)));
        file.extend_from_slice(literal);
        let Some((zeros, behind)) = behind.split_first_chunk::<2>() else { break };
        file.resize(file.len() + usize::from(u16::from_le_bytes(*zeros)), 0);
        rest = behind;
        if file.len() > LONGEST {
            file.truncate(LONGEST);
            break;
        }
    }
    file
}

/// Panics for an error that blames Kinema; every other one is an answer.
fn answer<T>(result: Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            assert_ne!(error.kind(), ErrorKind::Internal, "{error}");
            None
        }
    }
}

/// Kind and place of an error, for comparison.
fn place(error: &Error) -> (ErrorKind, Option<u64>, Option<u64>) {
    (error.kind(), error.frame(), error.offset())
}

/// Result of a scan, in a form that can be compared (a time may be NaN).
fn outcome(scan: &Result<Scan>) -> String {
    match scan {
        Ok(scan) => format!("{:?}, {:?}, {:?}", scan.index, scan.truncation.as_ref().map(place), scan.damaged),
        Err(error) => format!("{:?}", place(error)),
    }
}

fn options(previous: Option<Index>, workers: usize) -> ScanOptions<'static> {
    ScanOptions { previous, workers, progress: &|_| Ok(()), skip_damaged: false }
}

/// Frames follow each other without gaps and end within the file.
pub fn check_index(index: &Index, size: u64) {
    let mut end = None;
    for frame in 0..index.n_frames() {
        let extent = index.extent(frame);
        assert!(extent.len > 0 && extent.len <= index.largest(), "frame {frame}: {extent:?}");
        assert!(
            end.is_none_or(|end| end == extent.offset),
            "frame {frame} at {extent:?}, not after the frame before it"
        );
        let its_end = extent.offset.checked_add(extent.len).expect("within 64 bits");
        assert!(its_end <= size, "frame {frame} at {extent:?} of {size} bytes");
        let _ = (index.step(frame), index.time(frame));
        end = Some(its_end);
    }
    assert_eq!(index.end(), end);
}

/// Opens the file and scans it with one and with several threads, and from the end of a shorter file.
pub fn scan(format: &dyn Format, data: &[u8]) {
    let file = expand(data);
    let Some((source, decoder, scan)) = open_and_scan(format, file.clone()) else { return };
    for workers in WORKERS {
        let other = decoder.scan(&source, &options(None, workers));
        assert_eq!(outcome(&other), outcome(&scan), "{workers} workers");
        if format.info().name == "XTC" {
            let other = xtc::scan_in_ranges(&source, decoder.header().n_atoms, &options(None, workers));
            assert_eq!(outcome(&other), outcome(&scan), "{workers} ranges");
        }
    }
    check_ranges(&source, decoder.as_ref(), &scan, file.len() as u64);
    check_grown(format, &source, decoder.as_ref(), &scan, &file);
    check_skipping(format, &source, decoder.as_ref(), &scan, file.len() as u64);
}

/// The results of several processes, each for its own ranges of bytes, are put together to the result of one scan.
fn check_ranges(source: &dyn Source, decoder: &dyn Decoder, whole: &Result<Scan>, size: u64) {
    let Arrangement::Headers(headers) = decoder.arrangement() else { return };
    let third = size / 3;
    for cuts in [[third, 2 * third], [1, size.saturating_sub(1)]] {
        let ranges = [0..cuts[0], cuts[0]..cuts[1].max(cuts[0]), cuts[1].max(cuts[0])..size];
        let found = ranges.into_iter().map(|range| headers.scan_range(source, range, &|_| Ok(()))).collect();
        let Some(found): Option<Vec<TableIndex>> = answer(found) else { continue };
        let other = decoder.scan_with_ranges(source, &options(None, 1), &found);
        assert_eq!(outcome(&other), outcome(whole), "ranges from {cuts:?}");
    }
}

/// A scan that skips damage finds the same on any number of threads; in a sound file it finds the same as any scan; and
/// frames that it calls damaged cannot be decoded.
fn check_skipping(format: &dyn Format, source: &dyn Source, decoder: &dyn Decoder, strict: &Result<Scan>, size: u64) {
    let skipping = |workers| ScanOptions { skip_damaged: true, ..options(None, workers) };
    let scan = decoder.scan(source, &skipping(1));
    if strict.is_ok() {
        assert_eq!(outcome(&scan), outcome(strict), "nothing is damaged");
    }
    if format.info().name == "XTC" {
        for workers in WORKERS {
            let other = xtc::scan_in_ranges(source, decoder.header().n_atoms, &skipping(workers));
            assert_eq!(outcome(&other), outcome(&scan), "{workers} ranges over damage");
        }
    }
    let Some(scan) = answer(scan) else { return };
    check_index(&scan.index, size);
    for frame in scan.damaged {
        let none = AtomSelection::from_sorted(Vec::new(), decoder.header().n_atoms).expect("no atoms");
        assert!(answer(read(source, decoder, &scan.index, frame, none)).is_none(), "frame {frame} is sound");
    }
}

/// Opens the file and scans it on one thread; checks that the index, if there is one, is sound.
fn open_and_scan(format: &dyn Format, file: Vec<u8>) -> Option<(MemorySource, Arc<dyn Decoder>, Result<Scan>)> {
    let size = file.len() as u64;
    let source = MemorySource::new("fuzz", file);
    let found = answer(detect(&source)).is_some_and(|found| {
        // a file of any format has room for the signature of HDF5 at byte 512, and is HDF5 then; a title has room for
        // any format's
        let own = format.info().name;
        own.starts_with("DL_POLY") || [own, "H5MD"].contains(&found.info().name)
    });
    let decoder = answer(format.open(&source))?;
    assert!(found, "opens what it does not recognise");
    let n_atoms = u64::from(decoder.header().n_atoms);
    let scan = decoder.scan(&source, &options(None, 1));
    match &scan {
        Err(error) => assert_ne!(error.kind(), ErrorKind::Internal, "{error}"),
        Ok(Scan { index, truncation, damaged, without_time: _ }) => {
            assert!(damaged.is_empty(), "damage is skipped although nobody asked for that");
            check_index(index, size);
            // of text, blank lines may follow the frames
            let mut rest = vec![0; (size - index.end().unwrap_or(size)) as usize];
            source.read_exact_at(size - rest.len() as u64, &mut rest).expect("memory");
            let whole = rest.trim_ascii().is_empty();
            // frames that the head does not count yet are named
            let named = truncation.is_some() || !decoder.header().warnings.is_empty();
            // after the records that the head of a NetCDF file counts, a writer may have begun less than one record
            let stride = if index.n_frames() > 1 { index.extent(1).offset - index.extent(0).offset } else { size };
            let begun = format.info().name == "NetCDF" && (rest.len() as u64) < stride;
            assert!(named || begun || whole || index.n_frames() == 0, "bytes are left over");
            // two bits an atom are the least that XTC can take
            assert!(index.n_frames() == 0 || n_atoms <= 9 + 4 * size, "{n_atoms} atoms in {size} bytes");
        }
    }
    Some((source, decoder, scan))
}

/// Continuing a scan from the index of a shorter file finds the same as scanning the whole file.
fn check_grown(format: &dyn Format, source: &dyn Source, decoder: &dyn Decoder, whole: &Result<Scan>, file: &[u8]) {
    for cut in [file.len() / 3, file.len() - file.len().min(5)] {
        let shorter = MemorySource::new("shorter", &file[..cut]);
        let Some(opened) = answer(format.open(&shorter)) else { continue };
        let Some(before) = answer(opened.scan(&shorter, &options(None, 1))) else { continue };
        check_index(&before.index, cut as u64);
        let after = decoder.scan(source, &options(Some(before.index), 1));
        assert_eq!(outcome(&after), outcome(whole), "grown from {cut} bytes");
    }
}

/// Decodes frames of the file: all atoms, selections of them, and bytes that end early.
pub fn decode(format: &dyn Format, data: &[u8]) {
    if let Some((source, decoder, Ok(scan))) = open_and_scan(format, expand(data)) {
        let found = answer(detect(&source)).map(|found| found.info().name);
        if format.info().name.starts_with("DL_POLY") && found == Some(format.info().name) {
            check_names(&source, decoder.header().n_atoms);
        }
        for frame in some_of(scan.index.n_frames()) {
            decode_frame(&source, decoder.as_ref(), &scan.index, frame);
        }
        for every in [1, 50] {
            let Some(index) = with_checkpoints(&source, decoder.as_ref(), &scan.index, every) else { continue };
            for frame in some_of(index.n_frames()) {
                decode_frame(&source, decoder.as_ref(), &index, frame);
            }
        }
    }
}

/// Either all atoms are named or none.
fn check_names(source: &dyn Source, n_atoms: u32) {
    let Some(found) = answer(dlpoly::atoms::read_atoms(source)) else { return };
    let n_atoms = n_atoms as usize;
    assert!(found.names.is_empty() || found.names.len() == n_atoms, "{} names of {n_atoms}", found.names.len());
    for column in [found.masses, found.charges].into_iter().flatten() {
        assert_eq!(column.len(), found.names.len());
    }
}

/// The first and the last frames: an input may have thousands of frames of a few bytes.
fn some_of(n_frames: u64) -> impl Iterator<Item = u64> {
    (0..n_frames.min(16)).chain(n_frames.saturating_sub(8).max(16)..n_frames)
}

/// The index with atom checkpoints of all frames; `None` for formats without, and if they would take much memory.
fn with_checkpoints(source: &dyn Source, decoder: &dyn Decoder, index: &Index, every: u32) -> Option<Index> {
    let Index::Table(mut table) = index.clone() else { return None };
    let per_frame = AtomCheckpoints::count_per_frame(decoder.header().n_atoms, every);
    if per_frame * table.n_frames() as usize > LONGEST {
        return None;
    }
    let (mut words, mut tags) = (Vec::new(), Vec::new());
    for frame in 0..table.n_frames() {
        let extent = table.extent(frame);
        let mut bytes = vec![0; usize::try_from(extent.len).expect("within the file")];
        source.read_exact_at(extent.offset, &mut bytes).expect("within the file");
        let mut found = vec![0; per_frame];
        tags.push(decoder.atom_checkpoints(&bytes, every, &mut found)?);
        words.extend(found);
    }
    let known = AtomCheckpoints::new(decoder.header().n_atoms, every, words, tags).expect("of every frame");
    table.atom_checkpoints = Some(Arc::new(known));
    Some(Index::Table(table))
}

/// Decodes every frame that `index` names and that the decoder accepts.
pub fn decode_frames_of_any_index(source: &dyn Source, decoder: &dyn Decoder, index: &Index) {
    for frame in 0..index.n_frames() {
        let request = request(decoder, AtomSelection::all(decoder.header().n_atoms));
        match segments_of(decoder, index, &[Wanted { frame, row: 0 }], &request) {
            Ok(_) => decode_frame(source, decoder, index, frame),
            // an index that is not of this file is refused so
            Err(error) => assert_eq!(error.kind(), ErrorKind::Internal, "{error}"),
        }
    }
}

fn decode_frame(source: &dyn Source, decoder: &dyn Decoder, index: &Index, frame: u64) {
    let n_atoms = decoder.header().n_atoms;
    let selections = selections(n_atoms);
    let whole = answer(read(source, decoder, index, frame, AtomSelection::all(n_atoms)));
    if let Some(whole) = &whole {
        let wide = answer(read_as(true, source, decoder, index, frame, AtomSelection::all(n_atoms)));
        check_wide(whole, &wide.expect("what is read in float32 is read in float64"), decoder.header().n_atoms);
    }
    for atoms in &selections {
        let part = answer(read(source, decoder, index, frame, atoms.clone()));
        if let (Some(whole), Some(part)) = (&whole, part) {
            check_slice(whole, &part, atoms);
        }
    }
    // the selections that decoders read in the fewest and in the most pieces
    if let Some(scattered) = selections.last() {
        cut_short(source, decoder, index, frame, scattered);
    }
    cut_short(source, decoder, index, frame, &AtomSelection::all(n_atoms));
}

/// No atom, one at each end, the first tenth, every seventh, two runs far apart.
fn selections(n_atoms: u32) -> Vec<AtomSelection> {
    let last = n_atoms.saturating_sub(1);
    let two_runs = (0..n_atoms).filter(|atom| atom % 5000 < 3 || n_atoms - atom < 4);
    let mut lists: Vec<Vec<u32>> = vec![vec![], (0..n_atoms / 10).collect()];
    lists.push((0..n_atoms).step_by(7).collect());
    if n_atoms > 0 {
        lists.extend([vec![0], vec![last]]);
    }
    lists.push(two_runs.collect());
    lists.into_iter().map(|list| AtomSelection::from_sorted(list, n_atoms).expect("ascending, in range")).collect()
}

fn request(decoder: &dyn Decoder, atoms: AtomSelection) -> Request {
    let vectors = Fields::POSITIONS | Fields::VELOCITIES | Fields::FORCES;
    let absent = vectors - decoder.header().fields;
    Request { fields: vectors - absent, atoms, scales: Scales::NATIVE }
}

fn segments_of(decoder: &dyn Decoder, index: &Index, wanted: &[Wanted], request: &Request) -> Result<Vec<Segment>> {
    let mut segments = Vec::new();
    decoder.segments(index, wanted, request, &mut segments)?;
    Ok(segments)
}

fn block_for(frame: u64, request: &Request) -> Block {
    let mut block = Block::default();
    block.reset([frame], request.atoms.len(), request.fields);
    block
}

/// The same values in float64, with the same bits if they were stored in float32.
fn check_wide(narrow: &Block, wide: &Block, n_atoms: u32) {
    let (narrow, wide) = (narrow.view(), wide.view());
    for (narrow, wide) in [narrow.positions, narrow.velocities, narrow.forces].into_iter().zip(wide.doubles) {
        assert!(narrow.len() == wide.len() && [0, 3 * n_atoms as usize].contains(&wide.len()));
        for (narrow, wide) in narrow.iter().zip(wide) {
            // scales are not applied, so that both are roundings of one number
            let same = narrow.to_bits() == (*wide as f32).to_bits() || narrow.is_nan() && wide.is_nan();
            assert!(same, "{narrow:?} and {wide:?}");
        }
    }
}

/// Reads one frame as the reader of a run does.
fn read(source: &dyn Source, decoder: &dyn Decoder, index: &Index, frame: u64, atoms: AtomSelection) -> Result<Block> {
    read_as(false, source, decoder, index, frame, atoms)
}

/// The same, into float64 where `doubles`.
fn read_as(
    doubles: bool,
    source: &dyn Source,
    decoder: &dyn Decoder,
    index: &Index,
    frame: u64,
    atoms: AtomSelection,
) -> Result<Block> {
    let wanted = [Wanted { frame, row: 0 }];
    let request = request(decoder, atoms);
    let mut block = Block::default();
    block.reset_as(doubles, [frame], request.atoms.len(), request.fields);
    let segments = segments_of(decoder, index, &wanted, &request)?;
    let mut gather = Gather::default();
    gather.read(source, segments.iter().map(|segment| segment.extent))?;
    let mut scratch = Scratch::default();
    for (i, segment) in segments.iter().enumerate() {
        let mut bytes = gather.bytes(i).to_vec();
        loop {
            let decoded = decoder.decode(
                SegmentBytes { segment, bytes: &bytes, wanted: &wanted, request: &request },
                &mut block.as_mut(),
                &mut scratch,
            )?;
            let Decoded::NeedsPrefix(len) = decoded else { break };
            assert!(len > bytes.len() as u64 && len <= segment.whole.len, "{len} bytes of {segment:?}");
            bytes.resize(len as usize, 0);
            source.read_exact_at(segment.whole.offset, &mut bytes)?;
        }
    }
    Ok(block)
}

/// Gives the decoder only the beginning of each segment: an error, a request for more, or a whole frame that does not
/// need the rest, but no panic.
fn cut_short(source: &dyn Source, decoder: &dyn Decoder, index: &Index, frame: u64, atoms: &AtomSelection) {
    let wanted = [Wanted { frame, row: 0 }];
    let request = request(decoder, atoms.clone());
    let mut block = block_for(frame, &request);
    let Some(segments) = answer(segments_of(decoder, index, &wanted, &request)) else { return };
    let mut scratch = Scratch::default();
    for segment in &segments {
        let mut bytes = vec![0; usize::try_from(segment.extent.len).expect("within the file")];
        if answer(source.read_exact_at(segment.extent.offset, &mut bytes)).is_none() {
            continue;
        }
        // all of it at last: later segments may need what the first of a frame says
        let mut last = None;
        for cut in [0, bytes.len() / 2, bytes.len().saturating_sub(1), bytes.len()] {
            let given = SegmentBytes { segment, bytes: &bytes[..cut], wanted: &wanted, request: &request };
            let decoded = decoder.decode(given, &mut block.as_mut(), &mut scratch);
            last = answer(decoded);
        }
        if last.is_none() {
            return;
        }
    }
}

/// The selected atoms hold the bits that the whole frame holds at their places.
fn check_slice(whole: &Block, part: &Block, atoms: &AtomSelection) {
    let vectors = |block: &Block| [block.positions.clone(), block.velocities.clone(), block.forces.clone()];
    for (whole, part) in vectors(whole).iter().zip(vectors(part)) {
        let (whole, part) = (whole.as_chunks::<3>().0, part.as_chunks::<3>().0);
        let expected: Vec<_> =
            if whole.is_empty() { vec![] } else { atoms.iter().map(|a| whole[a as usize]).collect() };
        assert_eq!(part.len(), expected.len());
        for ((part, expected), atom) in part.iter().zip(&expected).zip(atoms.iter()) {
            assert_eq!(part.map(f32::to_bits), expected.map(f32::to_bits), "atom {atom}");
        }
    }
    // as bits, because NaNs never compare equal
    let bits = |block: &Block| {
        let [stamp] = block.stamps[..] else { panic!("one frame was read") };
        (stamp.cell.map(|row| row.map(f64::to_bits)), stamp.step, stamp.time.to_bits(), stamp.present)
    };
    assert_eq!(bits(whole), bits(part));
}
