//! The Redis protocol, version 2: commands are arrays of texts, replies are one of five kinds.

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

/// Larger replies are refused; none is expected.
const LARGEST: i64 = 16 << 20;
const DEEPEST: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    Nil,
    Number(i64),
    Text(String),
    Error(String),
    List(Vec<Reply>),
}

impl Reply {
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn list(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum RespError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("it does not speak the Redis protocol")]
    NotRedis,
}

pub(crate) fn command(arguments: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        bytes.extend_from_slice(argument.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

pub(crate) async fn read(stream: &mut (impl AsyncBufRead + Unpin + Send)) -> Result<Reply, RespError> {
    read_nested(stream, 0).await
}

async fn read_nested(stream: &mut (impl AsyncBufRead + Unpin + Send), depth: usize) -> Result<Reply, RespError> {
    if depth > DEEPEST {
        return Err(RespError::NotRedis);
    }
    let line = read_line(stream).await?;
    let (kind, rest) = line.split_at_checked(1).ok_or(RespError::NotRedis)?;
    let number = || rest.parse::<i64>().map_err(|_| RespError::NotRedis);
    Ok(match kind {
        "+" => Reply::Text(rest.to_owned()),
        "-" => Reply::Error(rest.to_owned()),
        ":" => Reply::Number(number()?),
        "$" => match number()? {
            ..0 => Reply::Nil,
            LARGEST.. => return Err(RespError::NotRedis),
            length => {
                let mut bytes = vec![0; length as usize + 2];
                stream.read_exact(&mut bytes).await?;
                bytes.truncate(length as usize);
                Reply::Text(String::from_utf8_lossy(&bytes).into_owned())
            }
        },
        "*" => match number()? {
            ..0 => Reply::Nil,
            LARGEST.. => return Err(RespError::NotRedis),
            length => {
                let mut items = Vec::new();
                for _ in 0..length {
                    items.push(Box::pin(read_nested(stream, depth + 1)).await?);
                }
                Reply::List(items)
            }
        },
        _ => return Err(RespError::NotRedis),
    })
}

async fn read_line(stream: &mut (impl AsyncBufRead + Unpin + Send)) -> Result<String, RespError> {
    let mut line = Vec::new();
    stream.take(64 * 1024).read_until(b'\n', &mut line).await?;
    if line.is_empty() {
        return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
    }
    let text = String::from_utf8(line).map_err(|_| RespError::NotRedis)?;
    text.strip_suffix("\r\n").map(str::to_owned).ok_or(RespError::NotRedis)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn reply(text: &str) -> Result<Reply, RespError> {
        read(&mut text.as_bytes()).await
    }

    #[tokio::test]
    async fn every_kind_of_reply_is_read() {
        assert_eq!(reply("+OK\r\n").await.unwrap(), Reply::Text("OK".into()));
        assert_eq!(reply("-ERR no\r\n").await.unwrap(), Reply::Error("ERR no".into()));
        assert_eq!(reply(":-3\r\n").await.unwrap(), Reply::Number(-3));
        assert_eq!(reply("$-1\r\n").await.unwrap(), Reply::Nil);
        assert_eq!(reply("*-1\r\n").await.unwrap(), Reply::Nil);
        assert_eq!(reply("$4\r\na\r\nb\r\n").await.unwrap(), Reply::Text("a\r\nb".into()));
        let nested = reply("*2\r\n*1\r\n:1\r\n$0\r\n\r\n").await.unwrap();
        assert_eq!(nested, Reply::List(vec![Reply::List(vec![Reply::Number(1)]), Reply::Text(String::new())]));
    }

    #[tokio::test]
    async fn what_is_not_redis_is_refused() {
        for text in ["HTTP/1.1 400 Bad Request\r\n", "\r\n", "$x\r\n", "$99999999999\r\n", "+OK\n", "*1\r\n?\r\n"] {
            assert!(matches!(reply(text).await, Err(RespError::NotRedis)), "{text:?}");
        }
        assert!(matches!(reply("").await, Err(RespError::Io(_))));
        assert!(matches!(reply("$4\r\nab").await, Err(RespError::Io(_))));
    }

    #[test]
    fn commands_carry_lengths_in_bytes() {
        assert_eq!(command(&["GET", "ä"]), "*2\r\n$3\r\nGET\r\n$2\r\nä\r\n".as_bytes());
    }
}
