//! Rows from anywhere in files, read into the rows of the caller: values, extents, bad files.

use std::io::IoSliceMut;
use std::path::PathBuf;
use std::sync::Arc;

use kinema_core::ErrorKind;
use kinema_core::pipeline::Progress;
use kinema_core::pipeline::arrays::rows::{RowFile, RowStorage, Rows};
use kinema_core::source::{FilePool, FileSource, Files, ReadLog, Source};

const ROW: usize = 24;
const OFFSET: u64 = 100;

/// A file of rows at distances of `stride`; row `i` of file `file` has bytes `file * 7 + i`.
fn write(name: &str, file: u8, rows: u64, stride: u64) -> RowFile {
    let path = std::env::temp_dir().join(format!("kinema-rows-{name}-{file}-{}", std::process::id()));
    let mut bytes = vec![0xEE; (OFFSET + rows * stride) as usize + ROW];
    for row in 0..rows {
        let from = (OFFSET + row * stride) as usize;
        bytes[from..from + ROW].fill(file.wrapping_mul(7).wrapping_add(row as u8));
    }
    std::fs::write(&path, bytes).unwrap();
    RowFile { path, rows, storage: RowStorage::Strided { offset: OFFSET, stride } }
}

fn first_bytes(rows: &Rows, ids: &[u64], workers: usize) -> Vec<u8> {
    let mut out = vec![0; ids.len() * ROW];
    rows.read(ids, &mut out, workers, &Progress::default()).unwrap();
    out.chunks_exact(ROW)
        .map(|row| {
            assert!(row.iter().all(|&byte| byte == row[0]), "{row:?}");
            row[0]
        })
        .collect()
}

#[test]
fn rows_in_any_order_of_several_files() {
    let log = ReadLog::default();
    let pool = FilePool::new(8, Arc::new(log.clone()));
    let files = vec![write("any", 0, 50, 24), write("any", 1, 0, 24), write("any", 2, 30, 40)];
    let rows = Rows::new(files, ROW, &pool).unwrap();
    assert_eq!((rows.len(), rows.row_bytes()), (80, ROW));
    let ids = [79, 0, 50, 3, 3, 49, 51, 3, 0];
    let expected = [43, 0, 14, 3, 3, 49, 15, 3, 0];
    for workers in [1, 2, 5] {
        assert_eq!(first_bytes(&rows, &ids, workers), expected);
    }
    log.take();
    // near rows are read together with the bytes between them, whatever their order
    first_bytes(&rows, &[2, 0, 4], 1);
    let extents: Vec<(u64, u64)> = log.take().into_iter().map(|(_, extent)| (extent.offset, extent.len)).collect();
    assert_eq!(extents, [(OFFSET, 4 * 24 + 24)]);
    let plan = rows.plan(&[2, 0, 4, 4]).unwrap();
    assert_eq!((plan.read, plan.useful, plan.reads, plan.decoded), (5 * 24, 3 * 24, 1, 5 * 24));
    assert!(first_bytes(&rows, &[], 3).is_empty());
}

#[test]
fn many_rows_are_cut_into_calls_and_tasks() {
    let pool = FilePool::new(8, Arc::new(Files));
    let rows = Rows::new(vec![write("many", 0, 60_000, 24)], ROW, &pool).unwrap();
    let ids: Vec<u64> = (0..60_000).map(|i| i * 7919 % 60_000).collect();
    let expected: Vec<u8> = ids.iter().map(|&id| id as u8).collect();
    for workers in [1, 4] {
        assert!(first_bytes(&rows, &ids, workers) == expected);
    }
}

#[test]
fn bad_requests_and_bad_files_are_errors() {
    let pool = FilePool::new(8, Arc::new(Files));
    let rows = Rows::new(vec![write("bad", 0, 10, 24)], ROW, &pool).unwrap();
    let mut out = vec![0; ROW];
    let progress = Progress::default();
    assert_eq!(rows.read(&[10], &mut out, 1, &progress).unwrap_err().kind(), ErrorKind::OutOfRange);
    assert_eq!(rows.read(&[1, 2], &mut out, 1, &progress).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(rows.plan(&[11]).unwrap_err().kind(), ErrorKind::OutOfRange);
    let narrow = write("narrow", 0, 10, 23);
    assert_eq!(Rows::new(vec![narrow], ROW, &pool).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let mut claims = write("claims", 0, 10, 24);
    claims.rows = 13;
    let path = claims.path.clone();
    let claims = Rows::new(vec![claims], ROW, &pool).unwrap();
    for ids in [&[12][..], &[9, 10, 11, 12]] {
        let mut out = vec![0; ids.len() * ROW];
        let error = claims.read(ids, &mut out, 1, &progress).unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::Truncated, Some(path.as_path())));
        assert!(error.offset().is_some());
    }
    let none =
        RowFile { path: PathBuf::from("/nowhere"), rows: 3, storage: RowStorage::Strided { offset: 0, stride: 24 } };
    let none = Rows::new(vec![none], ROW, &pool).unwrap();
    assert_eq!(none.read(&[1], &mut out, 1, &progress).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn scattered_reads_fill_more_buffers_than_a_call_takes() {
    let path = std::env::temp_dir().join(format!("kinema-scattered-{}", std::process::id()));
    let bytes: Vec<u8> = (0..9000_u32).map(|i| (i % 251) as u8).collect();
    std::fs::write(&path, &bytes).unwrap();
    let source = FileSource::open(&path).unwrap();
    // 3000 buffers of 0 to 4 bytes
    let mut parts: Vec<Vec<u8>> = (0..3000).map(|i| vec![0; i % 5]).collect();
    let mut slices: Vec<IoSliceMut<'_>> = parts.iter_mut().map(|part| IoSliceMut::new(part)).collect();
    source.read_scattered_at(13, &mut slices).unwrap();
    assert_eq!(parts.concat(), bytes[13..13 + 6000]);
    let mut slices: Vec<IoSliceMut<'_>> = parts.iter_mut().map(|part| IoSliceMut::new(part)).collect();
    let error = source.read_scattered_at(4000, &mut slices).unwrap_err();
    assert_eq!((error.kind(), error.offset()), (ErrorKind::Truncated, Some(9000)));
    source.read_scattered_at(0, &mut []).unwrap();
}
