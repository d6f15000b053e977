//! Which addresses belong to the public internet.
//!
//! The lists follow the special-purpose registries of IANA. The IPv4 list names what is not public. The IPv6 list names
//! what is: global unicast without its special parts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses that share their first bits. `10.0.0.0/8`, or a single address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    pub(super) const fn v4(a: u8, b: u8, c: u8, bits: u8) -> Self {
        Self { address: IpAddr::V4(Ipv4Addr::new(a, b, c, 0)), bits }
    }

    const fn v6(a: u16, b: u16, c: u16, bits: u8) -> Self {
        Self { address: IpAddr::V6(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0)), bits }
    }

    /// `None` if the prefix is longer than an address of its kind.
    pub(super) fn new(address: IpAddr, bits: Option<u8>) -> Option<Self> {
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        (bits <= most).then_some(Self { address, bits })
    }

    pub(super) fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let shift = 32 - u32::from(self.bits);
                own.to_bits().checked_shr(shift) == other.to_bits().checked_shr(shift)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let shift = 128 - u32::from(self.bits);
                own.to_bits().checked_shr(shift) == other.to_bits().checked_shr(shift)
            }
            _ => false,
        }
    }
}

const RESERVED_V4: [(Network, &str); 15] = [
    (Network::v4(0, 0, 0, 8), "unspecified"),
    (Network::v4(10, 0, 0, 8), "private"),
    (Network::v4(100, 64, 0, 10), "shared between carriers"),
    (Network::v4(127, 0, 0, 8), "loopback"),
    (Network::v4(169, 254, 0, 16), "link-local"),
    (Network::v4(172, 16, 0, 12), "private"),
    (Network::v4(192, 0, 0, 24), "reserved for protocols"),
    (Network::v4(192, 0, 2, 24), "for documentation"),
    (Network::v4(192, 88, 99, 24), "a 6to4 relay"),
    (Network::v4(192, 168, 0, 16), "private"),
    (Network::v4(198, 18, 0, 15), "for benchmarks"),
    (Network::v4(198, 51, 100, 24), "for documentation"),
    (Network::v4(203, 0, 113, 24), "for documentation"),
    (Network::v4(224, 0, 0, 4), "multicast"),
    (Network::v4(240, 0, 0, 4), "reserved"),
];

const GLOBAL_V6: Network = Network::v6(0x2000, 0, 0, 3);
const NAT64: Network = Network::v6(0x64, 0xff9b, 0, 96);

const RESERVED_V6: [(Network, &str); 9] = [
    (Network::v6(0x2001, 0, 0, 23), "reserved for protocols"),
    (Network::v6(0x2001, 0xdb8, 0, 32), "for documentation"),
    (Network::v6(0x2002, 0, 0, 16), "6to4, which hides an IPv4 address"),
    (Network::v6(0x3fff, 0, 0, 20), "for documentation"),
    (Network::v6(0x64, 0xff9b, 1, 48), "local NAT64, which hides an IPv4 address"),
    (Network::v6(0xfc00, 0, 0, 7), "unique-local"),
    (Network::v6(0xfe80, 0, 0, 10), "link-local"),
    (Network::v6(0xfec0, 0, 0, 10), "site-local"),
    (Network::v6(0xff00, 0, 0, 8), "multicast"),
];

/// What an address is if it is not a public one.
pub(super) fn why_not_public(address: IpAddr) -> Option<&'static str> {
    match address.to_canonical() {
        IpAddr::V4(_) => reserved(&RESERVED_V4, address.to_canonical()),
        IpAddr::V6(six) if six.is_loopback() => Some("loopback"),
        IpAddr::V6(six) if six.is_unspecified() => Some("unspecified"),
        // A network with IPv6 only reaches public IPv4 addresses this way; the others it would reach as well.
        IpAddr::V6(six) if NAT64.contains(address) => {
            let [.., a, b, c, d] = six.octets();
            reserved(&RESERVED_V4, IpAddr::V4(Ipv4Addr::new(a, b, c, d)))
        }
        IpAddr::V6(six) if six.to_bits() >> 32 == 0 => Some("IPv4-compatible, which hides an IPv4 address"),
        IpAddr::V6(_) => reserved(&RESERVED_V6, address)
            .or_else(|| (!GLOBAL_V6.contains(address)).then_some("not a global unicast address")),
    }
}

fn reserved(table: &[(Network, &'static str)], address: IpAddr) -> Option<&'static str> {
    table.iter().find(|(network, _)| network.contains(address)).map(|(_, what)| *what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_addresses_are_told_from_others() {
        for (text, expected) in [
            ("8.8.8.8", None),
            ("93.184.216.34", None),
            ("100.63.255.255", None),
            ("100.128.0.1", None),
            ("172.32.0.1", None),
            ("192.0.1.1", None),
            ("2606:4700::1111", None),
            ("2a00:1450:4001::1", None),
            ("::ffff:8.8.8.8", None),
            ("64:ff9b::8.8.8.8", None),
            ("0.0.0.0", Some("unspecified")),
            ("0.1.2.3", Some("unspecified")),
            ("10.255.0.1", Some("private")),
            ("100.64.0.1", Some("shared between carriers")),
            ("100.127.255.255", Some("shared between carriers")),
            ("127.0.0.1", Some("loopback")),
            ("127.255.255.255", Some("loopback")),
            ("169.254.169.254", Some("link-local")),
            ("172.31.255.255", Some("private")),
            ("192.0.0.8", Some("reserved for protocols")),
            ("192.0.2.1", Some("for documentation")),
            ("192.168.0.1", Some("private")),
            ("198.19.255.255", Some("for benchmarks")),
            ("198.51.100.7", Some("for documentation")),
            ("203.0.113.9", Some("for documentation")),
            ("224.0.0.1", Some("multicast")),
            ("255.255.255.255", Some("reserved")),
            ("::", Some("unspecified")),
            ("::1", Some("loopback")),
            ("::ffff:127.0.0.1", Some("loopback")),
            ("::ffff:a9fe:a9fe", Some("link-local")),
            ("::127.0.0.1", Some("IPv4-compatible, which hides an IPv4 address")),
            ("::8.8.8.8", Some("IPv4-compatible, which hides an IPv4 address")),
            ("64:ff9b::10.0.0.1", Some("private")),
            ("64:ff9b:1::1", Some("local NAT64, which hides an IPv4 address")),
            ("2002:7f00:1::", Some("6to4, which hides an IPv4 address")),
            ("2001::1", Some("reserved for protocols")),
            ("2001:db8::1", Some("for documentation")),
            ("3fff::1", Some("for documentation")),
            ("fc00::1", Some("unique-local")),
            ("fd12:3456::1", Some("unique-local")),
            ("fe80::1", Some("link-local")),
            ("fec0::1", Some("site-local")),
            ("ff02::1", Some("multicast")),
            ("100::1", Some("not a global unicast address")),
            ("5f00::1", Some("not a global unicast address")),
            ("4000::1", Some("not a global unicast address")),
        ] {
            assert_eq!(why_not_public(text.parse().unwrap()), expected, "{text}");
        }
    }
}
