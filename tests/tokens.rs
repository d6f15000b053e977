//! Tokens for the servers that a test starts.

use mainspring_engine::Client;
use mainspring_server::{Grant, Role, Token};
use mainspring_store::NewToken;

/// A token with this role in every namespace.
pub(crate) async fn make_token(client: &Client, role: Role) -> String {
    let token = Token::generate(client.clock().new_id()).unwrap();
    let new = NewToken {
        id: token.id(),
        name: role.word().into(),
        hash: token.hash(),
        grants: serde_json::to_string(&[Grant::everywhere(role)]).unwrap(),
        created_by: "test".into(),
        expires_at: None,
    };
    client.store().add_token(client.now(), &new).await.unwrap();
    token.reveal().to_owned()
}
