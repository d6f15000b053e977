//! The screen: a head, what is looked at, a line that says how things are, and the keys.
//!
//! Drawing changes nothing. It fits any size: what has no room is left out, the head and the keys last.

use mainspring_core::Micros;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState};

use super::draw_run;
use super::model::Model;
use super::shapes::{Run, Worker};
use crate::output::{clip, seconds, width};

/// From here on ids and namespaces have room.
pub(super) const WIDE: u16 = 110;
/// From here on the end of an id has room.
const ROOMY: u16 = 60;
const LONGEST_NAME: u16 = 64;
/// From here on workers have lines of their own.
const TALL: u16 = 36;
const MOST_WORKERS: usize = 8;
/// As far as the API counts.
const UNCOUNTED: i64 = 10_000;

/// What the terminal can do, and what time it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sight {
    pub(super) now: Micros,
    pub(super) is_colored: bool,
}

impl Sight {
    pub(super) fn color(self, color: Color) -> Style {
        if self.is_colored { Style::new().fg(color) } else { Style::new() }
    }

    pub(super) fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(super) fn of_status(self, status: &str) -> Style {
        match status {
            "success" | "resolved_manually" | "active" => self.color(Color::Green),
            "failed" | "upstream_failed" | "inactive" => self.color(Color::Red),
            "running" => self.color(Color::Cyan),
            "cancelled" | "cancelling" | "paused" | "retrying" | "draining" => self.color(Color::Yellow),
            _ => self.dim(),
        }
    }
}

pub(super) const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const SELECTED: Style = Style::new().add_modifier(Modifier::REVERSED);

pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, sight: Sight) {
    let foot = if model.shows_help { 3 } else { 2 };
    let [body, foot] = Layout::vertical([Constraint::Min(0), Constraint::Length(foot)]).areas(frame.area());
    match &model.opened {
        Some(opened) => draw_run::draw(frame, body, opened, sight),
        None => runs(frame, body, model, sight),
    }
    draw_foot(frame, foot, model, sight);
}

fn runs(frame: &mut Frame<'_>, area: Rect, model: &Model, sight: Sight) {
    let listed = if area.height >= TALL { model.workers.len().min(MOST_WORKERS) } else { 0 };
    let workers = if listed > 0 { listed as u16 + 2 } else { 0 };
    let [head, list, below] =
        Layout::vertical([Constraint::Length(3), Constraint::Min(0), Constraint::Length(workers)]).areas(area);
    frame.render_widget(Paragraph::new(runs_head(model, sight, area.width)), head);
    if model.runs.is_empty() {
        frame.render_widget(Paragraph::new(Line::styled(" no runs yet", sight.dim())), list);
    } else {
        list_runs(frame, list, model, sight);
    }
    if workers > 0 {
        list_workers(frame, below, &model.workers[..listed], sight);
    }
}

fn runs_head(model: &Model, sight: Sight, columns: u16) -> Vec<Line<'static>> {
    let namespace = model.namespace.as_ref().map_or("all namespaces".into(), |name| format!("namespace {name}"));
    let title = clip(&format!(" {namespace}, {}", model.place), usize::from(columns).saturating_sub(11));
    let mut counts = vec![Span::raw(" ")];
    let mut is_recent = false;
    for count in &model.counts {
        if count.is_recent && !is_recent {
            is_recent = true;
            counts.push(Span::styled("in 24 h: ", sight.dim()));
        }
        let more = if count.runs >= UNCOUNTED { "+" } else { "" };
        let style = if count.runs > 0 { sight.of_status(count.status) } else { sight.dim() };
        counts.push(Span::styled(format!("{}{more} {}", count.runs, count.status), style));
        counts.push(Span::raw("  "));
    }
    let workers = &model.workers;
    let active = workers.iter().filter(|worker| worker.status == "active").count();
    let draining = workers.iter().filter(|worker| worker.status == "draining").count();
    let (running, slots) = workers.iter().fold((0, 0), |sum, worker| (sum.0 + worker.running, sum.1 + worker.slots));
    let mut words = format!(" {active} {} active", if active == 1 { "worker" } else { "workers" });
    if draining > 0 {
        words.push_str(&format!(", {draining} draining"));
    }
    words.push_str(&format!(", {running} of {slots} slots busy"));
    let style = if active == 0 { sight.color(Color::Red) } else { Style::new() };
    vec![
        Line::from(vec![Span::styled(" mainspring", BOLD), Span::raw(title)]),
        Line::from(counts),
        Line::styled(words, style),
    ]
}

fn list_runs(frame: &mut Frame<'_>, area: Rect, model: &Model, sight: Sight) {
    let is_wide = area.width >= WIDE;
    let shows_namespace = is_wide && model.namespace.is_none();
    let mut header = vec!["STATE", "WORKFLOW", "TASKS", "AGE", "TOOK"];
    let mut widths = vec![10, 0, 11, 7, 7];
    let shows_id = area.width >= ROOMY;
    if shows_id {
        header.push("RUN");
        widths.push(if is_wide { 36 } else { 13 });
    }
    if shows_namespace {
        header.insert(1, "NAMESPACE");
        widths.insert(1, 20);
    }
    let taken: u16 = widths.iter().map(|width| width + 1).sum();
    let name = area.width.saturating_sub(taken + 1).min(LONGEST_NAME);
    let rows = model.runs.iter().map(|run| {
        let mut cells = vec![
            Cell::from(Span::styled(run.status.clone(), sight.of_status(&run.status))),
            Cell::from(clip(&run.workflow, name.into())),
            Cell::from(run.progress.map_or(String::new(), |(ended, total)| format!("{ended}/{total}"))),
            Cell::from(age(sight.now - run.created_at)),
            Cell::from(took(run, sight.now)),
        ];
        if shows_id {
            let id = if is_wide { run.id.clone() } else { tail(&run.id, 13) };
            cells.push(Cell::from(Span::styled(id, sight.dim())));
        }
        if shows_namespace {
            cells.insert(1, Cell::from(clip(&run.namespace, 20)));
        }
        Row::new(cells)
    });
    let widths =
        widths.into_iter().map(|width| if width == 0 { Constraint::Length(name) } else { Constraint::Length(width) });
    show_table(frame, area, Table::new(rows, widths), header, model.selected, sight);
}

/// A table with one row selected, scrolled so that it is seen.
pub(super) fn show_table(
    frame: &mut Frame<'_>,
    area: Rect,
    table: Table<'_>,
    header: Vec<&'static str>,
    selected: usize,
    sight: Sight,
) {
    let table = table
        .header(Row::new(header).style(sight.dim()))
        .column_spacing(1)
        .highlight_symbol(">")
        .row_highlight_style(SELECTED);
    let mut state = TableState::new().with_selected(Some(selected));
    frame.render_stateful_widget(table, area, &mut state);
}

fn list_workers(frame: &mut Frame<'_>, area: Rect, workers: &[Worker], sight: Sight) {
    let rows = workers.iter().map(|worker| {
        Row::new(vec![
            Cell::from(Span::styled(format!(" {}", worker.status), sight.of_status(&worker.status))),
            Cell::from(clip(&worker.name, 40)),
            Cell::from(clip(&worker.hostname, 24)),
            Cell::from(format!("{}/{}", worker.running, worker.slots)),
            Cell::from(age(sight.now - worker.beat_at)),
            Cell::from(worker.queues.clone()),
        ])
    });
    let widths = [10, 40, 24, 8, 7].map(Constraint::Length).into_iter().chain([Constraint::Min(0)]);
    let header = Row::new([" STATE", "WORKER", "HOST", "BUSY", "BEAT", "QUEUES"]).style(sight.dim());
    let [_, below] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    frame.render_widget(Table::new(rows, widths).header(header).column_spacing(1), below);
}

/// How things are, then the keys.
fn draw_foot(frame: &mut Frame<'_>, area: Rect, model: &Model, sight: Sight) {
    let columns = usize::from(area.width);
    let mut lines = vec![status_line(model, sight, columns)];
    match (&model.opened, model.shows_help) {
        (None, false) => lines.push(keys(" up/down choose  enter open  c cancel  r retry  ? help  q quit", sight)),
        (Some(_), false) => lines.push(keys(" up/down choose a task  c cancel  r retry  ? help  q back", sight)),
        (_, true) => {
            lines.push(keys(" up/down, k/j, page up/down, home/end choose  enter opens  q or esc goes back", sight));
            lines.push(keys(" c cancels the run (asks first)  r does failed tasks again  ctrl-c ends  ? hides", sight));
        }
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn keys(words: &'static str, sight: Sight) -> Line<'static> {
    Line::styled(words, sight.dim())
}

fn status_line(model: &Model, sight: Sight, columns: usize) -> Line<'static> {
    if let Some((run, workflow)) = &model.question {
        let end = format!("({})? y/n", tail(run, 13));
        let start = clip(&format!(" cancel the run of {workflow} "), columns.saturating_sub(width(&end)));
        return Line::styled(format!("{start}{end}"), sight.color(Color::Yellow).add_modifier(Modifier::BOLD));
    }
    if let Some(trouble) = &model.trouble {
        let end = "; trying again";
        // Which server it is stands above.
        let trouble = trouble.replace(&format!("the server {} ", model.place), "the server ");
        let words = clip(&format!(" no news: {trouble}"), columns.saturating_sub(width(end)));
        return Line::styled(format!("{words}{end}"), sight.color(Color::Red).add_modifier(Modifier::BOLD));
    }
    if let Some(note) = &model.note {
        return Line::styled(clip(&format!(" {note}"), columns), sight.color(Color::Yellow));
    }
    let words = if model.is_live { " live" } else { " looked at every second" };
    Line::styled(words, if model.is_live { sight.color(Color::Green) } else { sight.dim() })
}

/// How long a run has been going, or went.
pub(super) fn took(run: &Run, now: Micros) -> String {
    run.started_at.map_or_else(String::new, |started| seconds(run.finished_at.unwrap_or(now) - started))
}

/// `12s`, `4m`, `2h03m`, `3d`: what is ever older needs no more.
fn age(micros: Micros) -> String {
    let whole = micros.max(0) / 1_000_000;
    match whole {
        0..60 => format!("{whole}s"),
        60..3_600 => format!("{}m", whole / 60),
        3_600..86_400 => format!("{}h{:02}m", whole / 3_600, whole / 60 % 60),
        _ => format!("{}d", whole / 86_400),
    }
}

/// The end of an id, which tells more than its beginning: that is the time.
fn tail(id: &str, columns: usize) -> String {
    let surplus = id.chars().count().saturating_sub(columns - 1);
    if surplus <= 1 { id.to_owned() } else { format!("…{}", id.chars().skip(surplus).collect::<String>()) }
}
