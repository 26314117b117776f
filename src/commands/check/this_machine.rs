//! What both modes need of the machine: a port, and a rule for where webhooks may point to.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::time::Duration;

use serde_json::Value;

use crate::backends::http::EgressRule;
use crate::ports::findings::{Finding, Findings};
use crate::settings::Api;

/// How long a service that runs on this machine may take to say so.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// Where clouds hand out credentials to whoever asks from within the machine.
const METADATA_SERVICE: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254));

/// A host that no rule names.
const NO_NAME: &str = "host.invalid";

/// Whether the API can listen, and whether a service does already.
pub(super) async fn api(api: &Api) -> (bool, Vec<Finding>) {
    let mut findings = Findings::of("api");
    let address = api.address();
    let is_served = match TcpListener::bind(address) {
        Ok(_) => {
            findings.ok("port", format!("{address} is free"));
            false
        }
        Err(err) if err.kind() == ErrorKind::AddrInUse && is_dispatcher(address).await => {
            findings.ok("port", format!("a dispatcher runs at {address}"));
            true
        }
        Err(err) => {
            let advice = "set DISPATCHER_API_PORT and DISPATCHER_API_HOST to what is free on this machine";
            findings.fault("port", format!("cannot listen on {address}: {err}"), advice);
            false
        }
    };
    if !api.needs_token() && !api.host.is_loopback() {
        findings.warning(
            "token",
            format!("none is set: only this machine is answered, though it listens on {}", api.host),
            "set DISPATCHER_ADMIN_TOKEN_FILE, or DISPATCHER_API_HOST=127.0.0.1",
        );
    } else {
        findings.ok("token", if api.needs_token() { "is set" } else { "not needed on this machine" });
    }
    (is_served, findings.into_list())
}

async fn is_dispatcher(address: SocketAddr) -> bool {
    let host = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let url = format!("http://{}/status", SocketAddr::new(host, address.port()));
    let client = awc::Client::builder().timeout(ANSWER_WITHIN).disable_redirects().finish();
    let Ok(mut answer) = client.get(url).send().await else { return false };
    let status = answer.json::<Value>().await.unwrap_or_default();
    status["mode"].is_string() && status["uptime_seconds"].is_number()
}

/// What the rule opens that had better stay closed.
pub(super) fn egress(rule: &EgressRule) -> Vec<Finding> {
    let mut findings = Findings::of("egress");
    if rule.permits(NO_NAME, METADATA_SERVICE) {
        findings.warning(
            "rule",
            format!("webhooks may point to {METADATA_SERVICE}, where clouds hand out credentials"),
            "name only the networks that receivers are in: DISPATCHER_EGRESS_ALLOW",
        );
    } else if *rule == EgressRule::default() {
        findings.ok("rule", "public addresses only");
    } else {
        findings.ok("rule", "public addresses, and what DISPATCHER_EGRESS_ALLOW names");
    }
    findings.into_list()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::findings::Outcome;

    fn at(host: &str, port: u16) -> Api {
        Api { host: host.parse().unwrap(), port, admin_token: None, tokens: Vec::new() }
    }

    #[actix_rt::test]
    async fn a_port_that_another_program_has_is_a_fault() {
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let (is_served, findings) = api(&at("127.0.0.1", other.local_addr().unwrap().port())).await;
        assert!(!is_served);
        assert_eq!((findings[0].check, findings[0].outcome), ("port", Outcome::Fault));
        let (_, findings) = api(&at("127.0.0.1", 0)).await;
        assert_eq!(findings[0].outcome, Outcome::Ok);
    }

    #[actix_rt::test]
    async fn listening_for_others_without_a_token_is_a_warning() {
        let token = |findings: Vec<Finding>| findings[1].outcome;
        assert_eq!(token(api(&at("0.0.0.0", 0)).await.1), Outcome::Warning);
        assert_eq!(token(api(&at("127.0.0.1", 0)).await.1), Outcome::Ok);
    }

    #[test]
    fn a_rule_that_opens_the_metadata_service_is_a_warning() {
        let outcome = |items: &[&str]| {
            let items: Vec<String> = items.iter().map(|item| (*item).to_owned()).collect();
            egress(&EgressRule::parse(&items).unwrap())[0].outcome
        };
        assert_eq!(outcome(&["0.0.0.0/0"]), Outcome::Warning);
        assert_eq!(outcome(&["169.254.0.0/16"]), Outcome::Warning);
        assert_eq!(outcome(&["10.0.0.0/8", "*.internal"]), Outcome::Ok);
        assert_eq!(outcome(&[]), Outcome::Ok);
    }
}
