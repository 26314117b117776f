//! Which addresses a webhook may be connected to.
//!
//! The rule judges addresses, not URLs: whatever spelling or name leads to an address, the connector asks with the
//! address that it is about to connect to, and there is no other.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Permits what the whole internet can reach, and what the operator opened besides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EgressRule {
    networks: Vec<IpNet>,
    /// Names as a URL has them: lower case, no dot at the end.
    hosts: Vec<HostPattern>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostPattern {
    Exact(String),
    /// Everything below this name; it begins with a dot.
    Below(String),
}

impl EgressRule {
    /// Reads what is open although it is private: networks (`10.0.0.0/8`), addresses (`192.168.1.5`, `::1`), names
    /// (`hooks.internal`), and all names below one (`*.corp.example`). A name permits whatever it resolves to.
    ///
    /// # Errors
    /// Names the item that is none of these.
    pub fn parse(items: &[String]) -> Result<Self, String> {
        let mut rule = Self::default();
        for item in items.iter().map(|item| item.trim()) {
            if let Some(network) = parse_network(item) {
                rule.networks.push(network);
            } else if let Some(host) = parse_host(item) {
                rule.hosts.push(host);
            } else {
                return Err(format!("{item:?} is no network (10.0.0.0/8), address, name or *.name"));
            }
        }
        Ok(rule)
    }

    /// Whether a connection for the URL host `host` may go to `address`.
    pub fn permits(&self, host: &str, address: IpAddr) -> bool {
        self.permits_address(address) || self.permits_host(host)
    }

    fn permits_address(&self, address: IpAddr) -> bool {
        // A mapped address (::ffff:127.0.0.1) goes out as the IPv4 address in it.
        let address = address.to_canonical();
        if self.networks.iter().any(|network| network.contains(&address)) {
            return true;
        }
        match address {
            IpAddr::V4(address) => is_global_v4(address),
            IpAddr::V6(address) if NAT64.contains(&address) => {
                self.permits_address(IpAddr::V4(last_four_octets(address)))
            }
            IpAddr::V6(address) => is_global_v6(address),
        }
    }

    fn permits_host(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        self.hosts.iter().any(|pattern| match pattern {
            HostPattern::Exact(name) => host == *name,
            HostPattern::Below(suffix) => host.len() > suffix.len() && host.ends_with(suffix.as_str()),
        })
    }
}

fn parse_network(item: &str) -> Option<IpNet> {
    let network = match item.parse::<IpNet>() {
        Ok(network) => network,
        Err(_) => IpNet::from(item.parse::<IpAddr>().ok()?),
    };
    // Addresses are judged in their canonical form, so that is the form to compare with.
    match network {
        IpNet::V6(mapped) if MAPPED.contains(&mapped) => {
            let inner = last_four_octets(mapped.network());
            Ipv4Net::new(inner, mapped.prefix_len() - MAPPED.prefix_len()).ok().map(IpNet::V4)
        }
        network => Some(network.trunc()),
    }
}

fn parse_host(item: &str) -> Option<HostPattern> {
    let (below, name) = match item.strip_prefix("*.") {
        Some(name) => (true, name),
        None => (false, item),
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    // The parser of URLs, so that a name has the same form here and there. It reads numbers as addresses.
    let Ok(url::Host::Domain(name)) = url::Host::parse(name) else { return None };
    if name.is_empty() || name.split('.').any(str::is_empty) || name.contains('*') {
        return None;
    }
    Some(if below { HostPattern::Below(format!(".{name}")) } else { HostPattern::Exact(name) })
}

/// IPv4 that is not globally reachable, by the IANA special-purpose registry; multicast and 6to4 relays besides.
const CLOSED_V4: [Ipv4Net; 16] = [
    v4(0, 0, 0, 0, 8),       // this network
    v4(10, 0, 0, 0, 8),      // private
    v4(100, 64, 0, 0, 10),   // shared with the provider
    v4(127, 0, 0, 0, 8),     // loopback
    v4(169, 254, 0, 0, 16),  // link-local: the metadata services of clouds
    v4(172, 16, 0, 0, 12),   // private
    v4(192, 0, 0, 0, 24),    // protocol assignments
    v4(192, 0, 2, 0, 24),    // documentation
    v4(192, 88, 99, 0, 24),  // 6to4 relays
    v4(192, 168, 0, 0, 16),  // private
    v4(198, 18, 0, 0, 15),   // benchmarks
    v4(198, 51, 100, 0, 24), // documentation
    v4(203, 0, 113, 0, 24),  // documentation
    v4(224, 0, 0, 0, 4),     // multicast
    v4(240, 0, 0, 0, 4),     // reserved
    v4(255, 255, 255, 255, 32),
];

/// All of IPv6 that is handed out for global use. Outside of it lie loopback, unspecified, compatible and mapped
/// IPv4, unique local, link-local, site-local, multicast, discard-only and local NAT64 addresses.
const GLOBAL_V6: Ipv6Net = v6([0x2000, 0, 0, 0], 3);

/// What is not globally reachable inside [`GLOBAL_V6`]. 6to4 and Teredo carry an IPv4 address in them and are
/// closed as a whole: both are obsolete, and a private address may hide in either.
const CLOSED_V6: [Ipv6Net; 4] = [
    v6([0x2001, 0, 0, 0], 23),     // protocol assignments, Teredo (2001::/32) among them
    v6([0x2001, 0xdb8, 0, 0], 32), // documentation
    v6([0x2002, 0, 0, 0], 16),     // 6to4
    v6([0x3fff, 0, 0, 0], 20),     // documentation
];

/// An IPv4 address in its last octets, reached through a translator: judged by that address.
const NAT64: Ipv6Net = v6([0x64, 0xff9b, 0, 0], 96);

const MAPPED: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96);

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(head: [u16; 4], prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(head[0], head[1], head[2], head[3], 0, 0, 0, 0), prefix)
}

fn is_global_v4(address: Ipv4Addr) -> bool {
    !CLOSED_V4.iter().any(|network| network.contains(&address))
}

fn is_global_v6(address: Ipv6Addr) -> bool {
    GLOBAL_V6.contains(&address) && !CLOSED_V6.iter().any(|network| network.contains(&address))
}

fn last_four_octets(address: Ipv6Addr) -> Ipv4Addr {
    let [.., a, b, c, d] = address.octets();
    Ipv4Addr::new(a, b, c, d)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(items: &[&str]) -> EgressRule {
        EgressRule::parse(&items.iter().map(|item| (*item).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    /// What a URL of this host would be connected to, when the host is an address.
    fn address_in(url: &str) -> (String, IpAddr) {
        let url = url::Url::parse(url).unwrap();
        let address = match url.host().unwrap() {
            url::Host::Ipv4(address) => IpAddr::V4(address),
            url::Host::Ipv6(address) => IpAddr::V6(address),
            url::Host::Domain(name) => panic!("{name} is no address"),
        };
        (url.host_str().unwrap().to_owned(), address)
    }

    #[test]
    fn nothing_but_global_addresses_is_open_by_default() {
        let closed = [
            "0.0.0.0",
            "0.255.255.255",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.0.1",
            "169.254.169.254",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.0.170",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "192.168.255.255",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.7",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.254",
            "255.255.255.255",
            "::",
            "::1",
            "::2",
            "::127.0.0.1",
            "::8.8.8.8",
            "::ffff:127.0.0.1",
            "::ffff:10.1.2.3",
            "::ffff:169.254.169.254",
            "::ffff:0:127.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::127.0.0.1",
            "64:ff9b:1::8.8.8.8",
            "100::1",
            "2001::1",
            "2001:0:7f00:1::",
            "2001:2::1",
            "2001:10::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "2002:808:808::1",
            "3fff::1",
            "3fff:fff::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fdff::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "feff::1",
            "ff02::1",
            "ff0e::1",
        ];
        let rule = EgressRule::default();
        for address in closed {
            assert!(!rule.permits("hooks.example", address.parse().unwrap()), "{address} is open");
        }
    }

    #[test]
    fn global_addresses_are_open() {
        let open = [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.1",
            "169.253.0.1",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.1",
            "192.167.0.1",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2003::1",
            "2606:4700::1111",
            "2a00:1450::1",
            "3ffe::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
        ];
        let rule = EgressRule::default();
        for address in open {
            assert!(rule.permits("hooks.example", address.parse().unwrap()), "{address} is closed");
        }
    }

    #[test]
    fn every_spelling_of_loopback_in_a_url_is_closed() {
        let spellings = [
            "http://127.0.0.1/",
            "http://127.0.0.1./",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0x7f.1/",
            "http://0177.0.0.1/",
            "http://017700000001/",
            "http://127.1/",
            "http://127.0.1/",
            "http://0x7F.0.0.0x1/",
            "http://%31%32%37.0.0.1/",
            "http://127。0。0。1/",
            "http://①②⑦.0.0.1/",
            "http://user@127.0.0.1/",
            "http://0/",
            "http://[::1]/",
            "http://[0:0:0:0:0:0:0:1]/",
            "http://[::]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:7f00:1]/",
            "http://[::127.0.0.1]/",
            "http://[64:ff9b::7f00:1]/",
            "http://[2002:7f00:1::]/",
            "https://[::FFFF:0A00:0001]:8443/",
        ];
        for url in spellings {
            let (host, address) = address_in(url);
            assert!(!EgressRule::default().permits(&host, address), "{url} leads to {address}");
        }
    }

    #[test]
    fn networks_and_addresses_open_what_they_contain() {
        let rule = rule(&["10.1.0.0/16", "192.168.1.5", "fd12::/16", " ::1 ", "64:ff9b:1::/96"]);
        for address in [
            "10.1.0.1",
            "10.1.255.255",
            "192.168.1.5",
            "::ffff:10.1.2.3",
            "64:ff9b::10.1.2.3",
            "fd12::7",
            "::1",
            "64:ff9b:1::a00:1",
        ] {
            assert!(rule.permits("hooks.example", address.parse().unwrap()), "{address} is closed");
        }
        for address in ["10.2.0.1", "192.168.1.6", "64:ff9b::10.2.0.1", "fd13::7", "::2", "127.0.0.1"] {
            assert!(!rule.permits("hooks.example", address.parse().unwrap()), "{address} is open");
        }
    }

    #[test]
    fn networks_are_taken_in_their_canonical_form() {
        let loopback = "127.0.0.9".parse().unwrap();
        for item in ["127.0.0.1/8", "::ffff:127.0.0.0/104", "::ffff:127.0.0.9", "0.0.0.0/0"] {
            assert!(rule(&[item]).permits("x", loopback), "{item}");
        }
        // All of IPv6 is not all of IPv4.
        assert!(!rule(&["::/0"]).permits("x", "::ffff:127.0.0.1".parse().unwrap()));
    }

    #[test]
    fn a_name_opens_whatever_it_resolves_to() {
        let rule = rule(&["hooks.internal", "*.Corp.Example.", "bücher.internal"]);
        let private = "10.0.0.1".parse().unwrap();
        for host in [
            "hooks.internal",
            "HOOKS.internal",
            "hooks.internal.",
            "a.corp.example",
            "a.b.corp.example.",
            "xn--bcher-kva.internal",
        ] {
            assert!(rule.permits(host, private), "{host} is closed");
        }
        for host in [
            "internal",
            "xhooks.internal",
            "a.hooks.internal",
            "hooks.internal.evil.example",
            "corp.example",
            ".corp.example",
            "xcorp.example",
            "10.0.0.1",
            "",
        ] {
            assert!(!rule.permits(host, private), "{host} is open");
        }
    }

    #[test]
    fn items_that_mean_nothing_are_refused_by_name() {
        for item in [
            "",
            "*",
            "*.",
            "*.*.x",
            "a.*.x",
            "10.0.0.0/33",
            "10.0.0/8",
            "::1/129",
            "http://x/",
            "a b",
            ".x",
            "a..b",
            "*.10.0.0.1",
            "user@host",
            "host:80",
            "300.1.1.1",
        ] {
            let error = EgressRule::parse(&["10.0.0.0/8".to_owned(), item.to_owned()]).unwrap_err();
            assert!(error.starts_with(&format!("{item:?} is no network")), "{error}");
        }
    }
}
