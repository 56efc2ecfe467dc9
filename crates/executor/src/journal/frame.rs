//! One record as bytes: `u32 length | u32 crc32c | u64 seq | u8 kind | JSON`, little-endian. The checksum covers
//! everything but itself. Nothing is escaped: JSON has no zero bytes, a sequence number always has some, so no record
//! can hide inside another.

pub(super) const HEADER: usize = 17;

/// The largest body: a signed result and its base64, with room to spare.
pub(super) const MAX_BODY: usize = 768 * 1024;

/// How far apart two neighbours could be numbered and still be of one journal; keeps the search for good records
/// after a bad one short.
const MAX_GAP: u64 = 1 << 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub(super) seq: u64,
    pub(super) kind: u8,
    pub(super) body: &'a [u8],
}

impl Frame<'_> {
    pub(super) fn size(&self) -> usize {
        HEADER + self.body.len()
    }
}

pub(super) fn encode(seq: u64, kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32).to_le_bytes();
    let mut out = Vec::with_capacity(HEADER + body.len());
    out.extend_from_slice(&length);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&seq.to_le_bytes());
    out.push(kind);
    out.extend_from_slice(body);
    let crc = checksum(&out).to_le_bytes();
    out[4..8].copy_from_slice(&crc);
    out
}

fn checksum(record: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&record[..4]), &record[8..])
}

/// The record that begins here, if one does.
pub(super) fn decode(bytes: &[u8]) -> Option<Frame<'_>> {
    let header = bytes.get(..HEADER)?;
    let length = u32::from_le_bytes(header[..4].try_into().ok()?) as usize;
    let crc = u32::from_le_bytes(header[4..8].try_into().ok()?);
    let seq = u64::from_le_bytes(header[8..16].try_into().ok()?);
    if length == 0 || length > MAX_BODY || seq == 0 {
        return None;
    }
    let record = bytes.get(..HEADER + length)?;
    (checksum(record) == crc).then_some(Frame {
        seq,
        kind: header[16],
        body: &record[HEADER..],
    })
}

/// What a journal's bytes say.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Scan<'a> {
    pub(super) frames: Vec<Frame<'a>>,
    /// Where the next record goes.
    pub(super) end: usize,
    pub(super) tail: Tail,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// Nothing but zeros.
    Clean,
    /// A record that never became durable. It is cut: nothing was done on its word.
    Torn,
    /// A good record follows a bad one: something that was durable is gone.
    Corrupt,
}

pub(super) fn scan(bytes: &[u8]) -> Scan<'_> {
    let (mut frames, mut end) = (Vec::<Frame<'_>>::new(), 0);
    while let Some(frame) = decode(&bytes[end..]) {
        if frames.last().is_some_and(|last| frame.seq != last.seq + 1) {
            return Scan {
                frames,
                end,
                tail: Tail::Corrupt,
            };
        }
        frames.push(frame);
        end += frame.size();
    }
    let tail = if all_zero(&bytes[end..]) {
        Tail::Clean
    } else if good_record_in(&bytes[end..], frames.last().map(|last| last.seq)) {
        Tail::Corrupt
    } else {
        Tail::Torn
    };
    Scan { frames, end, tail }
}

/// By the block: most of a journal is unused, and every start looks at all of it.
pub(super) fn all_zero(bytes: &[u8]) -> bool {
    const ZEROS: [u8; 4096] = [0; 4096];
    bytes.chunks(ZEROS.len()).all(|block| *block == ZEROS[..block.len()])
}

fn good_record_in(bytes: &[u8], last: Option<u64>) -> bool {
    (0..bytes.len().saturating_sub(HEADER)).any(|at| {
        // Cheap looks first: this runs over megabytes.
        let seq = bytes[at + 8..at + 16].try_into().map_or(0, u64::from_le_bytes);
        let plausible = match last {
            Some(last) => seq > last && seq - last < MAX_GAP,
            None => seq != 0 && seq < MAX_GAP,
        };
        plausible && decode(&bytes[at..]).is_some()
    })
}
