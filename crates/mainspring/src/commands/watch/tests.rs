//! What keys and answers do to the model, and what is drawn of it.

use mainspring_core::Micros;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use serde_json::{Value, json};

use super::draw::{self, Sight};
use super::model::{Act, Count, Effect, Key, LogPart, Look, MOST_LINES, Message, Model, Wanted};
use super::shapes::{LogLine, Run, Task, Worker};
use super::terminal::meaning;
use crate::failure::Exit;

/// 2026-01-31T08:10:00Z
const NOW: Micros = 1_769_847_000_000_000;

fn id(number: u8) -> String {
    format!("019c0000-0000-7000-8000-0000000000{number:02}")
}

fn run_json(number: u8, status: &str) -> Value {
    json!({"id": id(number), "workflow": format!("flow-{number}"), "namespace": "default", "version": 3, "status": status,
        "cancelling": false, "progress": {"ended": number, "total": 12}, "trigger": {"kind": "cron"},
        "created_at": "2026-01-31T08:00:00Z", "started_at": "2026-01-31T08:00:01Z",
        "finished_at": if status == "success" { json!("2026-01-31T08:04:06Z") } else { Value::Null }})
}

fn run(number: u8, status: &str) -> Run {
    Run::from(&run_json(number, status))
}

fn task(name: &str, status: &str, words: &[&str]) -> Task {
    let has_begun = !matches!(status, "pending" | "ready");
    Task::from(
        &json!({"id": format!("{}.{name}", id(1)), "task_id": name, "status": status, "attempt": i32::from(has_begun),
        "max_attempts": 3, "blocked_by": words, "worker_id": if has_begun { json!("box-1") } else { Value::Null },
        "started_at": if has_begun { json!("2026-01-31T08:09:00Z") } else { Value::Null },
        "finished_at": if status == "success" { json!("2026-01-31T08:09:00.4Z") } else { Value::Null }}),
    )
}

fn worker() -> Worker {
    Worker::from(&json!({"id": "box-1", "hostname": "box", "status": "active", "queues": [], "labels": [], "slots": 8,
        "running": 2, "last_heartbeat": "2026-01-31T08:09:57Z"}))
}

fn counts() -> Vec<Count> {
    let count = |status, runs, is_recent| Count { status, runs, is_recent };
    vec![
        count("running", 2, false),
        count("pending", 10_000, false),
        count("success", 17, true),
        count("failed", 0, true),
    ]
}

fn looked(runs: Vec<Run>) -> Message {
    Message::Looked(Ok(Look::Runs { runs, workers: vec![worker()], counts: Some(counts()) }))
}

fn looked_into(run: Run, tasks: Vec<Task>, log: Option<LogPart>) -> Message {
    Message::Looked(Ok(Look::Run { run: Box::new(run), tasks, has_more: false, log }))
}

fn part(task: &str, from: Option<&str>, after: &str, lines: &[&str]) -> LogPart {
    let line = |text: &&str| LogLine::from(&json!({"attempt": 1, "stream": "stdout", "message": text}));
    LogPart {
        task: format!("{}.{task}", id(1)),
        from: from.map(str::to_owned),
        after: Some(after.to_owned()),
        lines: lines.iter().map(line).collect(),
    }
}

fn list() -> Model {
    let mut model = Model::new("http://127.0.0.1:8080".into(), Some("default".into()), None);
    model.update(looked(vec![run(1, "running"), run(2, "pending"), run(3, "success")]));
    model
}

fn press(model: &mut Model, key: Key) -> Effect {
    model.update(Message::Key(key))
}

/// A run that is looked into, with a log.
fn opened() -> Model {
    let mut model = list();
    assert_eq!(press(&mut model, Key::Enter), Effect::Look);
    let tasks = || {
        vec![
            task("extract", "success", &[]),
            task("transform", "running", &[]),
            task("load", "pending", &["waits for task `transform`, which is running"]),
        ]
    };
    // Which task is wanted is known only once there are tasks.
    assert_eq!(model.update(looked_into(run(1, "running"), tasks(), None)), Effect::Look);
    let log = part("transform", None, "1.1", &["reading 3 files", "a.csv"]);
    assert_eq!(model.update(looked_into(run(1, "running"), tasks(), Some(log))), Effect::None);
    model
}

fn screen(model: &Model, columns: u16, rows: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| draw::draw(frame, model, Sight { now: NOW, is_colored: true })).unwrap();
    terminal
}

fn shown(model: &Model, columns: u16, rows: u16) -> String {
    screen(model, columns, rows).backend().to_string()
}

#[test]
fn the_selection_stays_with_its_run() {
    let mut model = list();
    press(&mut model, Key::Down);
    assert_eq!(model.current().unwrap().id, id(2));
    model.update(looked(vec![run(4, "running"), run(1, "running"), run(2, "running")]));
    assert_eq!(model.current().unwrap().id, id(2), "a new run above does not change what is aimed at");
    model.update(looked(vec![run(4, "running")]));
    assert_eq!(model.current().unwrap().id, id(4), "what is gone gives way to what is there");
    model.update(looked(vec![]));
    assert!(model.current().is_none());
    for key in [Key::Up, Key::Down, Key::End, Key::PageDown, Key::Enter, Key::Letter('c'), Key::Letter('r')] {
        assert_eq!(press(&mut model, key), Effect::None, "{key:?} on nothing");
    }
}

#[test]
fn keys_move_within_what_there_is() {
    let mut model = list();
    for (key, selected) in [
        (Key::Up, 0),
        (Key::Down, 1),
        (Key::Letter('j'), 2),
        (Key::Down, 2),
        (Key::First, 0),
        (Key::PageDown, 2),
        (Key::Letter('k'), 1),
        (Key::PageUp, 0),
        (Key::End, 2),
    ] {
        press(&mut model, key);
        assert_eq!(model.selected, selected, "after {key:?}");
    }
}

#[test]
fn only_a_yes_cancels() {
    let mut model = list();
    for key in [Key::Letter('n'), Key::Enter, Key::Escape, Key::Letter('q'), Key::Down] {
        press(&mut model, Key::Letter('c'));
        assert!(model.question.is_some());
        assert_eq!(press(&mut model, key), Effect::None, "{key:?} is no yes");
        assert!(model.question.is_none() && model.selected == 0, "{key:?} does nothing else");
    }
    press(&mut model, Key::Letter('c'));
    // What is asked about is what is cancelled, whatever comes in between.
    model.update(looked(vec![run(9, "running")]));
    assert_eq!(press(&mut model, Key::Letter('y')), Effect::Act(Act::Cancel, id(1)));
    let mut model = list();
    press(&mut model, Key::End);
    press(&mut model, Key::Letter('c'));
    assert!(model.question.is_none(), "what has ended is not cancelled");
    assert_eq!(model.note.as_deref(), Some("the run has ended: it is success"));
}

#[test]
fn retrying_tells_what_came_of_it() {
    let mut model = list();
    assert_eq!(press(&mut model, Key::Letter('r')), Effect::Act(Act::Retry, id(1)));
    assert_eq!(model.update(Message::Acted(Err("there is nothing to do again".into()))), Effect::Look);
    assert!(shown(&model, 80, 24).contains("there is nothing to do again"));
    press(&mut model, Key::Down);
    assert!(model.note.is_none());
}

#[test]
fn going_back_ends_where_it_began() {
    let mut model = opened();
    assert_eq!(press(&mut model, Key::Escape), Effect::Look);
    assert_eq!(model.wanted(), Wanted::Runs);
    assert_eq!(press(&mut model, Key::Letter('q')), Effect::End(Exit::Success));
    let mut model = Model::new("x".into(), None, Some(id(1)));
    assert_eq!(model.wanted(), Wanted::Run { id: id(1), task: None, after: None });
    assert_eq!(press(&mut model, Key::Letter('q')), Effect::End(Exit::Success), "there is no list behind it");
    press(&mut model, Key::Letter('c'));
    assert_eq!(press(&mut model, Key::Interrupt), Effect::End(Exit::Interrupted));
}

#[test]
fn a_log_goes_on_where_it_was_read() {
    let mut model = opened();
    let transform = format!("{}.transform", id(1));
    let wanted = Wanted::Run { id: id(1), task: Some(transform.clone()), after: Some("1.1".into()) };
    assert_eq!(model.wanted(), wanted, "the task that runs is chosen, its log is read on");
    let tasks = || vec![task("extract", "success", &[]), task("transform", "running", &[])];
    let more = |from, after, lines: &[&str]| {
        looked_into(run(1, "running"), tasks(), Some(part("transform", from, after, lines)))
    };
    model.update(more(Some("1.1"), "1.2", &["b.csv"]));
    model.update(more(Some("1.1"), "1.2", &["b.csv"]));
    let texts = |model: &Model| -> Vec<String> {
        model.opened.as_ref().unwrap().log.lines.iter().map(|line| line.text.clone()).collect()
    };
    assert_eq!(texts(&model), ["reading 3 files", "a.csv", "b.csv"], "the same part twice is shown once");
    model.update(more(Some("1.2"), "1.3", &vec!["x"; MOST_LINES]));
    assert_eq!(texts(&model), vec!["x"; MOST_LINES]);
    assert_eq!(press(&mut model, Key::Up), Effect::Look);
    let wanted = Wanted::Run { id: id(1), task: Some(format!("{}.extract", id(1))), after: None };
    assert_eq!(model.wanted(), wanted, "another task is read from its beginning");
    model.update(more(Some("1.3"), "1.4", &["late"]));
    assert!(!shown(&model, 80, 24).contains("late"), "the log of another task is not shown");
    model.update(looked_into(run(2, "running"), vec![], None));
    assert_eq!(model.opened.as_ref().unwrap().tasks.len(), 2, "another run's answer is dropped");
}

#[test]
fn trouble_is_told_until_it_is_over() {
    let mut model = list();
    model.update(Message::Live(true));
    assert!(shown(&model, 80, 24).contains(" live "));
    model.update(Message::Looked(Err("the server http://127.0.0.1:8080 is not reachable: connection refused".into())));
    let told = shown(&model, 80, 24);
    assert!(told.contains("no news: the server is not reachable: connection refused; trying again"), "{told}");
    assert!(told.contains("flow-1"), "what was known stays on the screen");
    model.update(looked(vec![run(1, "running")]));
    assert!(!shown(&model, 80, 24).contains("no news"));
}

#[test]
fn keys_of_the_terminal_are_understood() {
    let key = |code, modifiers| meaning(KeyEvent::new(code, modifiers));
    assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Interrupt));
    assert_eq!(key(KeyCode::Char('c'), KeyModifiers::NONE), Some(Key::Letter('c')));
    assert_eq!(key(KeyCode::Char('q'), KeyModifiers::CONTROL), None);
    assert_eq!(key(KeyCode::Esc, KeyModifiers::NONE), Some(Key::Escape));
    assert_eq!(key(KeyCode::F(1), KeyModifiers::NONE), None);
}

#[test]
fn runs_are_drawn_on_80_columns() {
    insta::assert_snapshot!(shown(&list(), 80, 24));
}

#[test]
fn runs_are_drawn_on_200_columns() {
    let mut model = list();
    model.namespace = None;
    model.shows_help = true;
    insta::assert_snapshot!(shown(&model, 200, 50));
}

#[test]
fn a_run_is_drawn_on_80_columns() {
    let mut model = opened();
    press(&mut model, Key::Down);
    press(&mut model, Key::Letter('c'));
    insta::assert_snapshot!(shown(&model, 80, 24));
}

#[test]
fn a_run_is_drawn_on_200_columns() {
    insta::assert_snapshot!(shown(&opened(), 200, 50));
}

#[test]
fn hostile_texts_are_harmless() {
    let evil = "a\u{1b}[2J\u{1b}]0;owned\u{7}b\r\n\u{202e}live\u{2066}\u{61c}\u{9b}31m日本語🎉e\u{301}\u{0}";
    let mut value = run_json(1, "running");
    value["workflow"] = json!(evil.repeat(3));
    value["namespace"] = json!(evil);
    let mut model = Model::new("x".into(), None, None);
    model.update(looked(vec![Run::from(&value)]));
    let listed = shown(&model, 80, 24);
    press(&mut model, Key::Enter);
    let tasks = || vec![task(evil, "running", &[evil, evil])];
    model.update(looked_into(Run::from(&value), tasks(), None));
    let mut log = part("", None, "1.1", &[evil, "\u{5d0}\u{5d1}\u{5d2} plain"]);
    log.task = tasks()[0].id.clone();
    model.update(looked_into(Run::from(&value), tasks(), Some(log)));
    press(&mut model, Key::Letter('c'));
    let into = shown(&model, 80, 24);
    for text in [&listed, &into] {
        let bad = |character: char| {
            character != '\n' && (character.is_control() || "\u{202e}\u{2066}\u{61c}".contains(character))
        };
        assert!(!text.chars().any(bad), "{text:?}");
        assert!(!text.contains("[2J") && !text.contains("owned"), "{text}");
    }
    insta::assert_snapshot!(into);
}

#[test]
fn the_keys_are_explained_on_80_columns() {
    let mut model = list();
    model.shows_help = true;
    let drawn = shown(&model, 80, 24);
    assert!(drawn.contains("q or esc goes back") && drawn.contains("? hides"), "{drawn}");
}

#[test]
fn every_size_is_drawn() {
    let mut asked = list();
    press(&mut asked, Key::Letter('c'));
    let mut troubled = opened();
    troubled.update(Message::Looked(Err("away".into())));
    troubled.shows_help = true;
    for model in [&list(), &opened(), &asked, &troubled, &Model::new("x".into(), None, Some(id(1)))] {
        for columns in [1, 2, 7, 20, 79, 111, 300] {
            for rows in [1, 2, 3, 5, 10, 39, 60] {
                assert_eq!(shown(model, columns, rows).lines().count(), usize::from(rows), "{columns}x{rows}");
            }
        }
    }
}

#[test]
fn a_long_list_scrolls_with_the_selection() {
    let mut model = list();
    model.update(looked((0..90).map(|number| run(number, "running")).collect()));
    assert!(!shown(&model, 80, 24).contains("flow-89"));
    press(&mut model, Key::End);
    assert!(shown(&model, 80, 24).contains("flow-89"));
}

#[test]
fn colours_are_left_out_where_they_are_not_wanted() {
    let colored = |is_colored| {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw::draw(frame, &list(), Sight { now: NOW, is_colored })).unwrap();
        terminal.backend().buffer().content().iter().any(|cell| cell.fg != Color::Reset)
    };
    assert!(colored(true));
    assert!(!colored(false));
}
