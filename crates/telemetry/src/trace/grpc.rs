//! What a unary gRPC call adds to HTTP/2: a prefix before the message, and a status behind the answer.

use hyper::HeaderMap;

const STATUS: &str = "grpc-status";
const MESSAGE: &str = "grpc-message";
/// The names of the codes, from 0 on.
const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// The message as it travels: that it is not compressed, its length, itself.
pub(super) fn framed(message: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(message.len()).ok()?;
    let mut framed = Vec::with_capacity(message.len() + 5);
    framed.push(0);
    framed.extend(length.to_be_bytes());
    framed.extend(message);
    Some(framed)
}

/// Whether the call succeeded, else why not. The status of an answer without a message stands in its headers.
pub(super) fn verdict(headers: &HeaderMap, trailers: Option<&HeaderMap>) -> Result<(), String> {
    let text =
        |name: &str| trailers.and_then(|trailers| trailers.get(name)).or_else(|| headers.get(name))?.to_str().ok();
    let Some(status) = text(STATUS) else { return Err(format!("its answer has no {STATUS}")) };
    let code = status.parse().ok().and_then(|code: usize| CODES.get(code).copied());
    match (code, text(MESSAGE)) {
        (Some("OK"), _) => Ok(()),
        (code, Some(message)) if !message.is_empty() => {
            Err(format!("it answered {}: {message}", code.unwrap_or(status)))
        }
        (code, _) => Err(format!("it answered {}", code.unwrap_or(status))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_message_has_a_prefix() {
        assert_eq!(framed(b"").unwrap(), [0; 5]);
        let framed = framed(&[7; 300]).unwrap();
        assert_eq!((&framed[..5], framed.len()), (&[0, 0, 0, 1, 44][..], 305));
    }

    #[test]
    fn the_status_is_in_the_trailers_or_alone_in_the_headers() {
        let none = map(&[]);
        assert_eq!(verdict(&none, Some(&map(&[("grpc-status", "0")]))), Ok(()));
        assert_eq!(verdict(&map(&[("grpc-status", "0")]), None), Ok(()));
        let said = |headers: &[_], trailers: &[_]| verdict(&map(headers), Some(&map(trailers))).unwrap_err();
        assert_eq!(said(&[("grpc-status", "0")], &[("grpc-status", "14")]), "it answered UNAVAILABLE");
        let full = [("grpc-status", "8"), ("grpc-message", "try later")];
        assert_eq!(said(&full, &[]), "it answered RESOURCE_EXHAUSTED: try later");
        assert_eq!(said(&[], &[("grpc-status", "99")]), "it answered 99");
        assert_eq!(said(&[], &[]), "its answer has no grpc-status");
    }
}
