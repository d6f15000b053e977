//! Cron expressions against the recorded answers of other implementations: `scripts/cron-table` made them.
//!
//! The answer to agree with is cronsim's or, where it does not take the expression, croniter's. Where Mainspring decided
//! otherwise the table has a line `ours` with the name of the decision.

use std::fmt::Write;

use mainspring_core::schedule::Cron;
use mainspring_core::time;

const TABLE: &str = include_str!("cron_cases.txt");
const DECISIONS: &str = include_str!("../../../docs/decisions/0006-cron-and-daylight-saving.md");

struct Case<'t> {
    expression: &'t str,
    zone: &'t str,
    after: &'t str,
    /// By who says so.
    answers: Vec<(&'t str, &'t str)>,
}

fn cases() -> Vec<Case<'static>> {
    let blocks = TABLE.split("\n\n").skip(1);
    blocks
        .map(|block| {
            let mut lines = block.trim_end().lines();
            let mut head = lines.next().unwrap_or_default().split(" | ");
            let mut part = || head.next().unwrap_or_else(|| panic!("a head is too short: {block}"));
            let (expression, zone, after) = (part(), part(), part());
            let answers = lines.filter_map(|line| line.trim().split_once(' ')).collect();
            Case { expression, zone, after, answers }
        })
        .collect()
}

impl Case<'_> {
    fn answer(&self, who: &str) -> Option<&str> {
        self.answers.iter().find(|(name, answer)| *name == who && *answer != "-").map(|(_, answer)| *answer)
    }

    /// What the others say.
    fn reference(&self) -> &str {
        let reference = self.answer("=").or_else(|| self.answer("cronsim")).or_else(|| self.answer("croniter"));
        reference.unwrap_or_else(|| panic!("no reference for {}", self.expression))
    }

    fn found(&self) -> String {
        let cron =
            Cron::parse(self.expression, self.zone).unwrap_or_else(|error| panic!("{}: {error}", self.expression));
        let mut at = time::parse(self.after).unwrap_or_else(|| panic!("{} is no time", self.after));
        let mut found = Vec::new();
        while found.len() < self.reference().split(' ').count() {
            at = cron.next_after(at).unwrap_or_else(|| panic!("{} ends", self.expression));
            found.push(time::rfc3339_short(at));
        }
        found.join(" ")
    }
}

#[test]
fn schedule_instants_agree_with_other_implementations_or_a_decision() {
    let mut wrong = String::new();
    for case in cases() {
        let ours = case.answer("ours").and_then(|ours| ours.split_once(' '));
        let expected = ours.map_or(case.reference(), |(_, instants)| instants);
        let found = case.found();
        if found != expected {
            let _ = writeln!(
                wrong,
                "{} | {} | {}\n  expected {expected}\n  found    {found}",
                case.expression, case.zone, case.after
            );
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn schedule_differences_are_real_and_decided() {
    let cases = cases();
    assert!(cases.len() >= 120, "only {} cases", cases.len());
    for case in &cases {
        let Some((decision, instants)) = case.answer("ours").and_then(|ours| ours.split_once(' ')) else { continue };
        assert_ne!(instants, case.reference(), "{} | {} does not differ", case.expression, case.zone);
        let heading = format!("## `{decision}`");
        let (_, section) = DECISIONS.split_once(&heading).unwrap_or_else(|| panic!("{decision} is not decided"));
        let section = section.split("\n## ").next().unwrap_or_default();
        let line = format!("`{}` in {}", case.expression, case.zone);
        assert!(section.contains(&line), "the decision {decision} does not list {line}");
    }
}
