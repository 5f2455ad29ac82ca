//! Columns and the width of the terminal.

/// The width of each column: that of its longest cell, and at least as given.
pub(super) fn columns<'a, const COLUMNS: usize>(
    rows: impl IntoIterator<Item = &'a [String; COLUMNS]>,
    least: [usize; COLUMNS],
) -> [usize; COLUMNS] {
    rows.into_iter().fold(least, |mut widths, row| {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
        widths
    })
}

/// `text`, or as much of its beginning as there is room for.
pub(super) fn cut(text: &str, room: Option<usize>) -> String {
    // A column too narrow to tell names apart is no help; such a terminal wraps lines.
    let Some(room) = room.filter(|&room| room >= 20 && text.chars().count() > room) else {
        return text.into();
    };
    text.chars().take(room - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn names_are_cut_to_the_room_there_is_and_in_pipes_not() {
        let name = "a_function_with_a_name_of_41_characters__";
        assert_eq!(cut(name, None), name);
        assert_eq!(cut(name, Some(41)), name);
        assert_eq!(cut(name, Some(24)), "a_function_with_a_name_…");
        assert_eq!(cut(name, Some(5)), name);
    }
}
