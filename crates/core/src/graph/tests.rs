//! Pictures as they are seen, and what must hold for every one.

use proptest::prelude::*;

use crate::Workflow;
use crate::parse;
use crate::workflow::{Action, Child, Foreach};

use super::*;

fn drawn(workflow: &Workflow, columns: usize, ascii: bool) -> String {
    let lines = text(workflow, Style { columns, ascii, all: false });
    lines.iter().map(|line| line.iter().map(|(_, text)| text.as_str()).collect::<String>() + "\n").collect()
}

fn workflow(yaml: &str) -> Workflow {
    parse(yaml).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn a_small_graph_is_drawn_with_boxes() {
    let workflow = workflow(
        "{name: etl, tasks: {extract: {run: x}, rates: {run: x}, transform: {needs: [extract, rates], function: noop},
        load: {needs: [transform, extract], run: x, if: 'true'}}, finally: {clean: {run: x}}}",
    );
    insta::assert_snapshot!(drawn(&workflow, 80, false));
    insta::assert_snapshot!(drawn(&workflow, 80, true));
}

#[test]
fn edges_that_pass_do_not_join() {
    let workflow = workflow(
        "{name: cross, tasks: {a: {run: x}, b: {run: x}, c: {run: x}, p: {needs: [a, b], run: x},
        q: {needs: [b, c], run: x}, r: {needs: [a, c], run: x}, end: {needs: [p, q, r, a], run: x}}}",
    );
    insta::assert_snapshot!(drawn(&workflow, 80, false));
}

#[test]
fn repetition_and_children_are_shown() {
    let mut workflow = workflow("{name: w, tasks: {a: {run: x}, b: {needs: a, run: x, trigger_rule: all_done}}}");
    workflow.tasks[1].foreach = Some(Foreach::Expression("inputs.parts".into()));
    workflow.tasks[1].max_parallel = Some(8);
    let child = Child { name: "load-part".into(), namespace: None, inputs: Default::default() };
    workflow.tasks[1].action = Action::Workflow(child);
    let shown = drawn(&workflow, 80, false);
    assert!(shown.contains("workflow load-part · foreach, 8 at once · all_done"), "{shown}");
}

fn wide(count: usize) -> Workflow {
    let mut yaml = String::from("name: wide\ntasks:\n  split: {run: x}\n");
    for number in 0..count {
        yaml.push_str(&format!("  shard-{number:04}: {{needs: split, run: x}}\n"));
    }
    yaml.push_str("  merge: {needs: [");
    yaml.push_str(&(0..count).map(|number| format!("shard-{number:04}")).collect::<Vec<_>>().join(", "));
    yaml.push_str("], run: x}\n");
    workflow(&yaml)
}

#[test]
fn many_tasks_are_summarised() {
    insta::assert_snapshot!(drawn(&wide(1_000), 80, false));
    let all = text(&wide(1_000), Style { columns: 80, ascii: false, all: true });
    assert!(all.len() > 1_000);
    insta::assert_snapshot!(drawn(&wide(12), 80, false));
}

#[test]
fn names_cannot_break_out_of_a_picture() {
    let mut workflow = workflow("{name: w, tasks: {a: {run: x}, b: {needs: a, run: x}}}");
    let hostile = "\"];evil</text><script>alert(1)</script>\n\u{1b}[31m`&'<!--";
    workflow.name = hostile.into();
    workflow.tasks[0].name = hostile.into();
    workflow.tasks[1].action = Action::Function { handler: hostile.into(), payload: Default::default() };
    workflow.tasks[1].description = Some(hostile.into());
    let svg = svg(&workflow);
    assert!(!svg.contains("<script") && !svg.contains('\u{1b}') && !svg.contains("<!--"), "{svg}");
    let dot = dot(&workflow);
    assert!(dot.contains("\\\"];evil") && !dot.contains('\u{1b}'), "{dot}");
    let mermaid = mermaid(&workflow);
    assert!(!mermaid.contains("<script") && !mermaid.contains('\u{1b}'), "{mermaid}");
    assert_eq!(mermaid.lines().count(), 4, "{mermaid}");
    assert!(!drawn(&workflow, 80, false).contains('\u{1b}'));
}

/// Every tag is closed in the order it was opened, and every `&` begins a reference.
fn is_well_formed(xml: &str) -> bool {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = xml;
    while let Some(at) = rest.find('<') {
        let Some(end) = rest[at..].find('>') else { return false };
        let tag = &rest[at + 1..at + end];
        rest = &rest[at + end + 1..];
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap_or_default();
        if tag.matches('"').count() % 2 == 1 {
            return false;
        }
        match (tag.starts_with('/'), tag.ends_with('/')) {
            (true, _) if open.pop() != Some(name) => return false,
            (false, false) => open.push(name),
            _ => {}
        }
    }
    let references = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"];
    let bare = xml.match_indices('&').filter(|(at, _)| !references.iter().any(|one| xml[*at..].starts_with(one)));
    open.is_empty() && bare.count() == 0
}

#[test]
fn size_is_no_problem() {
    let deep = {
        let mut yaml = String::from("name: deep\ntasks:\n  t0: {run: x}\n  t1: {needs: t0, run: x}\n");
        for number in 2..3_000 {
            yaml.push_str(&format!("  t{number}: {{needs: [t{}, t0], run: x}}\n", number - 1));
        }
        workflow(&yaml)
    };
    assert!(is_well_formed(&svg(&deep)));
    assert!(drawn(&deep, 80, false).contains("and 2960 more layers"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_graph_has_pictures_that_fit(needs in proptest::collection::vec(proptest::collection::vec(any::<prop::sample::Index>(), 0..4), 1..24), columns in 30_usize..200) {
        let mut yaml = String::from("name: w\ntasks:\n");
        for (number, chosen) in needs.iter().enumerate() {
            let mut chosen: Vec<usize> = if number == 0 { Vec::new() } else { chosen.iter().map(|one| one.index(number)).collect() };
            chosen.sort_unstable();
            chosen.dedup();
            let chosen: Vec<String> = chosen.iter().map(|one| format!("t{one}")).collect();
            yaml.push_str(&format!("  t{number}: {{run: x, needs: [{}]}}\n", chosen.join(", ")));
        }
        let workflow = workflow(&yaml);
        for ascii in [true, false] {
            let shown = drawn(&workflow, columns, ascii);
            prop_assert!(shown.lines().all(|line| line.chars().count() <= columns), "{}", shown);
            prop_assert!(!ascii || shown.is_ascii());
            for task in &workflow.tasks {
                prop_assert!(shown.contains(&task.name), "{} is missing in\n{}", task.name, shown);
            }
        }
        prop_assert!(is_well_formed(&svg(&workflow)));
        let edges: usize = workflow.tasks.iter().map(|task| task.needs.len()).sum();
        prop_assert_eq!(dot(&workflow).matches(" -> ").count(), edges);
        prop_assert_eq!(mermaid(&workflow).matches(" --> ").count(), edges);
    }
}
