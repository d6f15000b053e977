//! Spans as an `ExportTraceServiceRequest` of OTLP, in protobuf.
//!
//! Written by hand: seven messages of a stable format, where generated code would bring a runtime and a build step along.

use super::{Kind, Span};

/// Field numbers of `opentelemetry/proto/trace/v1/trace.proto` and its neighbours.
mod field {
    pub(super) const RESOURCE_SPANS: u32 = 1;
    pub(super) const RESOURCE: u32 = 1;
    pub(super) const SCOPE_SPANS: u32 = 2;
    pub(super) const RESOURCE_ATTRIBUTES: u32 = 1;
    pub(super) const SCOPE: u32 = 1;
    pub(super) const SPANS: u32 = 2;
    pub(super) const NAME: u32 = 1;
    pub(super) const VERSION: u32 = 2;
    pub(super) const KEY: u32 = 1;
    pub(super) const VALUE: u32 = 2;
    pub(super) const STRING: u32 = 1;
    pub(super) const TRACE_ID: u32 = 1;
    pub(super) const SPAN_ID: u32 = 2;
    pub(super) const PARENT_SPAN_ID: u32 = 4;
    pub(super) const SPAN_NAME: u32 = 5;
    pub(super) const KIND: u32 = 6;
    pub(super) const START: u32 = 7;
    pub(super) const END: u32 = 8;
    pub(super) const ATTRIBUTES: u32 = 9;
    pub(super) const STATUS: u32 = 15;
    pub(super) const STATUS_MESSAGE: u32 = 2;
    pub(super) const STATUS_CODE: u32 = 3;
}

const STATUS_ERROR: u64 = 2;

#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value as u8) | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(value);
    }

    fn fixed(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn text(&mut self, field: u32, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    fn message(&mut self, field: u32, write: impl FnOnce(&mut Message)) {
        let mut inner = Message::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }

    fn attribute(&mut self, field: u32, key: &str, value: &str) {
        self.message(field, |pair| {
            pair.text(field::KEY, key);
            pair.message(field::VALUE, |any| any.text(field::STRING, value));
        });
    }

    fn span(&mut self, span: &Span) {
        self.bytes(field::TRACE_ID, &span.context.trace_id);
        self.bytes(field::SPAN_ID, &span.context.span_id);
        if let Some(parent) = &span.parent {
            self.bytes(field::PARENT_SPAN_ID, parent);
        }
        self.text(field::SPAN_NAME, &span.name);
        self.number(field::KIND, kind(span.kind));
        let nanos = |micros: i64| u64::try_from(micros).unwrap_or(0).saturating_mul(1_000);
        self.fixed(field::START, nanos(span.start));
        self.fixed(field::END, nanos(span.end.max(span.start)));
        for (key, value) in &span.attributes {
            self.attribute(field::ATTRIBUTES, key, value);
        }
        if let Some(error) = &span.error {
            self.message(field::STATUS, |status| {
                status.text(field::STATUS_MESSAGE, error);
                status.number(field::STATUS_CODE, STATUS_ERROR);
            });
        }
    }
}

fn kind(kind: Kind) -> u64 {
    match kind {
        Kind::Internal => 1,
        Kind::Server => 2,
        Kind::Producer => 4,
        Kind::Consumer => 5,
    }
}

/// The body of one request, for spans of a process with these attributes.
pub(super) fn request(process: &[(&'static str, String)], spans: &[Span]) -> Vec<u8> {
    let mut request = Message::default();
    request.message(field::RESOURCE_SPANS, |group| {
        group.message(field::RESOURCE, |resource| {
            process.iter().for_each(|(key, value)| resource.attribute(field::RESOURCE_ATTRIBUTES, key, value));
        });
        group.message(field::SCOPE_SPANS, |group| {
            group.message(field::SCOPE, |scope| {
                scope.text(field::NAME, "mainspring");
                scope.text(field::VERSION, env!("CARGO_PKG_VERSION"));
            });
            spans.iter().for_each(|span| group.message(field::SPANS, |message| message.span(span)));
        });
    });
    request.0
}

#[cfg(test)]
mod tests {
    use mainspring_core::trace::TraceContext;

    use super::*;

    #[test]
    fn a_span_is_written_as_the_format_says() {
        let context = TraceContext { trace_id: [0xab; 16], span_id: [0xcd; 8], sampled: true };
        let span = Span {
            context,
            parent: Some([0xef; 8]),
            kind: Kind::Server,
            name: "x".into(),
            start: 1,
            end: 2,
            attributes: vec![("k", "v".into())],
            error: Some("e".into()),
        };
        let mut message = Message::default();
        message.span(&span);
        let mut expected = vec![0x0a, 16];
        expected.extend([0xab; 16]);
        expected.extend([0x12, 8]);
        expected.extend([0xcd; 8]);
        expected.extend([0x22, 8]);
        expected.extend([0xef; 8]);
        expected.extend([0x2a, 1, b'x', 0x30, 2]);
        expected.push(0x39);
        expected.extend(1_000_u64.to_le_bytes());
        expected.push(0x41);
        expected.extend(2_000_u64.to_le_bytes());
        expected.extend([0x4a, 8, 0x0a, 1, b'k', 0x12, 3, 0x0a, 1, b'v']);
        expected.extend([0x7a, 5, 0x12, 1, b'e', 0x18, 2]);
        assert_eq!(message.0, expected);
    }

    #[test]
    fn lengths_above_127_take_two_bytes() {
        let mut message = Message::default();
        message.bytes(1, &[0; 300]);
        assert_eq!(message.0[..3], [0x0a, 0xac, 0x02]);
    }
}
