//! Logs: append-only chunks, read by cursor.

use mainspring_core::work::{LogLine, LogStream};
use mainspring_store::{LogCursor, StoredChunk};

use crate::conformance;
use crate::world::World;

fn chunk(w: &World, attempt: i32, chunk: i32, texts: &[&str]) -> StoredChunk {
    let line = |text: &&str| LogLine { at: w.now, stream: LogStream::Stderr, text: (*text).to_owned() };
    StoredChunk { key: w.key("a"), attempt, chunk, lines: texts.iter().map(line).collect() }
}

async fn read(w: &World, attempt: Option<i32>, after: LogCursor, limit: i64) -> (Vec<String>, LogCursor) {
    let read = w.store.read_logs(w.key("a"), attempt, after, limit).await.unwrap();
    let cursor = read.last().map_or(after, |chunk| chunk.0);
    (read.into_iter().flat_map(|chunk| chunk.1).map(|line| line.text).collect(), cursor)
}

conformance! {
    async fn chunks_are_read_in_order_from_where_reading_stopped(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}}}").await;
        let chunks = [chunk(w, 1, 1, &["one", "two"]), chunk(w, 1, 2, &["three"]), chunk(w, 2, 1, &["four"])];
        w.store.append_logs(&chunks).await.unwrap();
        let (lines, cursor) = read(w, None, LogCursor::default(), 2).await;
        assert_eq!(lines, ["one", "two", "three"]);
        let (lines, cursor) = read(w, None, cursor, 10).await;
        assert_eq!(lines, ["four"]);
        assert!(read(w, None, cursor, 10).await.0.is_empty());
        assert_eq!(read(w, Some(1), LogCursor::default(), 10).await.0, ["one", "two", "three"]);
        assert_eq!(read(w, Some(2), LogCursor::default(), 10).await.0, ["four"]);
    }

    async fn the_same_chunk_again_does_no_harm(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}}}").await;
        w.store.append_logs(&[chunk(w, 1, 1, &["one"])]).await.unwrap();
        w.store.append_logs(&[chunk(w, 1, 1, &["changed"]), chunk(w, 1, 2, &["two"])]).await.unwrap();
        assert_eq!(read(w, None, LogCursor::default(), 10).await.0, ["one", "two"]);
        w.store.append_logs(&[]).await.unwrap();
    }

    async fn lines_read_back_as_they_were(w: &mut World) {
        w.submit("{name: w, tasks: {a: {run: x}}}").await;
        let awkward = ["", "quotes \" and \\", "newline \n inside", "ünïcödé 🦀", "{\"json\": true}", "\u{1b}[31mred\u{1b}[0m"];
        let written = chunk(w, 1, 1, &awkward);
        w.store.append_logs(std::slice::from_ref(&written)).await.unwrap();
        let read = w.store.read_logs(w.key("a"), None, LogCursor::default(), 10).await.unwrap();
        assert_eq!(read[0].1, written.lines);
    }
}
