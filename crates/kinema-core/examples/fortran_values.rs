//! Values for gfortran, and a comparison of its output for them with Kinema's.
//!
//! `fortran_values write N SEED > BITS` writes the bits of N values; `fortran_values compare N SEED < TEXT` compares
//! one field a line, as `tests/data/fortran/fortran_formats.f90` makes them of these bits; see
//! `tests/data/make_fortran_golden.py`.

#[path = "../tests/common/fortran_values.rs"]
mod fortran_values;

use std::io::{BufRead, BufWriter, Write};

use fortran_values::{format_of, put, value};

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |i: usize| arguments.get(i).and_then(|text| text.parse::<u64>().ok());
    let (Some(n), Some(seed)) = (number(2), number(3)) else {
        eprintln!("usage: fortran_values write|compare N SEED");
        std::process::exit(2);
    };
    if arguments[1] == "write" {
        let mut out = BufWriter::new(std::io::stdout().lock());
        for i in 0..n {
            out.write_all(&value(seed, i).to_le_bytes())?;
        }
        return out.flush();
    }
    let (mut lines, mut differ) = (0, 0);
    let mut field = Vec::new();
    for (i, line) in (0..).zip(std::io::stdin().lock().split(b'\n')) {
        let (line, bits, format) = (line?, value(seed, i), format_of(i));
        field.clear();
        put(&mut field, bits, format);
        if field != line {
            differ += 1;
            if differ <= 20 {
                let [ours, theirs] = [&field, &line].map(|text| String::from_utf8_lossy(text).into_owned());
                println!("{format} of {:e} ({bits:#018x}): ours |{ours}|, gfortran's |{theirs}|", f64::from_bits(bits));
            }
        }
        lines += 1;
    }
    println!("{lines} fields of {n} values, {differ} differ");
    std::process::exit(i32::from(lines != n || differ > 0));
}
