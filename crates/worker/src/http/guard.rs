//! Decides which addresses a task may talk to.
//!
//! A task's URL often holds data from outside, and the worker stands inside the network: an author who chooses the URL must not
//! reach what only the worker can reach. So the addresses of the public internet are open, and all others only by the
//! operator's list. Addresses are judged, never names; a name on the list stands for whatever it resolves to.

use std::net::IpAddr;
use std::str::FromStr;

use mainspring_core::work::Failure;

use super::ranges::{Network, why_not_public};
use crate::text::first_characters;

/// The operator's list of places inside the network that tasks may talk to.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    allow: Vec<Allow>,
}

/// One entry of the list: `127.0.0.1`, `10.0.0.0/8`, `fd00::/8`, `host.internal` or `*.internal`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allow(Entry);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Network(Network),
    Host(String),
    /// With its leading dot.
    Below(String),
}

/// Why an entry cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{entry}` cannot stand in the list of allowed hosts: {reason}")]
pub struct AllowError {
    entry: String,
    reason: String,
}

impl FromStr for Allow {
    type Err = AllowError;

    fn from_str(text: &str) -> Result<Self, AllowError> {
        let entry = text.trim();
        let fail = |reason: &str| {
            let entry = first_characters(entry, 100).escape_debug().to_string();
            Err(AllowError {
                entry,
                reason: format!(
                    "{reason}; write an address, a network or a host name, such as 127.0.0.1, 10.0.0.0/8, host.internal or *.internal"
                ),
            })
        };
        if entry.is_empty() {
            return fail("it is empty");
        }
        if entry.contains("://") {
            return fail("it is a URL");
        }
        let (address, bits) = match entry.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (entry, None),
        };
        let bare = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(address);
        if let Ok(address) = bare.parse::<IpAddr>() {
            let Ok(bits) = bits.map(str::parse).transpose() else { return fail("its prefix is not a number") };
            return match Network::new(address, bits) {
                Some(network) => Ok(Self(Entry::Network(network))),
                None => fail("its prefix is longer than its address"),
            };
        }
        if bits.is_some() {
            return fail("what stands before `/` is not an address");
        }
        if entry.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
            return fail("it is not a whole address");
        }
        if entry.contains(':') {
            return fail("a port does not belong here");
        }
        let name = entry.trim_end_matches('.').to_ascii_lowercase();
        let (below, rest) = match name.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, name.as_str()),
        };
        let label = |label: &str| {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            (1..=63).contains(&label.len()) && label.bytes().all(fits)
        };
        if rest.len() > 253 || !rest.split('.').all(label) {
            return fail("it is not a host name");
        }
        Ok(Self(if below { Entry::Below(format!(".{rest}")) } else { Entry::Host(rest.to_owned()) }))
    }
}

impl Guard {
    pub fn new(allow: Vec<Allow>) -> Self {
        Self { allow }
    }

    /// Reads the list as it stands in a configuration; the first entry that cannot be read is the error.
    pub fn parse<S: AsRef<str>>(entries: impl IntoIterator<Item = S>) -> Result<Self, AllowError> {
        let allow = entries.into_iter().map(|entry| entry.as_ref().parse()).collect::<Result<_, _>>()?;
        Ok(Self { allow })
    }

    /// All addresses of a host must pass: which of them would be used is up to the name server.
    pub(super) fn check(&self, host: &str, addresses: &[IpAddr]) -> Result<(), Failure> {
        for address in addresses {
            let Some(what) = why_not_public(*address) else { continue };
            if !self.permits(host, *address) {
                return Err(blocked(host, *address, what));
            }
        }
        Ok(())
    }

    fn permits(&self, host: &str, address: IpAddr) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        self.allow.iter().any(|allow| match &allow.0 {
            Entry::Network(network) => network.contains(address.to_canonical()) || network.contains(address),
            Entry::Host(name) => *name == host,
            Entry::Below(suffix) => host.len() > suffix.len() && host.ends_with(suffix.as_str()),
        })
    }
}

fn blocked(host: &str, address: IpAddr, what: &str) -> Failure {
    let shown = first_characters(host, 200);
    let target = match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(_) => format!("{address} is"),
        Err(_) => format!("`{shown}` has the address {address}, which is"),
    };
    let message = format!(
        "blocked: {target} not public ({what}); if tasks should reach it, add \"{address}\" or the host to `allow` in \
         the section [http] of the configuration"
    );
    Failure { kind: "blocked".into(), message, permanent: true, ..Failure::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(entry: &str, host: &str, address: &str) -> bool {
        let guard = Guard::parse([entry]).unwrap();
        guard.check(host, &[address.parse().unwrap()]).is_ok()
    }

    #[test]
    fn entries_open_what_they_name_and_nothing_else() {
        for (entry, host, address, expected) in [
            ("127.0.0.1/32", "x", "127.0.0.1", true),
            ("127.0.0.1", "x", "127.0.0.1", true),
            ("127.0.0.1", "x", "::ffff:127.0.0.1", true),
            ("127.0.0.1", "x", "127.0.0.2", false),
            ("10.0.0.0/8", "x", "10.200.3.4", true),
            ("10.0.0.0/8", "x", "11.0.0.1", true),
            ("10.0.0.0/8", "x", "192.168.0.1", false),
            ("0.0.0.0/0", "x", "192.168.0.1", true),
            ("0.0.0.0/0", "x", "::1", false),
            ("[::1]", "x", "::1", true),
            ("::/0", "x", "fd00::1", true),
            ("fd00::/8", "x", "fe80::1", false),
            ("host.internal", "host.internal", "10.0.0.1", true),
            ("Host.Internal.", "host.internal.", "10.0.0.1", true),
            ("host.internal", "evil-host.internal", "10.0.0.1", false),
            ("*.internal", "a.b.internal", "10.0.0.1", true),
            ("*.internal", "internal", "10.0.0.1", false),
            ("*.internal", "a.binternal", "10.0.0.1", false),
        ] {
            assert_eq!(permits(entry, host, address), expected, "{entry} {host} {address}");
        }
    }

    #[test]
    fn one_forbidden_address_is_enough() {
        let guard = Guard::default();
        let addresses = ["8.8.8.8".parse().unwrap(), "10.0.0.7".parse().unwrap()];
        let failure = guard.check("two.example", &addresses).unwrap_err();
        assert_eq!((failure.kind.as_str(), failure.permanent), ("blocked", true));
        assert!(failure.message.contains("`two.example` has the address 10.0.0.7"), "{}", failure.message);
        assert!(failure.message.contains("[http]"), "{}", failure.message);
        assert!(guard.check("one.example", &addresses[..1]).is_ok());
    }

    #[test]
    fn entries_that_make_no_sense_say_why() {
        for (entry, reason) in [
            ("", "empty"),
            ("10.0.0.0/33", "longer than its address"),
            ("10.0.0.0/x", "not a number"),
            ("10.0.0", "not a whole address"),
            ("http://10.0.0.1", "URL"),
            ("10.0.0.1:80", "port"),
            ("host/8", "not an address"),
            ("a b", "not a host name"),
            ("*", "not a host name"),
            ("a..b", "not a host name"),
        ] {
            let error = Guard::parse([entry]).unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("such as"), "{entry}: {error}");
        }
    }
}
