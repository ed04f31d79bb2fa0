//! Measures the text of numbers on one thread: records of three numbers, parsed and formatted, and lines counted.
//!
//! `cargo run --release --example text_speed -- [RECORDS] [REPEATS]`; the best of the repeats is printed, in MB of text a second
//! of CPU time, beside crates that parse floats and the standard library. Records are those of a DL_POLY HISTORY: 73 bytes,
//! `3g20.10`, 12 blanks and a line feed; the values are positions, velocities and forces of a plausible size. `--bits FILE`
//! writes the values for another program and ends. CONFIG records of half of the atoms are made of the same values. The scan
//! is of a HISTORY file of any width in memory, by the clock.

use std::hint::black_box;
use std::io::Write;

use kinema_core::container::text::fortran::{put_e, put_f, put_g20_10};
use kinema_core::container::text::{Words, lines, parse_f64, parse_three};
use kinema_core::format::{AtomLabels, AtomNumbers, Format, Making, ScanOptions, by_name, dlpoly::History};
use kinema_core::frame::Fields;
use kinema_core::pipeline::encode::atom_records::AtomRecords;
use kinema_core::pipeline::encode::record_file::Values;
use kinema_core::source::MemorySource;

/// CPU time of this thread, seconds.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the struct that it is given a valid pointer to, and keeps nothing.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(status, 0, "no clock for threads");
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Triples of values: positions of tens of angstrom, velocities of some angstrom a ps, forces of thousands.
fn values(n: usize) -> Vec<[f64; 3]> {
    let mut state = 1_u64;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64 * 2.0 - 1.0
    };
    (0..n).map(|i| [(); 3].map(|()| uniform() * [50.0, 5.0, 5000.0][i % 3])).collect()
}

fn put_record(out: &mut Vec<u8>, values: &[f64; 3]) {
    for &value in values {
        put_g20_10(out, value);
    }
    out.extend_from_slice(b"            \n");
}

/// Prints the speed of the fastest of several calls, each of which handles `bytes` of text.
fn report(name: &str, bytes: usize, repeats: usize, mut work: impl FnMut()) {
    let mut best = f64::INFINITY;
    for _ in 0..repeats {
        let start = cpu_seconds();
        work();
        best = best.min(cpu_seconds() - start);
    }
    println!("{name:44} {:8.0} MB/s", bytes as f64 / best * 1e-6);
}

/// The sum of all numbers of the text, each word by `parse`.
fn sum_of_words(text: &[u8], parse: impl Fn(&[u8]) -> f64) -> f64 {
    let mut sum = 0.0;
    for record in text.chunks_exact(73) {
        for (_, word) in Words::new(record) {
            sum += parse(word);
        }
    }
    sum
}

/// A parser of one word.
type Parse<'a> = &'a dyn Fn(&[u8]) -> f64;

fn parse_all(text: &[u8], repeats: usize) {
    report("parse: container::text::parse_three", text.len(), repeats, || {
        let mut sum = 0.0;
        for record in text.chunks_exact(73) {
            let (three, _) = parse_three(record).expect("three numbers");
            sum += three[0] + three[1] + three[2];
        }
        black_box(sum);
    });
    let peers: [(&str, Parse<'_>); 4] = [
        ("parse: container::text::parse_f64, by words", &|word| parse_f64(word).expect("a number")),
        ("parse: fast-float2, by words", &|word| fast_float2::parse(word).expect("a number")),
        ("parse: lexical-core, by words", &|word| lexical_core::parse(word).expect("a number")),
        ("parse: standard library, by words", &|word| {
            std::str::from_utf8(word).expect("ASCII").parse().expect("a number")
        }),
    ];
    for (name, parse) in peers {
        report(name, text.len(), repeats, || {
            black_box(sum_of_words(text, parse));
        });
    }
}

/// A HISTORY file as DL_POLY Classic writes it, of about 300 MB.
fn classic() -> Vec<u8> {
    let n_atoms = 10_000;
    let (positions, mut text) = (values(n_atoms), Vec::new());
    write!(text, "title\n         0         0{n_atoms:10}\n").expect("memory");
    for step in 0..370 {
        writeln!(text, "timestep{step:10}{n_atoms:10}         0         0    0.001000").expect("memory");
        for (number, position) in (1..).zip(&positions) {
            writeln!(text, "OW      {number:10}   15.999400   -0.820000").expect("memory");
            position.iter().for_each(|&value| put_e(&mut text, value, 12, 4));
            text.push(b'\n');
        }
    }
    text
}

/// Prints how fast the frames of a file are found, by the clock.
fn scan(repeats: usize) {
    let text = classic();
    let len = text.len();
    let source = MemorySource::new("HISTORY", text);
    let decoder = History.open(&source).expect("a HISTORY file");
    for workers in [1, 2] {
        let mut best = f64::INFINITY;
        for _ in 0..repeats {
            let start = std::time::Instant::now();
            let options = ScanOptions { previous: None, workers, progress: &|_| Ok(()), skip_damaged: false };
            let frames = decoder.scan(&source, &options).expect("sound").index.n_frames();
            assert_eq!(frames, 370, "frames of the file");
            best = best.min(start.elapsed().as_secs_f64());
        }
        println!("{:44} {:8.0} MB/s", format!("scan: {workers} threads"), len as f64 / best * 1e-6);
    }
}

/// Prints how fast a process makes the records of its atoms: positions, velocities and forces in float64, names of three kinds.
fn config_of_part(values: &[f64], repeats: usize) {
    let n = (values.len() / 3) as u32;
    let names = Some(["Gd", "Zr", "O"].map(str::to_owned).to_vec());
    let labels = AtomLabels { names, codes: Some((0..2 * n).map(|atom| atom % 3).collect()), ..AtomLabels::default() };
    let fields = Fields::POSITIONS | Fields::VELOCITIES | Fields::FORCES;
    let making = Making { n_atoms: 2 * n, fields: Some(fields), labels: Some(labels.into()), ..Making::default() };
    let records = AtomRecords::new(by_name("DL_POLY CONFIG").expect("a format"), &making).expect("a CONFIG file");
    let mut out = vec![0; n as usize * records.widths()[0]];
    report("format: CONFIG of part of the atoms", out.len(), repeats, || {
        let vectors = [Some(Values::F64(values)); 3];
        records.encode(vectors, 0..n as usize, AtomNumbers::From(n), &mut [&mut out]).expect("atoms of the file");
        black_box(&out);
    });
}

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1).peekable();
    let bits = arguments.next_if(|word| word == "--bits").and_then(|_| arguments.next());
    let n = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(200_000);
    let repeats = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(9);
    let values = values(n);
    if let Some(path) = bits {
        let mut out = std::io::BufWriter::new(std::fs::File::create(path)?);
        for value in values.as_flattened() {
            out.write_all(&value.to_le_bytes())?;
        }
        return out.flush();
    }
    let mut text = Vec::new();
    values.iter().for_each(|record| put_record(&mut text, record));
    parse_all(&text, repeats);
    // as Python and others write float64 whole
    let long: Vec<String> = values.as_flattened().iter().map(|value| format!("{value:e}")).collect();
    let bytes = long.iter().map(String::len).sum();
    let all = |parse: &dyn Fn(&[u8]) -> f64| black_box(long.iter().map(|word| parse(word.as_bytes())).sum::<f64>());
    report("parse, 17 digits: container::text::parse_f64", bytes, repeats, || {
        all(&|word| parse_f64(word).expect("a number"));
    });
    report("parse, 17 digits: fast-float2", bytes, repeats, || {
        all(&|word| fast_float2::parse(word).expect("a number"));
    });
    let mut out = Vec::with_capacity(text.len());
    report("format: put_g20_10, records", text.len(), repeats, || {
        out.clear();
        values.iter().for_each(|record| put_record(&mut out, record));
        black_box(&out);
    });
    config_of_part(values.as_flattened(), repeats);
    report("format: put_f, width 20, 10 decimals", 60 * n, repeats, || {
        out.clear();
        values.as_flattened().iter().for_each(|&value| put_f(&mut out, value, 20, 10));
        black_box(&out);
    });
    report("format: standard library, {:20.9e}", 60 * n, repeats, || {
        out.clear();
        for value in values.as_flattened() {
            write!(out, "{value:20.9e}").expect("memory");
        }
        black_box(&out);
    });
    report("lines: lines_len over all", text.len(), repeats, || {
        black_box(lines::lines_len(black_box(&text), n).is_ok());
    });
    scan(repeats);
    Ok(())
}
