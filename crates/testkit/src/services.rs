//! etcd and Redis as processes of one test: on ports of their own, killed, paused and wiped as the test wants.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::net::TcpStream;

use crate::wait::until;

const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// Which server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Etcd,
    Redis,
    SecureRedis,
}

/// A server that goes with this value. Its data stays in its folder until [`Service::wipe`].
#[derive(Debug)]
pub struct Service {
    kind: Kind,
    folder: tempfile::TempDir,
    port: u16,
    peer_port: u16,
    /// Further arguments.
    arguments: Vec<String>,
    child: Option<Child>,
}

impl Service {
    pub async fn etcd() -> anyhow::Result<Self> {
        Self::start(Kind::Etcd, &[]).await
    }

    pub async fn redis() -> anyhow::Result<Self> {
        Self::start(Kind::Redis, &[]).await
    }

    /// A Redis that wants a password.
    pub async fn redis_with_password(password: &str) -> anyhow::Result<Self> {
        Self::start(Kind::Redis, &["--requirepass", password]).await
    }

    /// A Redis that speaks TLS alone, with these PEM files.
    pub async fn redis_with_tls(certificate: &Path, key: &Path) -> anyhow::Result<Self> {
        let (certificate, key) = (certificate.display().to_string(), key.display().to_string());
        let files = ["--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-ca-cert-file", &certificate];
        Self::start(Kind::SecureRedis, &[&files[..], &["--tls-auth-clients", "no"]].concat()).await
    }

    async fn start(kind: Kind, arguments: &[&str]) -> anyhow::Result<Self> {
        let mut service = Self {
            kind,
            folder: tempfile::tempdir().context("making a folder for a server")?,
            port: free_port()?,
            peer_port: free_port()?,
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
            child: None,
        };
        service.restart().await?;
        Ok(service)
    }

    pub fn url(&self) -> String {
        match self.kind {
            Kind::Etcd => format!("http://127.0.0.1:{}", self.port),
            Kind::Redis => format!("redis://127.0.0.1:{}", self.port),
            Kind::SecureRedis => format!("rediss://localhost:{}", self.port),
        }
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Starts it again after [`Service::kill`], on the same port and data, and waits until it answers.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.kill()?;
        self.child = Some(self.command().spawn().context("starting a server; `scripts/test-programs` installs it")?);
        let address = self.address();
        until("the server answers", STARTS_WITHIN, async || Ok(TcpStream::connect(&address).await.ok())).await?;
        Ok(())
    }

    /// SIGKILL.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill().context("killing a server")?;
            child.wait().context("waiting for a killed server")?;
        }
        Ok(())
    }

    /// Kills it, forgets its data, and starts it again.
    pub async fn wipe(&mut self) -> anyhow::Result<()> {
        self.kill()?;
        let data = self.data();
        if data.exists() {
            std::fs::remove_dir_all(&data).context("wiping a server's data")?;
        }
        self.restart().await
    }

    /// SIGSTOP: it stands still and notices nothing.
    pub fn pause(&self) -> anyhow::Result<()> {
        self.signal(Signal::SIGSTOP)
    }

    /// SIGCONT.
    pub fn resume(&self) -> anyhow::Result<()> {
        self.signal(Signal::SIGCONT)
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let child = self.child.as_ref().context("the server does not run")?;
        kill(Pid::from_raw(child.id() as i32), signal).context("sending a signal to a server")
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn command(&self) -> Command {
        let mut command = match self.kind {
            Kind::Etcd => {
                let peer = format!("http://127.0.0.1:{}", self.peer_port);
                let mut command = Command::new("etcd");
                command.arg("--data-dir").arg(self.data());
                command.args(["--listen-client-urls", &self.url(), "--advertise-client-urls", &self.url()]);
                command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
                command.args(["--initial-cluster", &format!("default={peer}"), "--log-level", "error"]);
                // Tests share their disk with others.
                command.arg("--unsafe-no-fsync");
                command
            }
            Kind::Redis | Kind::SecureRedis => {
                let mut command = Command::new("redis-server");
                let (port, plain) =
                    (self.port.to_string(), if self.kind == Kind::Redis { "--port" } else { "--tls-port" });
                if self.kind == Kind::SecureRedis {
                    command.args(["--port", "0"]);
                }
                command.args([plain, &port, "--bind", "127.0.0.1", "--save", ""]);
                command.args(["--appendonly", "no", "--dir"]).arg(self.folder.path());
                command
            }
        };
        command.args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        _ = self.kill();
    }
}

fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("looking for a free port")?;
    Ok(listener.local_addr()?.port())
}
