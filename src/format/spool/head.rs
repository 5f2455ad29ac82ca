//! The head of a spool, for readers.

use super::{
    Ancestors, END, EndFigures, FIGURES, FileStamp, MAGIC, MAX_ARENA_BYTES, MAX_OBJECTS, MAX_PATH_BYTES,
    PATHS, SPILL_NAME_BYTES, SPILL_PREFIX, SPILL_SUFFIX, SpoolError, SpoolSource, SpoolState, TEXT_BYTES,
    VERSION, end_figures::figures, field, number_at, read,
};
use crate::format::double_buffer::{BufferState, MAX_SPILLED_WORDS};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) word_bytes: usize,
    pub(crate) is_complete: bool,
    /// The session is over; the process may still run.
    pub(crate) is_ended: bool,
    /// `exec` may have replaced the program: it did if the process has a younger spool.
    pub(crate) is_replaced: bool,
    /// None if the process was killed.
    pub(crate) figures: Option<EndFigures>,
    pub(crate) process: u32,
    pub(crate) process_start: u64,
    pub(crate) namespace: u64,
    pub(crate) started: u64,
    pub(crate) period_micros: u64,
    pub(crate) is_truncated: bool,
    pub(crate) is_by_thread: bool,
    pub(crate) ancestors: Ancestors,
    pub(crate) lost: u64,
    /// Of the target file at the start of the session, and as the session wrote it.
    pub(crate) stamps: [FileStamp; 2],
    pub(crate) target: Vec<u8>,
    pub(crate) program: Vec<u8>,
    /// The spilled records; None if there are none.
    pub(crate) spilled: Option<Spilled>,
    /// The name of the spill file, which may exist without a record.
    pub(crate) spill_name: Option<Vec<u8>>,
    pub(super) buffer_state: BufferState,
    pub(super) half_words: u64,
    pub(super) arena_bytes: u64,
    pub(super) text_from: u64,
    pub(super) text_bytes: u64,
    pub(super) objects: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spilled {
    /// Valid bytes at the start of the file.
    pub(crate) bytes: u64,
    pub(crate) periods: u64,
}

impl Head {
    /// Reads the head.
    ///
    /// # Errors
    /// The reason why it is not a valid head.
    pub(crate) fn read(source: &impl SpoolSource) -> Result<Self, SpoolError> {
        let bytes = read(source, 0, PATHS as u64)?;
        let number = |offset: usize| number_at(&bytes, offset).ok_or(SpoolError::NoSpool);
        if number(field::MAGIC)? != MAGIC {
            let is_swapped = number(field::MAGIC)?.swap_bytes() == MAGIC;
            return Err(if is_swapped { SpoolError::OtherVersion } else { SpoolError::NoSpool });
        }
        if number(field::VERSION)? != VERSION {
            return Err(SpoolError::OtherVersion);
        }
        let end = read(source, END as u64, (field::FIGURES + 8 * FIGURES - END) as u64)?;
        let state = number(field::STATE)?;
        if state == 0 {
            return Err(SpoolError::NoSpool);
        }
        let word_bytes = match number(field::WORD_BYTES)? {
            4 => 4,
            8 => 8,
            _ => return Err(SpoolError::Damaged("width of words")),
        };
        let process =
            u32::try_from(number(field::PROCESS)?).map_err(|_| SpoolError::Damaged("process id"))?;
        let period_micros = number(field::PERIOD_MICROS)?;
        if !(1..=u64::from(u32::MAX)).contains(&period_micros) {
            return Err(SpoolError::Damaged("period"));
        }
        let stamp = |device, inode, changed| -> Result<FileStamp, SpoolError> {
            Ok(FileStamp { device: number(device)?, inode: number(inode)?, changed: number(changed)? })
        };
        let paths = [number(field::TARGET_BYTES)?, number(field::PROGRAM_BYTES)?];
        if paths.iter().any(|&length| length > MAX_PATH_BYTES) {
            return Err(SpoolError::Damaged("length of a path"));
        }
        let buffer_state = BufferState::from_word(number(field::BUFFER_STATE)?);
        let mut ancestors = Ancestors::default();
        for (ancestor, offset) in ancestors.0.iter_mut().zip((field::ANCESTORS..).step_by(8)) {
            *ancestor = u32::try_from(number(offset)?).map_err(|_| SpoolError::Damaged("ancestors"))?;
        }
        Ok(Self {
            spilled: spilled(&bytes, buffer_state, word_bytes),
            spill_name: spill_name(&bytes).map(<[u8]>::to_vec),
            buffer_state,
            half_words: number(field::HALF_WORDS)?,
            word_bytes,
            is_complete: state == SpoolState::Complete as u64,
            is_ended: state == SpoolState::Ended as u64,
            is_replaced: state == SpoolState::Replaced as u64,
            figures: figures(&end),
            process,
            process_start: number(field::PROCESS_START)?,
            namespace: number(field::NAMESPACE)?,
            started: number(field::STARTED)?,
            period_micros,
            is_truncated: number(field::IS_TRUNCATED)? != 0,
            is_by_thread: number(field::IS_BY_THREAD)? != 0,
            ancestors,
            lost: number(field::LOST)?,
            stamps: [
                stamp(field::TARGET_DEVICE, field::TARGET_INODE, field::TARGET_CHANGED)?,
                stamp(field::WRITTEN_DEVICE, field::WRITTEN_INODE, field::WRITTEN_CHANGED)?,
            ],
            target: read(source, PATHS as u64, paths[0])?,
            program: read(source, PATHS as u64 + paths[0], paths[1])?,
            arena_bytes: number(field::ARENA_BYTES)?.min(MAX_ARENA_BYTES),
            text_from: number_at(&end, 0).unwrap_or(0).min(TEXT_BYTES as u64),
            text_bytes: number(field::TEXT_BYTES)?.min(TEXT_BYTES as u64),
            objects: number(field::OBJECTS)?.min(MAX_OBJECTS as u64),
        })
    }
}

/// Owner of a spool without samples.
pub(crate) struct EmptyOwner {
    pub(crate) process: u32,
    pub(crate) process_start: u64,
    pub(crate) namespace: u64,
}

/// Returns the owner if these first bytes are those of a spool that is complete or has no sample.
pub(crate) fn owner_of_empty(head: &[u8]) -> Option<EmptyOwner> {
    let number = |offset| number_at(head, offset);
    let is_spool = number(field::MAGIC)? == MAGIC && number(field::VERSION)? == VERSION;
    let is_empty = number(field::ARENA_BYTES)? == 0 || number(field::STATE)? == SpoolState::Complete as u64;
    // With a spill file, a removal would leave that file.
    let is_empty = is_empty && spill_name(head).is_none();
    (is_spool && is_empty).then_some(EmptyOwner {
        process: u32::try_from(number(field::PROCESS)?).ok()?,
        process_start: number(field::PROCESS_START)?,
        namespace: number(field::NAMESPACE)?,
    })
}

/// Returns the name of the spill file; None if no session of this library uses such a name.
fn spill_name(head: &[u8]) -> Option<&[u8]> {
    let name = head.get(field::SPILL_NAME..field::SPILL_NAME + SPILL_NAME_BYTES)?;
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    let is_ours = name.starts_with(SPILL_PREFIX) && name.ends_with(SPILL_SUFFIX) && !name.contains(&b'/');
    is_ours.then_some(name)
}

fn spilled(head: &[u8], state: BufferState, word_bytes: usize) -> Option<Spilled> {
    let words = state.spilled.min(MAX_SPILLED_WORDS);
    // The head has the sums of the last slice before the slice is spilled.
    let is_behind_slice = words >= number_at(head, field::SPILLED_WORDS)?;
    let periods = if is_behind_slice { field::SPILLED_PERIODS } else { field::SPILLED_BEFORE };
    (words > 0 && spill_name(head).is_some())
        .then_some(Spilled { bytes: words * word_bytes as u64, periods: number_at(head, periods)? })
}
