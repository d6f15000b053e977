//! The address of the client. `X-Forwarded-For` counts only from configured proxies.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use axum::http::HeaderMap;

/// The remote address of the connection, set by the listener.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// An address, or a network in CIDR notation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let complaint = || format!("`{text}` is no address like 10.0.0.1 and no network like 10.0.0.0/8");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| complaint())?)),
            None => (text, None),
        };
        let address: IpAddr = address.trim().parse().map_err(|_| complaint())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        if bits > most {
            return Err(complaint());
        }
        Ok(Self { address, bits })
    }
}

impl Network {
    pub(crate) fn contains(&self, other: IpAddr) -> bool {
        match (self.address, other.to_canonical()) {
            (IpAddr::V4(mine), IpAddr::V4(other)) => {
                let shift = 32 - u32::from(self.bits);
                u32::from(mine).checked_shr(shift) == u32::from(other).checked_shr(shift)
            }
            (IpAddr::V6(mine), IpAddr::V6(other)) => {
                let shift = 128 - u32::from(self.bits);
                u128::from(mine).checked_shr(shift) == u128::from(other).checked_shr(shift)
            }
            _ => false,
        }
    }
}

/// The address of the client: the peer, or the address that trusted proxies report, read from the nearest proxy
/// outwards.
pub(crate) fn client(peer: Option<Peer>, headers: &HeaderMap, proxies: &[Network]) -> Option<IpAddr> {
    let mut address = peer?.0.ip().to_canonical();
    let said: Vec<&str> = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok()).collect();
    let said = said.join(",");
    for hop in said.rsplit(',').map(str::trim).take(32) {
        if !proxies.iter().any(|proxy| proxy.contains(address)) {
            break;
        }
        match hop.parse::<IpAddr>() {
            Ok(hop) => address = hop.to_canonical(),
            Err(_) => break,
        }
    }
    Some(address)
}

/// The key of rate limits: an IPv6 customer has a whole /64.
pub(crate) fn counted(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from(u128::from(address) >> 64 << 64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(peer: &str, said: &str, proxies: &[&str], expected: &str) {
        let mut headers = HeaderMap::new();
        if !said.is_empty() {
            headers.insert("x-forwarded-for", said.parse().unwrap());
        }
        let proxies: Vec<Network> = proxies.iter().map(|text| text.parse().unwrap()).collect();
        let peer = Peer(SocketAddr::new(peer.parse().unwrap(), 1));
        assert_eq!(client(Some(peer), &headers, &proxies).unwrap().to_string(), expected, "{said}");
    }

    #[test]
    fn forwarded_addresses_count_only_from_named_proxies() {
        check("10.0.0.1", "1.2.3.4", &[], "10.0.0.1");
        check("10.0.0.1", "1.2.3.4", &["10.0.0.0/8"], "1.2.3.4");
        check("11.0.0.1", "1.2.3.4", &["10.0.0.0/8"], "11.0.0.1");
        // An entry written by the client stands further out than the one of the proxy.
        check("10.0.0.1", "6.6.6.6, 1.2.3.4", &["10.0.0.0/8"], "1.2.3.4");
        check("10.0.0.1", "1.2.3.4, 10.0.0.2", &["10.0.0.0/8"], "1.2.3.4");
        check("10.0.0.1", "nonsense", &["10.0.0.0/8"], "10.0.0.1");
        check("::ffff:10.0.0.1", "1.2.3.4", &["10.0.0.1"], "1.2.3.4");
        check("fd00::1", "1.2.3.4", &["::/0"], "1.2.3.4");
    }

    #[test]
    fn networks_are_read_strictly() {
        for wrong in ["10.0.0.0/33", "10.0.0", "example.com", "::/129", ""] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
        assert_eq!(counted("2001:db8::1".parse().unwrap()), counted("2001:db8::2".parse().unwrap()));
    }
}
