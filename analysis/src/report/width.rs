//! Column widths and the terminal width.

/// Returns the width of each column: that of its longest cell, at least `least`.
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

/// Cuts `text` to the available width.
pub(super) fn cut(text: &str, room: Option<usize>) -> String {
    // A very narrow column cannot distinguish names; such a terminal wraps lines instead.
    let Some(room) = room.filter(|&room| room >= 20 && text.chars().count() > room) else {
        return text.into();
    };
    text.chars().take(room - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn cuts_names_to_the_terminal_but_not_in_pipes() {
        let name = "a_function_with_a_name_of_41_characters__";
        assert_eq!(cut(name, None), name);
        assert_eq!(cut(name, Some(41)), name);
        assert_eq!(cut(name, Some(24)), "a_function_with_a_name_…");
        assert_eq!(cut(name, Some(5)), name);
    }
}
