//! The digest of a trace: its outline, then inputs and outputs within a limit. Equal traces have equal digests.

use std::cmp::Reverse;

use perpend_plugin::host;
use perpend_plugin::trace::{self, OutlineEntry, Part, TraceError};
use perpend_plugin::{EvalError, Json, TraceRef};

use crate::fence;
use crate::outline::{entries, one_line, part_name, rank, render};
use crate::shape::object;

/// The bytes reserved for the sentences around the digest.
const OVERHEAD: usize = 700;
/// The bytes of the fence and the headline of a piece, without its id.
const FRAME: usize = 160;
/// The minimum length of an excerpt, in bytes.
const MIN_EXCERPT: usize = 200;
/// The maximum length of one read, in bytes.
const MAX_READ: usize = 1 << 20;
/// The maximum number of pieces of a digest.
const MAX_PIECES: usize = 1_000;
/// The maximum number of pieces in the metadata of a score.
const MAX_LISTED: usize = 50;

/// A digest, and the metadata about the omitted parts.
pub(crate) struct Digest {
    pub(crate) text: String,
    pub(crate) left_out: Json,
}

/// The input or output of an observation.
struct Piece<'t> {
    entry: &'t OutlineEntry,
    /// The position of the observation in the trace.
    position: usize,
    part: Part,
    size: usize,
    /// `None` when the piece is omitted.
    excerpt: Option<Excerpt>,
}

struct Excerpt {
    text: String,
    n_kept: usize,
}

/// The digest of a trace in at most `n_bytes`.
///
/// # Errors
/// `upstream` when the trace cannot be read.
pub(crate) fn of(trace: &TraceRef, n_bytes: usize) -> Result<Digest, EvalError> {
    let entries = entries(trace)?;
    let judged = trace.observation_id.as_deref();
    let budget = n_bytes.saturating_sub(OVERHEAD);
    let (outline, n_outlined) = render(&entries, judged, budget / 3);
    let mut pieces = pieces(&entries, judged);
    fill(&mut pieces, trace, budget.saturating_sub(outline.len() + FRAME))?;
    pieces.sort_by_key(|piece| (piece.position, piece.part == Part::Output));

    let sizes = pieces.iter().map(|piece| piece.size);
    let n_bytes = sizes.fold(0, usize::saturating_add);
    let excerpts = pieces.iter().filter_map(|piece| piece.excerpt.as_ref());
    let n_kept: usize = excerpts.map(|excerpt| excerpt.n_kept).sum();
    let is_short = |piece: &&Piece<'_>| piece.n_kept() < piece.size;
    let n_short = pieces.iter().filter(is_short).count();
    let n_absent = pieces.iter().filter(|piece| piece.excerpt.is_none()).count();
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
        if let Some(excerpt) = &piece.excerpt {
            text.push_str("\n\n");
            text.push_str(&fence::fenced(host::seed(), "trace", &excerpt.text));
        }
    }
    let listed = pieces.iter().filter(is_short).take(MAX_LISTED).map(Piece::to_metadata);
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
    fn n_kept(&self) -> usize {
        self.excerpt.as_ref().map_or(0, |excerpt| excerpt.n_kept)
    }

    fn to_metadata(&self) -> Json {
        object([
            ("observation", Json::from(self.entry.id.as_str())),
            ("part", Json::from(part_name(self.part))),
            ("bytes", Json::from(self.size)),
            ("kept_bytes", Json::from(self.n_kept())),
        ])
    }
}

/// All inputs and outputs in order of priority: the judged observation first, then by severity, then by size, then by
/// position in the trace.
fn pieces<'t>(entries: &'t [OutlineEntry], judged: Option<&str>) -> Vec<Piece<'t>> {
    let of_entry = |(position, entry): (usize, &'t OutlineEntry)| {
        let parts = [(Part::Input, entry.input_size), (Part::Output, entry.output_size)];
        let parts = parts.into_iter().filter(|(_, size)| 0 < *size);
        parts.map(move |(part, size)| Piece {
            entry,
            position,
            part,
            size: usize::try_from(size).unwrap_or(usize::MAX),
            excerpt: None,
        })
    };
    let mut pieces: Vec<_> = entries.iter().enumerate().flat_map(of_entry).collect();
    pieces.sort_by_key(|piece| {
        let is_judged = judged == Some(piece.entry.id.as_str());
        let position = (piece.position, piece.part == Part::Output);
        (Reverse(is_judged), rank(piece.entry.severity), piece.size, position)
    });
    pieces
}

/// Reads excerpts until the budget is spent. Each takes at most a quarter of the remaining bytes, so that one long text does
/// not displace the others.
fn fill(pieces: &mut [Piece<'_>], trace: &TraceRef, mut remaining: usize) -> Result<(), EvalError> {
    let n_pieces = pieces.len().min(MAX_PIECES);
    for (at, piece) in pieces.iter_mut().take(n_pieces).enumerate() {
        let frame = FRAME + piece.entry.id.len();
        let share = remaining / (n_pieces - at).min(4);
        let budget =
            share.max(MIN_EXCERPT + frame).min(remaining).saturating_sub(frame).min(MAX_READ);
        if budget < piece.size.min(MIN_EXCERPT) {
            break;
        }
        match excerpt(piece, trace, budget) {
            Ok(Some(excerpt)) => {
                remaining = remaining.saturating_sub(excerpt.text.len() + frame);
                piece.excerpt = Some(excerpt);
            }
            Ok(None) => {}
            // The allowance of the call is spent: the remaining pieces count as omitted.
            Err(TraceError::TooLarge(_)) => break,
            Err(other) => return Err(other.into()),
        }
    }
    Ok(())
}

/// A piece with its headline, without its middle when it is longer than the budget.
fn excerpt(
    piece: &Piece<'_>,
    trace: &TraceRef,
    budget: usize,
) -> Result<Option<Excerpt>, TraceError> {
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
    if piece.size <= budget {
        return Ok(read(0, piece.size)?.map(|slice| Excerpt {
            n_kept: slice.text.len(),
            text: format!("{head}\n{}", slice.text),
        }));
    }
    let (Some(first), Some(last)) =
        (read(0, budget / 2)?, read(piece.size - budget / 2, budget / 2)?)
    else {
        return Ok(None);
    };
    let n_kept = first.text.len() + last.text.len();
    let n_absent = piece.size.saturating_sub(n_kept);
    Ok(Some(Excerpt {
        text: format!("{head}\n{}\n[{n_absent} bytes left out]\n{}", first.text, last.text),
        n_kept,
    }))
}
