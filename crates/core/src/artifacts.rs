//! Selects files of a task: patterns of `artifacts`, the same wherever files are kept or handed on.

use glob::{MatchOptions, Pattern};

const MATCHING: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// Patterns over relative paths with `/` between their parts.
#[derive(Debug, Clone, Default)]
pub struct ArtifactPatterns(Vec<Pattern>);

impl ArtifactPatterns {
    /// Reads patterns; the error says what is wrong with which.
    pub fn read<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Self, String> {
        texts.into_iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    pub fn matches(&self, path: &str) -> bool {
        self.0.iter().any(|pattern| pattern.matches_with(path, MATCHING))
    }
}

fn read(text: &str) -> Result<Pattern, String> {
    let plain = text.strip_prefix("./").unwrap_or(text);
    let outside = plain.starts_with('/') || plain.split('/').any(|part| part == "..");
    if plain.is_empty() || outside {
        return Err(format!("the pattern `{text}` should be relative to the working directory, without `..`"));
    }
    // A folder stands for all that is in it.
    let whole = if plain.ends_with('/') { format!("{plain}**") } else { plain.to_owned() };
    let whole = if whole.ends_with("/**") { format!("{whole}/*") } else { whole };
    Pattern::new(&whole).map_err(|error| format!("`{text}` is not a pattern: {error}; use *, ?, [a-z] and **"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_stands_for_all_that_is_in_it() {
        let patterns = ArtifactPatterns::read(["dist/", "./*.txt"]).unwrap();
        for (path, expected) in [
            ("dist/a", true),
            ("dist/deep/b", true),
            ("c.txt", true),
            ("sub/c.txt", false),
            (".hidden.txt", false),
            ("distant", false),
        ] {
            assert_eq!(patterns.matches(path), expected, "{path}");
        }
        for text in ["/etc/passwd", "../*", "a/../../b", "", "[", "***"] {
            assert!(ArtifactPatterns::read([text]).is_err(), "{text}");
        }
    }
}
