//! `mainspring ui`: an address that opens the web interface and signs in once.

use clap::Args;
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
            format!("{scheme}://{}", app.config.listen)
        }
    };
    let address = address.trim_end_matches('/');
    app.out.line(format_args!("{address}/ui/#code={code}"));
    app.out.note("it signs in once and within five minutes");
    Ok(Exit::Success)
}

fn own_token(app: &App<'_>) -> Result<String> {
    let file = app.token_file();
    let text = std::fs::read_to_string(&file).map_err(|_| {
        Failure::bad_input(format!("there is no token in {}", file.display()))
            .remedy("name a server with --server and give its token in MAINSPRING_TOKEN")
    })?;
    Ok(text.trim().to_owned())
}
