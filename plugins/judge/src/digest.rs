//! The digest of a trace: its outline, then inputs and outputs until there is no more room. Equal traces have equal
//! digests.

use std::cmp::Reverse;

use perpend_plugin::host;
use perpend_plugin::trace::{self, OutlineEntry, Part, TraceError};
use perpend_plugin::{EvalError, Json, TraceRef};

use crate::fence;
use crate::outline::{entries, one_line, outlined, part_name, rank};
use crate::shape::object;

/// Bytes of the sentences around the digest.
const SENTENCES: usize = 700;
/// Bytes that the fence and the headline of a piece take beside its id.
const FRAME: usize = 160;
/// A piece is not cut to less than that.
const LEAST: usize = 200;
/// Bytes that are read of a piece at a time.
const MOST: usize = 1 << 20;
/// Pieces of a digest.
const MAX_PIECES: usize = 1_000;
/// Pieces that the metadata of a score lists.
const MAX_LISTED: usize = 50;

/// A digest, and what it leaves out.
pub(crate) struct Digest {
    pub(crate) text: String,
    pub(crate) left_out: Json,
}

/// The input or output of an observation.
struct Piece<'t> {
    entry: &'t OutlineEntry,
    /// Of the observation in the trace.
    position: usize,
    part: Part,
    size: usize,
    /// What is shown of it; `None` when it is left out.
    shown: Option<Shown>,
}

struct Shown {
    text: String,
    n_kept: usize,
}

/// The digest of a trace in at most so many bytes.
///
/// # Errors
/// `upstream` when the trace cannot be read.
pub(crate) fn of(trace: &TraceRef, n_bytes: usize) -> Result<Digest, EvalError> {
    let entries = entries(trace)?;
    let judged = trace.observation_id.as_deref();
    let room = n_bytes.saturating_sub(SENTENCES);
    let (outline, n_outlined) = outlined(&entries, judged, room / 3);
    let mut pieces = pieces(&entries, judged);
    fill(&mut pieces, trace, room.saturating_sub(outline.len() + FRAME))?;
    pieces.sort_by_key(|piece| (piece.position, piece.part == Part::Output));

    let sizes = pieces.iter().map(|piece| piece.size);
    let n_bytes = sizes.fold(0, usize::saturating_add);
    let kept = pieces.iter().filter_map(|piece| piece.shown.as_ref());
    let n_kept: usize = kept.map(|shown| shown.n_kept).sum();
    let is_short = |piece: &&Piece<'_>| piece.kept() < piece.size;
    let n_short = pieces.iter().filter(is_short).count();
    let n_absent = pieces.iter().filter(|piece| piece.shown.is_none()).count();
    let mut text = format!(
        "The item is too long to be given whole. A digest of its trace follows: the outline, a line for each observation, and \
         then inputs and outputs, those of failed observations before others. Left out were {} of {} observations from \
         the outline, {n_absent} of {} inputs and outputs, and parts of {} others: {} of {n_bytes} bytes.\n\n{}",
        entries.len() - n_outlined,
        entries.len(),
        pieces.len(),
        n_short - n_absent,
        n_bytes - n_kept,
        fence::fenced(host::seed(), "trace", &outline),
    );
    for piece in &pieces {
        if let Some(shown) = &piece.shown {
            text.push_str("\n\n");
            text.push_str(&fence::fenced(host::seed(), "trace", &shown.text));
        }
    }
    let listed = pieces.iter().filter(is_short).take(MAX_LISTED).map(Piece::recorded);
    let left_out = object([
        ("observations", Json::from(entries.len())),
        ("outlined", Json::from(n_outlined)),
        ("parts", Json::from(pieces.len())),
        ("parts_absent", Json::from(n_absent)),
        ("bytes", Json::from(n_bytes)),
        ("kept_bytes", Json::from(n_kept)),
        ("left_out", Json::Array(listed.collect())),
        ("left_out_further", Json::from(n_short.saturating_sub(MAX_LISTED))),
    ]);
    Ok(Digest { text, left_out })
}

impl Piece<'_> {
    fn kept(&self) -> usize {
        self.shown.as_ref().map_or(0, |shown| shown.n_kept)
    }

    fn recorded(&self) -> Json {
        object([
            ("observation", Json::from(self.entry.id.as_str())),
            ("part", Json::from(part_name(self.part))),
            ("bytes", Json::from(self.size)),
            ("kept_bytes", Json::from(self.kept())),
        ])
    }
}

/// All inputs and outputs in the order in which they get room: the judged observation, then by severity, the short ones
/// before the long ones, then by place in the trace.
fn pieces<'t>(entries: &'t [OutlineEntry], judged: Option<&str>) -> Vec<Piece<'t>> {
    let of_entry = |(position, entry): (usize, &'t OutlineEntry)| {
        let parts = [(Part::Input, entry.input_size), (Part::Output, entry.output_size)];
        let parts = parts.into_iter().filter(|(_, size)| 0 < *size);
        parts.map(move |(part, size)| Piece {
            entry,
            position,
            part,
            size: usize::try_from(size).unwrap_or(usize::MAX),
            shown: None,
        })
    };
    let mut pieces: Vec<_> = entries.iter().enumerate().flat_map(of_entry).collect();
    pieces.sort_by_key(|piece| {
        let is_judged = judged == Some(piece.entry.id.as_str());
        let place = (piece.position, piece.part == Part::Output);
        (Reverse(is_judged), rank(piece.entry.severity), piece.size, place)
    });
    pieces
}

/// Reads pieces as long as there is room. None takes more than a quarter of what is left, so that one long text does not
/// keep out the others.
fn fill(pieces: &mut [Piece<'_>], trace: &TraceRef, mut left: usize) -> Result<(), EvalError> {
    let n_pieces = pieces.len().min(MAX_PIECES);
    for (at, piece) in pieces.iter_mut().take(n_pieces).enumerate() {
        let frame = FRAME + piece.entry.id.len();
        let share = left / (n_pieces - at).min(4);
        let room = share.max(LEAST + frame).min(left).saturating_sub(frame).min(MOST);
        if room < piece.size.min(LEAST) {
            break;
        }
        match shown(piece, trace, room) {
            Ok(Some(shown)) => {
                left = left.saturating_sub(shown.text.len() + frame);
                piece.shown = Some(shown);
            }
            Ok(None) => {}
            // As much was read as can be: what is missing counts as left out.
            Err(TraceError::TooLarge(_)) => break,
            Err(other) => return Err(other.into()),
        }
    }
    Ok(())
}

/// A piece with its headline, its middle left out where it is longer than the room.
fn shown(piece: &Piece<'_>, trace: &TraceRef, room: usize) -> Result<Option<Shown>, TraceError> {
    let read = |offset: usize, length: usize| {
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let (id, part) = (&piece.entry.id, piece.part);
        trace::read_range(&trace.trace_id, id, part, offset as u64, length)
    };
    let head = format!(
        "{} of {}, {} bytes:",
        part_name(piece.part),
        one_line(&piece.entry.id, usize::MAX),
        piece.size
    );
    if piece.size <= room {
        return Ok(read(0, piece.size)?.map(|slice| Shown {
            n_kept: slice.text.len(),
            text: format!("{head}\n{}", slice.text),
        }));
    }
    let (Some(first), Some(last)) = (read(0, room / 2)?, read(piece.size - room / 2, room / 2)?)
    else {
        return Ok(None);
    };
    let n_kept = first.text.len() + last.text.len();
    let n_absent = piece.size.saturating_sub(n_kept);
    Ok(Some(Shown {
        text: format!("{head}\n{}\n[{n_absent} bytes left out]\n{}", first.text, last.text),
        n_kept,
    }))
}
