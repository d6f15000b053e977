//! One run: its tasks, and below them what the selected one waits for, how it failed, and the end of its log.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Color;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table, Wrap};

use super::draw::{BOLD, Sight, WIDE, show_table, took};
use super::model::Opened;
use super::shapes::Task;
use crate::output::{clip, seconds, width};

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, opened: &Opened, sight: Sight) {
    let wanted = u16::try_from(opened.tasks.len()).unwrap_or(u16::MAX).saturating_add(1);
    // The log gets half of the room, and whatever the tasks leave.
    let tasks = wanted.min(area.height.saturating_sub(2) / 2 + 1);
    let [head, list, below] =
        Layout::vertical([Constraint::Length(2), Constraint::Length(tasks), Constraint::Min(0)]).areas(area);
    frame.render_widget(Paragraph::new(run_head(opened, sight, area.width)), head);
    if opened.tasks.is_empty() {
        frame.render_widget(Paragraph::new(Line::styled(" no tasks", sight.dim())), list);
        return;
    }
    list_tasks(frame, list, opened, sight);
    if let Some(task) = opened.tasks.get(opened.selected) {
        detail(frame, below, opened, task, sight);
    }
}

fn run_head(opened: &Opened, sight: Sight, columns: u16) -> Vec<Line<'static>> {
    let Some(run) = &opened.run else { return vec![Line::raw(format!(" run {}", opened.id))] };
    let ended = opened.tasks.iter().filter(|task| task.is_over()).count();
    let more = if opened.has_more { "+" } else { "" };
    let name = clip(&format!(" {}", run.workflow), usize::from(columns) / 2);
    let words = format!("  {ended}/{}{more} tasks  {}", opened.tasks.len(), took(run, sight.now));
    let trigger = if run.trigger.is_empty() { String::new() } else { format!(", {}", run.trigger) };
    let about = format!(" run {}, version {}, namespace {}{trigger}", run.id, run.version, run.namespace);
    vec![
        Line::from(vec![
            Span::styled(name, BOLD),
            Span::raw("  "),
            Span::styled(run.status.clone(), sight.of_status(&run.status)),
            Span::raw(words),
        ]),
        Line::styled(clip(&about, columns.into()), sight.dim()),
    ]
}

fn list_tasks(frame: &mut Frame<'_>, area: Rect, opened: &Opened, sight: Sight) {
    let is_wide = area.width >= WIDE;
    let longest = opened.tasks.iter().map(|task| width(&task.name)).max().unwrap_or(0).max(4);
    let most = if is_wide { 60 } else { 20 };
    let name = longest.min(most);
    let mut header = vec!["TASK", "STATE", "TRY", "TOOK"];
    let mut widths: Vec<Constraint> = [name as u16, 17, 5, 7].into_iter().map(Constraint::Length).collect();
    if is_wide {
        header.push("WORKER");
        widths.push(Constraint::Length(24));
    }
    header.push("WHY");
    widths.push(Constraint::Min(0));
    let room = usize::from(area.width).saturating_sub(name + 35 + if is_wide { 25 } else { 0 });
    let rows = opened.tasks.iter().map(|task| {
        let mut cells = vec![
            Cell::from(clip(&task.name, name)),
            Cell::from(Span::styled(task.status.clone(), sight.of_status(&task.status))),
            Cell::from(tries(task)),
            Cell::from(
                task.started_at
                    .map_or(String::new(), |started| seconds(task.finished_at.unwrap_or(sight.now) - started)),
            ),
        ];
        if is_wide {
            cells.push(Cell::from(clip(&task.worker, 24)));
        }
        cells.push(Cell::from(Span::styled(clip(&task.words.join("; "), room), sight.dim())));
        Row::new(cells)
    });
    show_table(frame, area, Table::new(rows, widths), header, opened.selected, sight);
}

/// `2/3`, nothing before the first.
fn tries(task: &Task) -> String {
    if task.attempt == 0 { String::new() } else { format!("{}/{}", task.attempt, task.max_attempts.max(task.attempt)) }
}

fn detail(frame: &mut Frame<'_>, area: Rect, opened: &Opened, task: &Task, sight: Sight) {
    let columns = usize::from(area.width);
    let words: String = task.words.iter().map(|reason| format!(" {reason}")).collect::<Vec<_>>().join("\n");
    // Reasons are shown whole: a line that is too long for the table goes on here.
    let needed: usize = task.words.iter().map(|reason| (width(reason) + 1).div_ceil(columns.max(1))).sum();
    let needed = u16::try_from(needed).unwrap_or(u16::MAX).min(area.height / 2);
    let [title, why, log] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(needed), Constraint::Min(0)]).areas(area);
    let heading = clip(&format!("-- {} ", task.name), columns);
    let rule = "-".repeat(columns.saturating_sub(width(&heading)));
    frame.render_widget(Paragraph::new(Line::styled(format!("{heading}{rule}"), sight.dim())), title);
    let style = if task.status == "failed" { sight.color(Color::Red) } else { sight.color(Color::Yellow) };
    frame.render_widget(Paragraph::new(words).style(style).wrap(Wrap { trim: false }), why);
    frame.render_widget(Paragraph::new(log_lines(opened, task, usize::from(log.height), columns, sight)), log);
}

/// The end of the log, as far as there is room.
fn log_lines(opened: &Opened, task: &Task, rows: usize, columns: usize, sight: Sight) -> Vec<Line<'static>> {
    let log = &opened.log;
    if log.task != task.id || log.lines.is_empty() {
        let words = if log.task == task.id { " it has printed nothing" } else { "" };
        return vec![Line::styled(words, sight.dim())];
    }
    let has_attempts = log.lines.iter().any(|line| line.attempt > 1);
    let from = log.lines.len().saturating_sub(rows);
    log.lines
        .iter()
        .skip(from)
        .map(|line| {
            let attempt = if has_attempts { format!(" {}|", line.attempt) } else { String::new() };
            let text = clip(&format!("{attempt} {}", line.text), columns);
            Line::styled(text, if line.is_error { sight.color(Color::Red) } else { ratatui::style::Style::new() })
        })
        .collect()
}
