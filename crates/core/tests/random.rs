//! Whatever the text, reading it ends with a workflow or with complaints.

use mainspring_core::parse;
use proptest::prelude::*;

fn texts() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases");
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the cases are there") {
        let content = std::fs::read_to_string(entry.expect("an entry").path()).expect("a text");
        for block in content.split("=== ").skip(1) {
            let start = block.find('\n').expect("a title");
            texts.push(block[start + 1..block.find("\n--- ").expect("an end")].to_owned());
        }
    }
    texts
}

/// Complaints are never empty and stand inside the text (or right behind it).
fn check(text: &str) {
    if let Err(problems) = parse(text) {
        assert!(!problems.0.is_empty());
        let lines = text.lines().count() as u32;
        for problem in problems.iter() {
            assert!(problem.place.line >= 1 && problem.place.line <= lines + 2, "{problem:?}\n{text}");
            assert!(!problem.message.is_empty());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn noise_is_read(text in "\\PC{0,200}") {
        check(&text);
    }

    #[test]
    fn punctuation_is_read(text in "[a-z:{}\\[\\],'\"&*!|>#%@$ \n-]{0,120}") {
        check(&text);
        check(&format!("name: w\ntasks:\n  t: {text}"));
    }

    #[test]
    fn expressions_are_read(text in "[a-z0-9_.|()\\[\\]{}'\"~+*/<>=!$ äß-]{0,60}") {
        let quoted = text.replace('\'', "''");
        check(&format!("name: w\ntasks: {{t: {{run: x, if: '{quoted}', env: {{A: '${{{{ {quoted} }}}}'}}}}}}"));
        check(&format!("name: w\ntasks: {{t: {{run: 'echo ${{{{ {quoted} }}}} {quoted}'}}}}"));
        check(&format!("name: w\ntasks: {{t: {{shell: python3, run: '{quoted} ${{{{ 1 }}}} {quoted}'}}}}"));
    }

    #[test]
    fn schedules_are_read(text in "[0-9*,/@LW#?A-Z -]{0,30}") {
        check(&format!("name: w\ntriggers: [{{cron: '{text}'}}]"));
    }

    /// A piece of one text inside another.
    #[test]
    fn mixtures_are_read(
        into in any::<prop::sample::Index>(),
        from in any::<prop::sample::Index>(),
        cuts in any::<[prop::sample::Index; 4]>(),
    ) {
        let texts = texts();
        let (into, from) = (&texts[into.index(texts.len())], &texts[from.index(texts.len())]);
        let cut = |text: &str, at: &prop::sample::Index| {
            let mut at = at.index(text.len() + 1);
            while !text.is_char_boundary(at) { at -= 1; }
            at
        };
        let (mut start, mut end) = (cut(into, &cuts[0]), cut(into, &cuts[1]));
        if start > end { std::mem::swap(&mut start, &mut end); }
        let (mut first, mut last) = (cut(from, &cuts[2]), cut(from, &cuts[3]));
        if first > last { std::mem::swap(&mut first, &mut last); }
        check(&format!("{}{}{}", &into[..start], &from[first..last], &into[end..]));
    }
}
