//! A small ISO 9660 image: one directory, a few small files. Enough for a guest to read its first-boot configuration
//! from a disk labelled `cidata`; nothing of the host's file system is looked at on the way.

const SECTOR: usize = 2048;
const PATH_TABLE_L: u32 = 18;
const PATH_TABLE_M: u32 = 19;
const ROOT: u32 = 20;

/// The image. Names are as the guest will see them, in lower case.
pub(super) fn image(label: &str, files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut extents = Vec::new();
    let mut next = ROOT + 1;
    for (_, bytes) in files {
        extents.push(next);
        next += sectors(bytes.len());
    }
    let mut image = vec![0; 16 * SECTOR];
    image.extend(sector(&volume(label, next)));
    image.extend(sector(&[&[255][..], b"CD001", &[1]].concat()));
    image.extend(sector(&path_table(&ROOT.to_le_bytes(), &1u16.to_le_bytes())));
    image.extend(sector(&path_table(&ROOT.to_be_bytes(), &1u16.to_be_bytes())));
    let mut directory = record(&[0], ROOT, SECTOR, true);
    directory.extend(record(&[1], ROOT, SECTOR, true));
    let mut named: Vec<(String, u32, usize)> = files
        .iter()
        .zip(&extents)
        .map(|((name, bytes), extent)| (format!("{}.;1", name.to_uppercase()), *extent, bytes.len()))
        .collect();
    // The order of the directory is by name; that of the files does not matter.
    named.sort();
    for (name, extent, length) in named {
        directory.extend(record(name.as_bytes(), extent, length, false));
    }
    image.extend(sector(&directory));
    for (_, bytes) in files {
        image.extend_from_slice(bytes);
        image.resize(image.len().next_multiple_of(SECTOR), 0);
    }
    image
}

fn sectors(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(SECTOR)).unwrap_or(u32::MAX)
}

fn sector(bytes: &[u8]) -> Vec<u8> {
    let mut sector = bytes.to_vec();
    sector.resize(SECTOR, 0);
    sector
}

/// The primary volume descriptor.
fn volume(label: &str, total: u32) -> Vec<u8> {
    let mut out = [&[1][..], b"CD001", &[1, 0]].concat();
    out.extend(padded("", 32));
    out.extend(padded(label, 32));
    out.extend([0; 8]);
    out.extend(both_u32(total));
    out.extend([0; 32]);
    out.extend(both_u16(1));
    out.extend(both_u16(1));
    out.extend(both_u16(SECTOR as u16));
    out.extend(both_u32(10));
    out.extend(PATH_TABLE_L.to_le_bytes());
    out.extend([0; 4]);
    out.extend(PATH_TABLE_M.to_be_bytes());
    out.extend([0; 4]);
    out.extend(record(&[0], ROOT, SECTOR, true));
    for field in [128, 128, 128, 128, 37, 37, 37] {
        out.extend(padded("", field));
    }
    for _ in 0..4 {
        out.extend([b'0'; 16]);
        out.push(0);
    }
    out.push(1);
    out
}

fn path_table(root: &[u8; 4], parent: &[u8; 2]) -> Vec<u8> {
    [&[1, 0][..], root, parent, &[0, 0]].concat()
}

fn record(name: &[u8], extent: u32, length: usize, directory: bool) -> Vec<u8> {
    let size = (33 + name.len()).next_multiple_of(2);
    let mut out = vec![u8::try_from(size).unwrap_or(0), 0];
    out.extend(both_u32(extent));
    out.extend(both_u32(u32::try_from(length).unwrap_or(u32::MAX)));
    // No date: the same files make the same image.
    out.extend([0; 7]);
    out.extend([if directory { 2 } else { 0 }, 0, 0]);
    out.extend(both_u16(1));
    out.push(u8::try_from(name.len()).unwrap_or(0));
    out.extend(name);
    out.resize(size, 0);
    out
}

fn padded(text: &str, length: usize) -> Vec<u8> {
    let mut out = text.as_bytes().to_vec();
    out.resize(length, b' ');
    out
}

fn both_u16(n: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (n.to_le_bytes(), n.to_be_bytes());
    [a, b, c, d]
}

fn both_u32(n: u32) -> Vec<u8> {
    [n.to_le_bytes(), n.to_be_bytes()].concat()
}
