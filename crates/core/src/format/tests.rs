//! What is changed, what stays, and that both are the same in meaning.

use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(source: &str, expected: &str) {
    let formatted = format(source).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(formatted, expected, "\n{formatted}");
    assert_eq!(format(&formatted).as_deref(), Ok(expected), "not the same the second time");
}

#[test]
fn levels_are_two_columns_apart() {
    check("a:\n    b:\n          c: 1\n    d: 2\ne: 3\n", "a:\n  b:\n    c: 1\n  d: 2\ne: 3\n");
    check("a:\n- x\n- y\nb: 1\n", "a:\n  - x\n  - y\nb: 1\n");
    check(
        "a:\n    -   b: 1\n        c:\n        - d\n    -\n        e: 1\n",
        "a:\n  - b: 1\n    c:\n      - d\n  -\n    e: 1\n",
    );
    check("- - a\n  - b\n-   - c\n", "- - a\n  - b\n- - c\n");
}

#[test]
fn comments_stay_with_their_lines() {
    check(
        "# top  \n\n\n\na:   # behind\n    # of b\n    b: 1\n    # end of a\n# of c\nc: 2\n# last\n",
        "# top\n\na:   # behind\n  # of b\n  b: 1\n  # end of a\n# of c\nc: 2\n# last\n",
    );
    check("a:\n        # alone\n    b: 1\n", "a:\n  # alone\n  b: 1\n");
}

#[test]
fn texts_keep_every_character() {
    check(
        "a:\n      run: |\n            one\n              two  \n\n            three\n      b: 1\n",
        "a:\n  run: |\n    one\n      two  \n\n    three\n  b: 1\n",
    );
    check("a:\n    - |\n     x\n    - >-\n       y\n", "a:\n  - |\n    x\n  - >-\n    y\n");
    check("a: |+\n  x\n\n\nb: 1\n", "a: |+\n  x\n\n\nb: 1\n");
    check("a: |\n  x\n\n\n\nb: 1\n", "a: |\n  x\n\nb: 1\n");
    check("a:\n    b: |2\n        x\n      y\n", "a:\n  b: |2\n      x\n    y\n");
    check("a: 'one\n\n\n    two'\n", "a: 'one\n\n\n    two'\n");
    check("a: [1,   2,\n      3] # x\nb: {c:    1}\n", "a: [1,   2,\n      3] # x\nb: {c:    1}\n");
    check(
        "a:\n    b: [1,\n        2,\n    # in between\n        3]\n",
        "a:\n  b: [1,\n      2,\n  # in between\n      3]\n",
    );
    check("a:\n    b: one\n      two\n    c: 1\n", "a:\n  b: one\n    two\n  c: 1\n");
}

#[test]
fn endings_are_cleaned() {
    check("a: 1   \r\nb: 2\r\n\r\n\r\n", "a: 1\nb: 2\n");
    check("\n\na: 1", "a: 1\n");
    check("---\na: 1\n", "---\na: 1\n");
}

#[test]
fn what_cannot_be_read_is_refused() {
    for source in ["", "a: [", "a: 1\na: 2\n", "a: !x 1\n", "\0"] {
        assert!(matches!(format(source), Err(FormatError::Unreadable(_))), "{source}");
    }
}

/// A value with texts of all kinds, written in a layout of its own.
fn document() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("x"),
        Just("'a  b'"),
        Just("\"q # no\""),
        Just("1"),
        Just("[a, {b: c}]"),
        Just("{}"),
        Just("x # comment")
    ];
    let block = prop_oneof![Just("|"), Just("|-"), Just(">"), Just("|+")];
    let entry = (0..6_u8, word, block, 1..4_usize, any::<bool>());
    proptest::collection::vec(entry, 1..24).prop_map(|entries| {
        let mut text = String::new();
        // The columns of the open mappings.
        let mut columns = vec![0_usize];
        for (number, (kind, word, block, step, flag)) in entries.into_iter().enumerate() {
            let column = columns[columns.len() - 1];
            let pad = " ".repeat(column);
            match kind {
                0 => {
                    text.push_str(&format!("{pad}k{number}:\n"));
                    columns.push(column + step);
                    text.push_str(&format!("{}in: {word}\n", " ".repeat(column + step)));
                }
                1 if columns.len() > 1 => _ = columns.pop(),
                2 => {
                    let inner = " ".repeat(column + step);
                    let spaces = if flag { "\n   \n" } else { "\n" };
                    text.push_str(&format!(
                        "{pad}k{number}: {block}\n{inner}one\n{inner}   two{spaces}{inner}# three\n"
                    ));
                }
                3 => {
                    let inner = " ".repeat(if flag { column } else { column + step });
                    text.push_str(&format!("{pad}k{number}:\n{inner}-  a: 1\n{inner}   b: {word}\n{inner}- {word}\n"));
                }
                4 => text.push_str(&format!("{}# remark\n\n\n", " ".repeat(if flag { column } else { step }))),
                _ => text.push_str(&format!("{pad}k{number}: {word}\n")),
            }
        }
        text.push_str("last: 1\n");
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_but_the_layout_changes(source in document()) {
        let formatted = match format(&source) {
            Ok(formatted) => formatted,
            Err(error) => return Err(TestCaseError::fail(format!("{error}\n{source}"))),
        };
        let again = format(&formatted);
        prop_assert_eq!(again.as_ref(), Ok(&formatted));
        let comments = |text: &str| text.matches("remark").count();
        prop_assert_eq!(comments(&source), comments(&formatted));
    }
}
