//! From what was written to the validated workflow: names become indexes, the graph is checked, expressions too.

use std::collections::{HashMap, HashSet};

use indexmap::IndexMap;

use crate::Workflow;
use crate::dag;
use crate::diagnostic::{Place, Report, did_you_mean, quoted};
use crate::expr::NameTable;
use crate::inputs;
use crate::rule::TriggerRule;
use crate::workflow::{Reads, Stage, Task, TriggerSource};
use crate::yaml::Tree;

use super::artifacts;
use super::expressions::{Checker, Read, References};
use super::slots;
use super::spec::{Field, Spec, TaskSpec, Text, TriggerPlaces};

/// Suggesting costs; a file with more unknown names than this is helped by none.
const MAX_SUGGESTIONS: usize = 20;
const MAX_CYCLES: usize = 10;
/// In `needs`: the task written above. A task of that name hides it.
const PREVIOUS: &str = "previous";

pub(super) fn resolve(tree: &Tree<'_>, spec: Spec<'_>, report: &mut Report) -> Option<Workflow> {
    let Spec { mut workflow, mut tasks, texts, trigger_places, checks } = spec;
    let names = index_names(&tasks, report);
    resolve_needs(&mut tasks, &names, report);
    let (texts, output_texts): (Vec<Text>, Vec<Text>) =
        texts.into_iter().partition(|text| !matches!(text.field, Field::Output(..)));
    let mut checker = Checker {
        tree,
        names: &names,
        inputs: &workflow.inputs.clone(),
        env: &workflow.env.clone(),
        secrets: &workflow.secrets.clone(),
        secret_env: HashSet::new(),
        of_polls: false,
    };
    let sources: Vec<TriggerSource> = workflow.triggers.iter().map(|trigger| trigger.source.clone()).collect();
    for text in &texts {
        let mut references = References::default();
        let stored = checker.workflow_text(text, &sources, &mut references, report);
        workflow.reads_schedule |= references.schedule;
        if let (Field::Env(name), Some(stored)) = (&text.field, &stored)
            && (!references.secrets.is_empty() || checker.reads_secret_env(stored, &HashSet::new()))
        {
            checker.secret_env.insert(name.clone());
        }
        store(&mut workflow, text, stored);
    }
    let mut references = References::default();
    for text in &output_texts {
        let stored = checker.workflow_text(text, &sources, &mut references, report);
        store(&mut workflow, text, stored);
    }
    workflow.output_reads = Reads {
        any: !output_texts.is_empty(),
        tasks: targets(&references.tasks, |_| true),
        secrets: Vec::new(),
        failures: references.failures,
    };
    let mut reads: Vec<Vec<Read>> = Vec::with_capacity(tasks.len());
    for spec in &mut tasks {
        let mut references = References::default();
        checker.task_texts(&mut spec.task, &spec.texts, &mut references, report);
        fill_reads(&mut spec.task, &references, &spec.texts);
        workflow.reads_schedule |= references.schedule;
        reads.push(references.tasks);
    }
    for (index, read) in artifacts::resolve(&mut tasks, &names, report) {
        reads[index as usize].push(read);
    }
    let dependents = dag::dependents(tasks.len(), |index| &tasks[index].task.needs);
    let order = dag::order(|index| &tasks[index].task.needs, &dependents);
    if order.is_acyclic() {
        check_reads(&tasks, &reads, &order, report);
    } else {
        report_cycles(&tasks, &order, report);
    }
    resolve_checks(tree, &mut workflow, checks, report);
    check_trigger_inputs(&workflow, &trigger_places, report);
    bring_env_files(&mut workflow, &tasks);
    workflow.tasks = tasks.into_iter().map(|spec| spec.task).collect();
    for (task, dependents) in workflow.tasks.iter_mut().zip(dependents) {
        task.dependents = dependents;
    }
    report.is_empty().then_some(workflow)
}

/// Adds files of variables to the files of the workflow, unless they are among them already.
fn bring_env_files(workflow: &mut Workflow, tasks: &[TaskSpec<'_>]) {
    let env_files: Vec<String> =
        workflow.env_files.iter().chain(tasks.iter().flat_map(|spec| &spec.task.env_files)).cloned().collect();
    for path in env_files {
        let comes_along = |file: &String| *file == path || file.ends_with('/') && path.starts_with(file.as_str());
        if !workflow.files.iter().any(comes_along) {
            workflow.files.push(path);
        }
    }
}

/// A check sees the secrets of the workflow and nothing else of it: neither its inputs nor its variables exist yet.
fn resolve_checks(tree: &Tree<'_>, workflow: &mut Workflow, checks: Vec<(usize, TaskSpec<'_>)>, report: &mut Report) {
    let checker = Checker {
        tree,
        names: &NameTable::new(),
        inputs: &IndexMap::new(),
        env: &IndexMap::new(),
        secrets: &workflow.secrets.clone(),
        secret_env: HashSet::new(),
        of_polls: true,
    };
    for (number, mut spec) in checks {
        let mut references = References::default();
        checker.task_texts(&mut spec.task, &spec.texts, &mut references, report);
        fill_reads(&mut spec.task, &references, &spec.texts);
        if let Some(poll) = workflow.triggers.get_mut(number).and_then(|trigger| trigger.poll.as_mut()) {
            poll.task = spec.task;
        }
    }
}

fn index_names<'t>(tasks: &[TaskSpec<'t>], report: &mut Report) -> NameTable<'t> {
    let mut names = HashMap::with_capacity(tasks.len());
    for (index, spec) in tasks.iter().enumerate() {
        if let Some(first) = names.insert(spec.name, index as i32) {
            names.insert(spec.name, first);
            let key = Spec::stage_key(tasks[first as usize].task.stage);
            if tasks[first as usize].task.stage != spec.task.stage {
                let message = format!("there is a task {} under `{key}` already", quoted(spec.name));
                let path = format!("/{}/{}", Spec::stage_key(spec.task.stage), spec.name);
                report.add_with_help(spec.place, path, message, "task names are unique in the whole workflow");
            }
        }
    }
    names
}

fn resolve_needs(tasks: &mut [TaskSpec<'_>], names: &NameTable<'_>, report: &mut Report) {
    let mut suggested = 0;
    for index in 0..tasks.len() {
        let spec = &tasks[index];
        let stage = spec.task.stage;
        let mut found: Vec<(i32, Place)> = Vec::with_capacity(spec.needs.len());
        for need in &spec.needs {
            let path = || format!("/{}/{}/needs", Spec::stage_key(stage), spec.name);
            let above =
                index.checked_sub(1).filter(|above| tasks[*above].task.stage == stage).map(|above| above as i32);
            let target = match names.get(need.name) {
                None if need.name == PREVIOUS => {
                    if above.is_none() {
                        let message = format!("no task is written above {}", quoted(spec.name));
                        let help = "`previous` is the task written above this one; leave `needs` out of the first";
                        report.add_with_help(need.place, path(), message, help);
                        continue;
                    }
                    above
                }
                target => target.copied(),
            };
            let Some(target) = target else {
                suggested += 1;
                let help = if suggested <= MAX_SUGGESTIONS {
                    did_you_mean(need.name, tasks.iter().map(|other| other.name))
                } else {
                    None
                };
                report.push(need.place, path(), format!("there is no task {}", quoted(need.name)), help);
                continue;
            };
            let target_stage = tasks[target as usize].task.stage;
            if target as usize == index {
                report.add(need.place, path(), format!("the task {} needs itself", quoted(need.name)));
            } else if target_stage != stage {
                report.add_with_help(
                    need.place,
                    path(),
                    format!("{} belongs to `{}`", quoted(need.name), Spec::stage_key(target_stage)),
                    "a task needs tasks of its own part only; `on_failure`, `on_success` and `finally` begin when the others have ended",
                );
            } else {
                found.push((target, need.place));
            }
        }
        found.sort_unstable();
        for pair in found.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
            let message = format!("{} is needed twice", quoted(tasks[pair[1].0 as usize].name));
            let path = format!("/{}/{}/needs", Spec::stage_key(stage), spec.name);
            report.add(pair[1].1, path, message);
        }
        check_rule(spec, report);
        tasks[index].task.needs = found.into_iter().map(|(target, _)| target).collect();
    }
}

/// A rule that counts outcomes can never hold where there is nothing to count.
fn check_rule(spec: &TaskSpec<'_>, report: &mut Report) {
    let rule = spec.task.rule;
    let counts = matches!(
        rule,
        TriggerRule::OneSuccess
            | TriggerRule::OneFailed
            | TriggerRule::AllFailed
            | TriggerRule::NoneFailedMinOneSuccess
    );
    if counts && spec.needs.is_empty() {
        let message = format!("`{rule}` looks at the tasks this one needs, but it needs none, so it could never run");
        let path = format!("/{}/{}/trigger_rule", Spec::stage_key(spec.task.stage), spec.name);
        report.add_with_help(spec.rule_place.unwrap_or(spec.place), path, message, "add `needs`, or remove the rule");
    }
}

fn report_cycles(tasks: &[TaskSpec<'_>], order: &dag::Order, report: &mut Report) {
    for cycle in dag::cycles(|index| &tasks[index].task.needs, order, MAX_CYCLES) {
        let first = &tasks[cycle[0] as usize];
        let second = tasks[cycle[1 % cycle.len()] as usize].name;
        let place = first.needs.iter().find(|need| need.name == second).map_or(first.place, |need| need.place);
        let message = format!("tasks need each other in a circle: {}", describe_cycle(tasks, &cycle));
        let path = format!("/{}/{}/needs", Spec::stage_key(first.task.stage), first.name);
        report.add_with_help(place, path, message, "`a → b` means that a needs b; remove one of these needs");
    }
}

/// `a → b → c → a`; of a long one the middle is left out.
fn describe_cycle(tasks: &[TaskSpec<'_>], cycle: &[i32]) -> String {
    const SHOWN_AT_EACH_END: usize = 8;
    let name = |index: &i32| tasks[*index as usize].name;
    let mut shown: Vec<String> = Vec::new();
    if cycle.len() > 2 * SHOWN_AT_EACH_END + 1 {
        shown.extend(cycle[..SHOWN_AT_EACH_END].iter().map(|index| name(index).to_owned()));
        shown.push(format!("… {} more …", cycle.len() - 2 * SHOWN_AT_EACH_END));
        shown.extend(cycle[cycle.len() - SHOWN_AT_EACH_END..].iter().map(|index| name(index).to_owned()));
    } else {
        shown.extend(cycle.iter().map(|index| name(index).to_owned()));
    }
    shown.push(name(&cycle[0]).to_owned());
    shown.join(" → ")
}

/// What a trigger gives must be declared and fit; what the clock fires must have all it needs.
fn check_trigger_inputs(workflow: &Workflow, places: &[TriggerPlaces], report: &mut Report) {
    for (number, (trigger, places)) in workflow.triggers.iter().zip(places).enumerate() {
        for (name, place) in &places.inputs {
            let path = format!("/triggers/{number}/inputs/{name}");
            let (Some(input), Some(value)) = (workflow.inputs.get(name), trigger.inputs.get(name)) else {
                let known: Vec<&str> = workflow.inputs.keys().map(String::as_str).collect();
                let listed = || format!("there are {}", known[..known.len().min(20)].join(", "));
                let help = did_you_mean(name, known.iter().copied()).or_else(|| (!known.is_empty()).then(listed));
                report.push(*place, path, format!("the workflow has no input {}", quoted(name)), help);
                continue;
            };
            if !inputs::is_template(value)
                && (input.required || !value.is_null())
                && let Err(cause) = inputs::conform(input, value)
            {
                report.add(*place, path, format!("input {} {cause}", quoted(name)));
            }
        }
        let missing =
            workflow.inputs.iter().find(|(name, input)| input.required && !trigger.inputs.contains_key(*name));
        if let Some((name, _)) = missing.filter(|_| trigger.source.is_scheduled()) {
            let message =
                format!("the input {} has no default and the trigger gives none, so no run could start", quoted(name));
            let help = format!("add `inputs: {{{name}: …}}` to the trigger, or a `default` to the input");
            report.add_with_help(places.whole, format!("/triggers/{number}"), message, help);
        }
    }
}

fn store(workflow: &mut Workflow, text: &Text, stored: Option<String>) {
    if let (Some(slot), Some(stored)) = (slots::of_workflow(workflow, &text.field), stored) {
        *slot = stored;
    }
}

fn targets(reads: &[Read], wanted: impl Fn(&Read) -> bool) -> Vec<i32> {
    let mut tasks: Vec<i32> = reads.iter().filter(|read| wanted(read)).map(|read| read.target).collect();
    tasks.sort_unstable();
    tasks.dedup();
    tasks
}

fn fill_reads(task: &mut Task, references: &References, texts: &[Text]) {
    let mut secrets = references.secrets.clone();
    secrets.sort_unstable();
    secrets.dedup();
    // What is asked of a failure looks at nothing else.
    let of_run = |text: &&Text| text.field != Field::RetryCondition;
    let any = |decisive: bool| texts.iter().filter(of_run).any(|text| text.field.is_decisive() == decisive);
    task.condition_reads = Reads {
        any: any(true),
        tasks: targets(&references.tasks, |read| read.decisive),
        secrets: Vec::new(),
        failures: references.failures,
    };
    task.reads = Reads {
        any: any(false),
        tasks: targets(&references.tasks, |read| !read.decisive),
        secrets,
        failures: references.failures,
    };
}

/// Every task that an expression looks at must have ended when it is evaluated.
fn check_reads(tasks: &[TaskSpec<'_>], reads: &[Vec<Read>], order: &dag::Order, report: &mut Report) {
    let mut doubtful: Vec<(i32, &Read)> = Vec::new();
    for (index, own) in reads.iter().enumerate() {
        let task = &tasks[index].task;
        for read in own {
            let target = &tasks[read.target as usize];
            if target.task.stage > task.stage || target.task.stage == Stage::OnFailure && task.stage == Stage::Main {
                complain(&tasks[index], target, read, report);
            } else if target.task.stage == task.stage && task.needs.binary_search(&read.target).is_err() {
                doubtful.push((index as i32, read));
            }
        }
    }
    let pairs: Vec<(i32, i32)> = doubtful.iter().map(|(reader, read)| (*reader, read.target)).collect();
    let reachable = dag::reaches(|index| &tasks[index].task.needs, order, &pairs);
    for ((reader, read), upstream) in doubtful.into_iter().zip(reachable) {
        if !upstream {
            complain(&tasks[reader as usize], &tasks[read.target as usize], read, report);
        }
    }
}

fn complain(reader: &TaskSpec<'_>, target: &TaskSpec<'_>, read: &Read, report: &mut Report) {
    let message = if reader.name == target.name {
        format!("the task {} reads its own result", quoted(reader.name))
    } else {
        format!("{} reads the task {}, which need not have ended by then", quoted(reader.name), quoted(target.name))
    };
    let help = (reader.task.stage == target.task.stage && reader.name != target.name)
        .then(|| format!("add `{}` to the `needs` of `{}`", target.name, reader.name));
    report.push(read.place, &read.path, message, help);
}
