//! Log lines on standard error: text for people, JSON for collectors.

use std::fmt::{self, Write as _};
use std::sync::OnceLock;

use mainspring_core::time::rfc3339;
use mainspring_core::work::Clock;
use mainspring_engine::SystemClock;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, Layer};

use crate::config::LogFormat;
use crate::output::{Paint, Palette};

/// Starts logging with a filter such as `info` or `warn,mainspring_engine=debug`.
pub(crate) fn start(filter: &str, format: LogFormat, palette: Palette) {
    let filter = filter.parse::<EnvFilter>().unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = Lines { format, palette, clock: OnceLock::new() };
    let subscriber = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(filter)
        .event_format(lines)
        .finish()
        .with(KeepSpanFields);
    // Only a test harness could have been faster, and then its own is wanted.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

struct Lines {
    format: LogFormat,
    palette: Palette,
    clock: OnceLock<SystemClock>,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let time = rfc3339(self.clock.get_or_init(SystemClock::new).now());
        let level = *event.metadata().level();
        let mut fields = Fields(Map::new());
        event.record(&mut fields);
        // The innermost span wins over those around it, and the line over all of them.
        for span in context.event_scope().into_iter().flatten() {
            if let Some(SpanFields(known)) = span.extensions().get::<SpanFields>() {
                known.iter().for_each(|(name, value)| {
                    fields.0.entry(name.clone()).or_insert_with(|| value.clone());
                });
            }
        }
        let message = fields.0.remove("message").unwrap_or_default();
        match self.format {
            LogFormat::Json => {
                let mut line = Map::new();
                line.insert("time".into(), time.into());
                line.insert("level".into(), level.as_str().to_lowercase().into());
                line.insert("message".into(), message);
                line.append(&mut fields.0);
                writeln!(writer, "{}", Value::Object(line))
            }
            LogFormat::Text => {
                let paint = match level {
                    tracing::Level::ERROR => Paint::Red,
                    tracing::Level::WARN => Paint::Yellow,
                    tracing::Level::INFO => Paint::Green,
                    _ => Paint::Dim,
                };
                let level = self.palette.paint(paint, format_args!("{:5}", level.as_str()));
                let time = self.palette.paint(Paint::Dim, format_args!("{}Z", &time[..23]));
                let mut line = format!("{time} {level} {}", message.as_str().unwrap_or_default());
                for (name, value) in &fields.0 {
                    let _ = match value {
                        Value::String(text) if !text.contains([' ', '"', '\n']) => write!(line, " {name}={text}"),
                        value => write!(line, " {name}={value}"),
                    };
                }
                writeln!(writer, "{line}")
            }
        }
    }
}

/// The fields of a span, kept with it for the lines within.
struct SpanFields(Map<String, Value>);

struct KeepSpanFields;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for KeepSpanFields {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields(Map::new());
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(SpanFields(fields.0));
        }
    }
}

struct Fields(Map<String, Value>);

impl Visit for Fields {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().into(), format!("{value:?}").into());
    }
}
