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
