//! Source lines of a unit.

use super::Slice;
use crate::symbolize::texts::Texts;
use gimli::{AttributeValue, ColumnType, Reader as _, UnitRef};
use std::{collections::HashMap, sync::Arc};

/// Source position of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineRow {
    /// Index in the unit's line table.
    pub(super) file: u64,
    pub(super) line: u64,
    pub(super) column: u64,
    /// Start address of the sequence of rows.
    sequence: u64,
}

/// Adds the addresses of a unit's rows.
pub(super) fn add_rows(unit: UnitRef<'_, Slice<'_>>, addresses: &mut Vec<u64>) {
    let Some(program) = unit.line_program.clone() else { return };
    let mut rows = program.rows();
    while let Ok(Some((_, row))) = rows.next_row() {
        addresses.push(row.address());
    }
}

pub(super) struct Lines<'a, 'data> {
    unit: UnitRef<'a, Slice<'data>>,
    texts: &'a Texts,
    files: HashMap<u64, Arc<str>>,
}

impl<'a, 'data> Lines<'a, 'data> {
    pub(super) fn new(unit: UnitRef<'a, Slice<'data>>, texts: &'a Texts) -> Self {
        Self { unit, texts, files: HashMap::new() }
    }

    /// Finds the rows of sorted `addresses`.
    pub(super) fn find(&self, addresses: &[u64]) -> Vec<Option<LineRow>> {
        let mut found: Vec<Option<LineRow>> = vec![None; addresses.len()];
        let Some(program) = self.unit.line_program.clone() else { return found };
        let mut rows = program.rows();
        // The previous row and its address; index of the first address not below it.
        let mut before: Option<(u64, LineRow)> = None;
        let mut place = 0;
        while let Ok(Some((_, row))) = rows.next_row() {
            let address = row.address();
            let sequence = before.map_or(address, |(_, row)| row.sequence);
            match before {
                Some((from, row)) if from < address => {
                    // Linkers write 0 for dropped code. The sequence with the highest start counts.
                    while place < addresses.len() && addresses[place] < address {
                        if row.sequence != 0 && found[place].is_none_or(|found| found.sequence < row.sequence)
                        {
                            found[place] = Some(row);
                        }
                        place += 1;
                    }
                }
                Some((from, _)) if from == address => {}
                _ => place = addresses.partition_point(|&known| known < address),
            }
            before = (!row.end_sequence()).then(|| {
                let column = match row.column() {
                    ColumnType::LeftEdge => 0,
                    ColumnType::Column(column) => column.get(),
                };
                let line = row.line().map_or(0, |line| line.get());
                (address, LineRow { file: row.file_index(), line, column, sequence })
            });
        }
        found
    }

    /// Returns the path of a file in the table; empty if it has none.
    pub(super) fn file(&mut self, number: u64) -> Arc<str> {
        if let Some(file) = self.files.get(&number) {
            return file.clone();
        }
        let file = self.texts.get(&self.path(number).unwrap_or_default());
        self.files.insert(number, file.clone());
        file
    }

    fn path(&self, number: u64) -> Option<Vec<u8>> {
        let header = self.unit.line_program.as_ref()?.header();
        let file = header.file(number)?;
        let mut path = match &self.unit.comp_dir {
            Some(directory) => directory.to_slice().ok()?.into_owned(),
            None => Vec::new(),
        };
        // Directory 0 is the compilation directory.
        if file.directory_index() != 0 {
            self.push(&mut path, file.directory(header)?)?;
        }
        self.push(&mut path, file.path_name())?;
        Some(path)
    }

    fn push(&self, path: &mut Vec<u8>, part: AttributeValue<Slice<'data>>) -> Option<()> {
        let part = self.unit.attr_string(part).ok()?;
        let part = part.to_slice().ok()?;
        if part.starts_with(b"/") {
            path.clear();
        } else if !path.is_empty() && !path.ends_with(b"/") {
            path.push(b'/');
        }
        path.extend_from_slice(&part);
        Some(())
    }
}
