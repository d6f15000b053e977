//! The two ways in which OTLP hands spans to a collector. Everything but the transport is the same.

use std::borrow::Cow;

/// The words are those of `OTEL_EXPORTER_OTLP_PROTOCOL`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TraceProtocol {
    #[default]
    HttpProtobuf,
    Grpc,
}

impl TraceProtocol {
    pub const ALL: [Self; 2] = [Self::HttpProtobuf, Self::Grpc];

    pub fn word(self) -> &'static str {
        match self {
            Self::HttpProtobuf => "http/protobuf",
            Self::Grpc => "grpc",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.word() == word)
    }

    /// Where collectors take spans.
    fn path(self) -> &'static str {
        match self {
            Self::HttpProtobuf => "/v1/traces",
            Self::Grpc => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::HttpProtobuf => "application/x-protobuf",
            Self::Grpc => "application/grpc",
        }
    }

    /// What TLS offers for the connection; nothing means HTTP/1.1.
    pub(super) fn alpn(self) -> Vec<Vec<u8>> {
        match self {
            Self::HttpProtobuf => Vec::new(),
            Self::Grpc => vec![b"h2".to_vec()],
        }
    }

    /// The address that spans go to. One without a path stands for the usual path; the path of a gRPC call is fixed, and
    /// another one is no address of it.
    pub(super) fn target(self, endpoint: &str) -> Option<Cow<'_, str>> {
        let after_scheme = endpoint.find("://").map_or(0, |at| at + 3);
        let has_path = endpoint[after_scheme..].trim_end_matches('/').contains('/');
        match (has_path, self) {
            (false, _) => Some(format!("{}{}", endpoint.trim_end_matches('/'), self.path()).into()),
            (true, Self::HttpProtobuf) => Some(endpoint.into()),
            (true, Self::Grpc) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TraceProtocol::{Grpc, HttpProtobuf};

    #[test]
    fn an_address_without_a_path_stands_for_the_usual_one() {
        assert_eq!(HttpProtobuf.target("http://c:4318").unwrap(), "http://c:4318/v1/traces");
        assert_eq!(HttpProtobuf.target("http://c:4318/").unwrap(), "http://c:4318/v1/traces");
        assert_eq!(HttpProtobuf.target("https://c/otlp/v1/traces").unwrap(), "https://c/otlp/v1/traces");
        let called = "http://c:4317/opentelemetry.proto.collector.trace.v1.TraceService/Export";
        assert_eq!(Grpc.target("http://c:4317/").unwrap(), called);
        assert_eq!(Grpc.target("http://c:4317/v1/traces"), None);
    }
}
