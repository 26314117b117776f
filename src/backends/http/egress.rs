//! Which addresses a webhook may be connected to.
//!
//! The rule judges addresses, not URLs: whatever spelling or name leads to an address, the connector asks with the
//! address that it is about to connect to, and there is no other.

#[cfg(test)]
mod tests;

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
