//! Output without measure. Alone in its binary, because it looks at the memory of the whole process.

mod common;

use common::{Rig, memory, script};
use mainspring_core::work::{LogStream, Outcome};
use mainspring_worker::{PoolConfig, Registry};

#[tokio::test]
async fn floods_are_bounded_in_memory_and_visible() {
    let mut rig = Rig::with(PoolConfig { log_limit: 1_000_000, ..PoolConfig::default() }, Registry::default());
    rig.run(script("echo warm; ls /")).await;
    let before = memory("VmHWM");

    let endless_line = "head -c 200000000 /dev/zero | tr '\\0' x";
    assert_eq!(rig.run(script(endless_line)).await, Outcome::Success { output: None });
    let line = rig.until_line("[line cut at 16 KiB]").await;
    assert!(line.text.len() < 17 * 1024);

    let empty_lines = "head -c 20000000 /dev/zero | tr '\\0' '\\n'; echo the end >&2; exit 3";
    let Outcome::Failed(failure) = rig.run(script(empty_lines)).await else { panic!("it exits with 3") };
    assert!(failure.detail.unwrap().ends_with("the end"));
    let line = rig.until_line("output truncated").await;
    assert_eq!(line.stream, LogStream::System);
    assert_eq!(line.text, "output truncated: only the first 1000000 bytes are kept");

    let grown = memory("VmHWM") - before;
    assert!(grown < 24_000_000, "{grown} bytes");
    assert!(rig.lines().len() < 40_000);
}
