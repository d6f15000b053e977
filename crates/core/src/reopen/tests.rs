use super::*;
use crate::parse;

/// Ends by name: `a=failed`, `a[0]=success`, `a=skipped!` for a skip by hand, `a=failed~` for a failure that counts as success,
/// `a=failed*` for a task that was repeated over a list.
fn ended(workflow: &Workflow, text: &str) -> Vec<EndedTask> {
    let one = |word: &str| {
        let (name, state) = word.split_once('=').unwrap();
        let (name, item) = match name.split_once('[') {
            Some((name, item)) => (name, item.trim_end_matches(']').parse().unwrap()),
            None => (name, -1),
        };
        EndedTask {
            index: workflow.tasks.iter().position(|task| task.name == name).unwrap(),
            item,
            state: state.trim_end_matches(['!', '~', '*']).parse().unwrap(),
            attempt: 1,
            continues: state.ends_with('~'),
            skipped_by_hand: state.ends_with('!'),
            is_expanded: state.ends_with('*'),
        }
    };
    text.split_whitespace().map(one).collect()
}

/// The plan in words: tasks that live again (`+` if they start), what is taken back, how many failures stay, and what is
/// counted anew.
fn said(workflow: &Workflow, plan: &Result<ReopenPlan, ReopenRefused>) -> String {
    let plan = match plan {
        Ok(plan) => plan,
        Err(refused) => return refused.to_string(),
    };
    let name = |index: usize| workflow.tasks[index].name.clone();
    let mut words: Vec<String> = Vec::new();
    for task in &plan.tasks {
        let items = task.items.as_ref().map_or(String::new(), |items| format!("{:?}", items.again));
        words.push(format!("{}{}{items}", name(task.index), if task.starts { "+" } else { "" }));
    }
    words.push(format!("failed={}", plan.failed));
    for one in &plan.recounted {
        words.push(format!("{}:{:?}", name(one.index), one.verdict));
    }
    words.join(" ")
}

fn check(yaml: &str, ends: &str, what: &Reopen, expected: &str) {
    let workflow = parse(yaml).unwrap();
    let ended = ended(&workflow, ends);
    let plan = plan(&Situation { workflow: &workflow, ended: &ended, open: None }, what);
    assert_eq!(said(&workflow, &plan), expected, "{yaml} {ends} {what:?}");
}

fn check_open(yaml: &str, ends: &str, pending: &[usize], what: &Reopen, expected: &str) {
    let workflow = parse(yaml).unwrap();
    let ended = ended(&workflow, ends);
    let open = Some(OpenStage { stage: Stage::Main, pending });
    let plan = plan(&Situation { workflow: &workflow, ended: &ended, open }, what);
    assert_eq!(said(&workflow, &plan), expected, "{yaml} {ends} {what:?}");
}

fn settled(task: usize, state: TaskState) -> Reopen {
    Reopen::Settled { task, state, output: None }
}

const CHAIN: &str = "{name: w, tasks: {a: {run: x}, b: {needs: a, run: x}, c: {needs: b, run: x}, d: {run: x}}}";

const AFTER_A: &str = "task `b` would end as upstream_failed at once, because task `a` is failed: rerun from task `a`, or skip or \
                       resolve task `a` first";

#[test]
fn an_ended_run_goes_on_where_it_failed() {
    let failed = "a=failed b=upstream_failed c=upstream_failed d=success";
    check(CHAIN, failed, &Reopen::Failed, "a+ b c failed=0");
    check(CHAIN, failed, &Reopen::From(vec![1]), AFTER_A);
    let pair = "{name: w, tasks: {a: {run: x}, b: {needs: a, run: x}}}";
    check(pair, "a=failed b=skipped!", &Reopen::From(vec![1]), AFTER_A);
    check(CHAIN, "a=success b=success c=success d=success", &Reopen::Failed, &ReopenRefused::NothingToDo.to_string());
    check(CHAIN, failed, &settled(0, TaskState::Skipped), "b+ c failed=0");
    check(CHAIN, failed, &settled(3, TaskState::Skipped), "the task is success: that cannot become skipped");
    check(CHAIN, "a=success b=success c=success d=failed", &Reopen::From(vec![0]), "a+ b c failed=1");
    check(CHAIN, "a=success b=failed~ c=success d=failed", &Reopen::Failed, "b+ d+ failed=0");
    check(CHAIN, "a=success b=skipped! c=cancelled d=failed", &Reopen::FailedOf(vec![3]), "d+ failed=0");
}

#[test]
fn only_bad_items_are_done_again() {
    let yaml = "{name: w, tasks: {a: {run: x, foreach: [1, 2, 3]}}}";
    let ends = "a=failed* a[0]=success a[1]=failed a[2]=failed";
    check(yaml, ends, &Reopen::FailedOf(vec![0]), "a+[(1, 1), (2, 1)] failed=0");
    check(yaml, ends, &Reopen::From(vec![0]), "a+ failed=0");
}

#[test]
fn an_open_run_takes_back_what_failed_and_what_followed_from_it() {
    let yaml = "{name: w, tasks: {a: {run: x}, b: {needs: a, run: x}, c: {needs: [b, d], run: x, trigger_rule: all_done}, d: {run: x}}}";
    let ends = "a=failed b=upstream_failed";
    check_open(yaml, ends, &[2], &Reopen::From(vec![0]), "a+ b failed=0 c:Wait");
    check_open(yaml, ends, &[2], &settled(0, TaskState::ResolvedManually), "b+ failed=0 c:Wait");
    check_open(yaml, ends, &[2], &Reopen::Failed, &ReopenRefused::StillOpen.to_string());
    check_open(yaml, ends, &[2], &Reopen::From(vec![3]), &ReopenRefused::StillToEnd("d".into()).to_string());
    check_open(yaml, ends, &[2], &settled(3, TaskState::Skipped), &ReopenRefused::NotEnded.to_string());
    // What depends on a success may be under way.
    check_open(
        yaml,
        "a=success b=failed",
        &[2],
        &Reopen::From(vec![0]),
        &ReopenRefused::SucceededInOpenRun("a".into()).to_string(),
    );
}

#[test]
fn another_end_settles_what_waits_in_an_open_run() {
    let yaml = "{name: w, tasks: {a: {run: x}, b: {run: x}, one: {needs: [a, b], run: x, trigger_rule: one_success}, \
                none: {needs: [a, b], run: x, trigger_rule: all_failed}}}";
    check_open(yaml, "a=failed", &[2, 3], &settled(0, TaskState::Skipped), "failed=0 one:Start none:Skip");
    check_open(yaml, "a=failed", &[2, 3], &Reopen::From(vec![0]), "a+ failed=0 one:Wait none:Wait");
}

#[test]
fn finalisers_that_are_under_way_are_not_taken_back() {
    let workflow = parse("{name: w, tasks: {a: {run: x}}, finally: {z: {run: x}}}").unwrap();
    let ended = ended(&workflow, "a=failed");
    let open = Some(OpenStage { stage: Stage::Finally, pending: &[] });
    let situation = Situation { workflow: &workflow, ended: &ended, open };
    assert_eq!(plan(&situation, &Reopen::From(vec![0])), Err(ReopenRefused::InFinalisers));
    assert_eq!(plan(&Situation { open: None, ..situation }, &Reopen::From(vec![0])).unwrap().superseded, [(0, -1)]);
}
