//! `mainspring ui`: an address that opens the web interface and signs in once.

use std::net::{Ipv4Addr, SocketAddr};

use clap::Args;
use mainspring_api::cluster::Cluster;
use serde_json::json;

use crate::api::Connection;
use crate::app::App;
use crate::failure::{Exit, Failure, Result};

#[derive(Debug, Args)]
pub(crate) struct UiArgs {
    /// Where the server is reached, if that is not its own address
    #[arg(long, value_name = "URL")]
    address: Option<String>,
}

pub(crate) async fn ui(app: &App<'_>, args: UiArgs) -> Result {
    app.start_logs();
    let api = Connection::open_existing(app).await?;
    // Over HTTP the token of the request is meant; in this process the one that the first start left.
    let body = match api.client() {
        Some(_) => json!({"token": own_token(app)?}),
        None => json!({}),
    };
    let made = api.send("POST", &["auth", "codes"], &[], Some(&body)).await?;
    let code = made["code"].as_str().unwrap_or_default();
    let address = match (args.address, api.client()) {
        (Some(address), _) => address,
        (None, None) => api.place(),
        (None, Some(_)) => {
            let scheme = if app.config.api.tls.is_some() { "https" } else { "http" };
            let cluster: Cluster = api.read(&["cluster"], &[]).await?;
            let configured = app.config.listen.to_string();
            let serving = serving(&cluster, &configured);
            if serving.is_none() {
                app.out.note("no server uses this database: start `mainspring server` before the address is opened");
            }
            format!("{scheme}://{}", reachable(serving.unwrap_or(&configured)))
        }
    };
    let address = address.trim_end_matches('/');
    app.out.line(format_args!("{address}/ui/#code={code}"));
    app.out.note("it signs in once and within five minutes");
    Ok(Exit::Success)
}

/// Where a live node listens: as this configuration says if one does, else the node that leads, else any.
fn serving<'c>(cluster: &'c Cluster, configured: &str) -> Option<&'c str> {
    let live = || cluster.members.iter().filter(|member| member.alive && member.address.is_some());
    live()
        .find(|member| member.address.as_deref() == Some(configured))
        .or_else(|| live().find(|member| member.leads))
        .or_else(|| live().next())
        .and_then(|member| member.address.as_deref())
}

/// A server that listens on all addresses of this machine is opened by the one that every machine has.
fn reachable(address: &str) -> String {
    match address.parse::<SocketAddr>() {
        Ok(at) if at.ip().is_unspecified() => SocketAddr::from((Ipv4Addr::LOCALHOST, at.port())).to_string(),
        _ => address.to_owned(),
    }
}

fn own_token(app: &App<'_>) -> Result<String> {
    let file = app.token_file();
    let text = std::fs::read_to_string(&file).map_err(|_| {
        Failure::bad_input(format!("there is no token in {}", file.display()))
            .remedy("start `mainspring server` here first, or name a server with --server and give its token in MAINSPRING_TOKEN")
    })?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_can_be_opened_in_a_browser() {
        assert_eq!(reachable("0.0.0.0:8080"), "127.0.0.1:8080");
        assert_eq!(reachable("[::]:8080"), "127.0.0.1:8080");
        assert_eq!(reachable("10.0.0.7:80"), "10.0.0.7:80");
        assert_eq!(reachable("jobs.example.com:80"), "jobs.example.com:80");
    }
}
