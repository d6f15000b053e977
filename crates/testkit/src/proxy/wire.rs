//! Messages of the PostgreSQL protocol, as far as a proxy must tell them apart.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

const TLS_REQUEST: u32 = 80_877_103;
const ENCRYPTION_REQUEST: u32 = 80_877_104;
const LONGEST: usize = 1 << 30;

/// One message with everything that is sent for it.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) tag: u8,
    pub(super) bytes: Vec<u8>,
}

impl Message {
    /// The name and the text of a statement to prepare.
    pub(super) fn prepared(&self) -> Option<(String, String)> {
        (self.tag == b'P').then(|| self.two_texts())
    }

    /// The same message, but a statement to prepare says something instead of the passage.
    pub(super) fn with(self, passage: &str, instead: &str) -> Self {
        let Some((name, text)) = self.prepared().filter(|(_, text)| text.contains(passage)) else { return self };
        let rest = &self.bytes[5 + name.len() + 1 + text.len()..];
        let mut body = name.into_bytes();
        body.push(0);
        body.extend(text.replace(passage, instead).into_bytes());
        body.extend(rest);
        let mut bytes = vec![self.tag];
        bytes.extend((body.len() as u32 + 4).to_be_bytes());
        bytes.extend(body);
        Self { tag: self.tag, bytes }
    }

    /// The statement that a Bind refers to.
    pub(super) fn bound(&self) -> Option<String> {
        (self.tag == b'B').then(|| self.two_texts().1)
    }

    /// The text of a simple query.
    pub(super) fn query(&self) -> Option<String> {
        (self.tag == b'Q').then(|| self.two_texts().0)
    }

    /// Whether the server answers what was sent up to here with ReadyForQuery.
    pub(super) fn ends_request(&self) -> bool {
        matches!(self.tag, b'S' | b'Q')
    }

    /// Whether it may wait for the rest of its request.
    pub(super) fn is_part(&self) -> bool {
        matches!(self.tag, b'P' | b'B' | b'D' | b'E' | b'C')
    }

    fn two_texts(&self) -> (String, String) {
        let mut texts = self.bytes[5..].split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned());
        (texts.next().unwrap_or_default(), texts.next().unwrap_or_default())
    }
}

/// The next message; `None` when the peer is gone.
pub(super) async fn read_message(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Message>> {
    let mut head = [0; 5];
    if from.read(&mut head[..1]).await? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut head[1..]).await?;
    let bytes = read_rest(from, &head, length(&head[1..])?).await?;
    Ok(Some(Message { tag: head[0], bytes }))
}

/// What a client says first.
#[derive(Debug)]
pub(super) enum Opening {
    /// Asks for encryption; wants a single byte as answer and begins anew.
    Encryption,
    Startup(Vec<u8>),
}

pub(super) async fn read_opening(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Opening> {
    let mut head = [0; 4];
    from.read_exact(&mut head).await?;
    let bytes = read_rest(from, &head, length(&head)?).await?;
    let code = bytes.get(4..8).and_then(|code| code.try_into().ok()).map_or(0, u32::from_be_bytes);
    Ok(if code == TLS_REQUEST || code == ENCRYPTION_REQUEST { Opening::Encryption } else { Opening::Startup(bytes) })
}

fn length(bytes: &[u8]) -> io::Result<usize> {
    let length = bytes.try_into().map_or(0, u32::from_be_bytes) as usize;
    if (4..LONGEST).contains(&length) { Ok(length) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// Completes a message: its length counts itself, but not the tag before it.
async fn read_rest(from: &mut (impl AsyncRead + Unpin), head: &[u8], length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = head.to_vec();
    bytes.resize(head.len() - 4 + length, 0);
    from.read_exact(&mut bytes[head.len()..]).await?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![tag];
        bytes.extend((body.len() as u32 + 4).to_be_bytes());
        bytes.extend(body);
        bytes
    }

    #[tokio::test]
    async fn messages_are_read_whole() {
        let mut stream = message(b'P', b"name\0SELECT 1\0\0\0");
        stream.extend(message(b'B', b"\0name\0\0\0"));
        stream.extend(message(b'S', b""));
        let mut from = stream.as_slice();
        let parse = read_message(&mut from).await.unwrap().unwrap();
        assert_eq!(parse.prepared(), Some(("name".into(), "SELECT 1".into())));
        assert_eq!(parse.query(), None);
        let bind = read_message(&mut from).await.unwrap().unwrap();
        assert_eq!(bind.bound().as_deref(), Some("name"));
        assert!(bind.is_part() && !bind.ends_request());
        assert!(read_message(&mut from).await.unwrap().unwrap().ends_request());
        assert!(read_message(&mut from).await.unwrap().is_none());
    }

    #[test]
    fn statements_are_rewritten_and_nothing_else() {
        let of = |tag, body: &[u8]| Message { tag, bytes: message(tag, body) };
        let rewritten = of(b'P', b"name\0SELECT 1 FOR SHARE\0\0\x01\0\0\0\x02").with(" FOR SHARE", "");
        assert_eq!(rewritten.bytes, message(b'P', b"name\0SELECT 1\0\0\x01\0\0\0\x02"));
        let bind = of(b'B', b"\0 FOR SHARE\0\0\0").with(" FOR SHARE", "");
        assert_eq!(bind.bytes, message(b'B', b"\0 FOR SHARE\0\0\0"));
    }

    #[tokio::test]
    async fn openings_are_told_apart_and_nonsense_is_refused() {
        let mut tls = Vec::from(8u32.to_be_bytes());
        tls.extend(TLS_REQUEST.to_be_bytes());
        assert!(matches!(read_opening(&mut tls.as_slice()).await, Ok(Opening::Encryption)));
        let mut startup = Vec::from(8u32.to_be_bytes());
        startup.extend(196_608u32.to_be_bytes());
        assert!(matches!(read_opening(&mut startup.as_slice()).await, Ok(Opening::Startup(bytes)) if bytes == startup));
        assert!(read_opening(&mut [0u8, 0, 0, 1].as_slice()).await.is_err());
    }
}
