//! The OpenAPI document: what the handlers say of themselves, and what holds for all of them.

use std::sync::LazyLock;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::response::Response;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{
    Components, Content, Info, License, OpenApi, OpenApiBuilder, Ref, RefOr, SecurityRequirement,
};
use utoipa::{PartialSchema as _, ToSchema as _};

use super::dashboard::session;
use super::problem::{self, ProblemDocument};
use super::routes::{self, Route};

/// The document as text. It does not change while the process runs.
static TEXT: LazyLock<String> = LazyLock::new(|| {
    let mut text = serde_json::to_string_pretty(&document()).unwrap_or_default();
    text.push('\n');
    text
});

/// This document
#[utoipa::path(get, path = "/v1/openapi.json", responses((status = 200, body = Object)))]
pub(super) async fn get() -> HttpResponse {
    HttpResponse::Ok().content_type("application/json").body(TEXT.as_str())
}

const DESCRIPTION: &str = "Carries MongoDB change events to the webhooks of the clients that may see each document.\n\n\
Requests carry a token (`Authorization: Bearer`); while none is configured, only this machine is answered. A viewer's token sees everything \
but payloads, what acts is for operators. Times are milliseconds since 1970. Ids in paths are percent-encoded UTF-8. Lists that come by the page \
have `next`: `null` on the last page. Errors are problem documents (RFC 9457).";

/// The whole of it.
fn document() -> OpenApi {
    let mut document = OpenApiBuilder::from(routes::documented()).info(info()).build();
    for route in routes::all() {
        let path = format!("{}{}", route.scope, route.path);
        let operation = document.paths.paths.get_mut(&path).and_then(|item| operation_of(item, route.method));
        if let Some(operation) = operation {
            complete(operation, route);
        }
    }
    let components = document.components.get_or_insert_with(Components::default);
    components.schemas.insert(ProblemDocument::name().into_owned(), ProblemDocument::schema());
    for status in PROBLEMS {
        let mut response = Response::new("");
        describe(&status.to_string(), &mut response);
        components.responses.insert(problem_name(status), response.into());
    }
    components.add_security_scheme(
        "token",
        SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build()),
    );
    components.add_security_scheme(
        "session",
        SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::new(session::COOKIE))),
    );
    document
}

fn info() -> Info {
    let mut info = Info::new("dispatcher", env!("CARGO_PKG_VERSION"));
    info.description = Some(DESCRIPTION.to_owned());
    let mut license = License::new(env!("CARGO_PKG_LICENSE"));
    license.identifier = Some(env!("CARGO_PKG_LICENSE").to_owned());
    info.license = Some(license);
    info
}

/// The operation of a path by the name of its method.
fn operation_of<'a>(item: &'a mut PathItem, method: &str) -> Option<&'a mut Operation> {
    match method {
        "get" => item.get.as_mut(),
        "put" => item.put.as_mut(),
        "post" => item.post.as_mut(),
        "delete" => item.delete.as_mut(),
        _ => None,
    }
}

/// Adds what the table says, and what every operation of its kind may answer.
fn complete(operation: &mut Operation, route: &Route) {
    operation.operation_id = Some(route.name.to_owned());
    operation.tags = Some(vec![tag(route).to_owned()]);
    let mut statuses = Vec::new();
    let is_api = route.scope == "/v1";
    if is_api {
        operation.security =
            Some(["token", "session"].map(|name| SecurityRequirement::new(name, [""; 0])).into());
        statuses.extend([400, 401, 403, 422, 503]);
    }
    if operation.request_body.is_some() {
        statuses.extend([400, 408, 413, 415]);
    }
    if route.scope == "/dashboard" {
        statuses.push(403);
    }
    for status in statuses {
        let shared = || RefOr::Ref(Ref::from_response_name(problem_name(status)));
        operation.responses.responses.entry(status.to_string()).or_insert_with(shared);
    }
    for (status, response) in &mut operation.responses.responses {
        if let RefOr::T(response) = response {
            describe(status, response);
        }
    }
}

/// The errors that many operations may answer.
const PROBLEMS: [u16; 8] = [400, 401, 403, 408, 413, 415, 422, 503];

fn problem_name(status: u16) -> String {
    format!("Problem{status}")
}

/// Under which heading it stands: the first part of its path.
fn tag(route: &Route) -> &'static str {
    match (route.scope, route.path.split('/').nth(1)) {
        ("/v1", Some("openapi.json" | "audit" | "session")) => "service",
        ("/v1", Some(part)) => part,
        ("/dashboard", _) => "page",
        _ => "service",
    }
}

/// Gives an answer the words and the content that its status implies.
fn describe(status: &str, response: &mut Response) {
    let code = status.parse().ok().and_then(|code: u16| StatusCode::from_u16(code).ok());
    if response.description.is_empty() {
        response.description =
            code.and_then(|code| code.canonical_reason()).unwrap_or("An answer").to_owned();
    }
    if response.content.is_empty() && code.is_some_and(|code| code.as_u16() >= 400) {
        let problem = Ref::from_schema_name(ProblemDocument::name());
        response.content.insert(problem::CONTENT_TYPE.to_owned(), Content::new(Some(problem)).into());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Where it is checked in.
    const CHECKED_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/openapi.json");

    #[test]
    fn the_checked_in_document_is_current() {
        if std::env::var_os("UPDATE_OPENAPI").is_some() {
            std::fs::write(CHECKED_IN, TEXT.as_str()).unwrap();
        }
        let checked_in = std::fs::read_to_string(CHECKED_IN).unwrap_or_default();
        assert!(
            checked_in == *TEXT,
            "docs/openapi.json is not what the handlers say: run UPDATE_OPENAPI=1 cargo test --lib openapi"
        );
    }

    #[test]
    fn every_route_is_in_the_document_and_the_reverse() {
        let routes: BTreeSet<_> = routes::all()
            .map(|route| (format!("{}{}", route.scope, route.path), route.method.to_owned()))
            .collect();
        let mut documented = BTreeSet::new();
        for (path, mut item) in document().paths.paths {
            for method in ["get", "put", "post", "delete"] {
                if operation_of(&mut item, method).is_some() {
                    documented.insert((path.clone(), method.to_owned()));
                }
            }
        }
        let missing: Vec<_> = routes.difference(&documented).collect();
        assert!(
            missing.is_empty(),
            "these routes name another path or method in #[utoipa::path]: {missing:?}"
        );
        let unrouted: Vec<_> = documented.difference(&routes).collect();
        assert!(unrouted.is_empty(), "these are documented, and lead nowhere: {unrouted:?}");
    }

    #[test]
    fn every_operation_has_a_name_of_its_own_and_says_what_it_is_for() {
        let mut names = BTreeSet::new();
        for route in routes::all() {
            assert!(names.insert(route.name), "{} stands twice in the table", route.name);
        }
        for (path, mut item) in document().paths.paths {
            for method in ["get", "put", "post", "delete"] {
                let Some(operation) = operation_of(&mut item, method) else { continue };
                let summary = operation.summary.as_deref().unwrap_or_default();
                assert!(!summary.is_empty() && !summary.ends_with('.'), "{method} {path}: {summary:?}");
                let acts = method != "get" && path.starts_with("/v1");
                assert!(!acts || operation.responses.responses.contains_key("403"), "{method} {path}");
            }
        }
    }

    #[test]
    fn every_reference_leads_to_a_schema() {
        let document = serde_json::to_value(document()).unwrap();
        let mut references = BTreeSet::new();
        collect(&document, &mut references);
        assert!(references.len() > 30, "{references:?}");
        for reference in references {
            assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
        }
    }

    fn collect(value: &serde_json::Value, references: &mut BTreeSet<String>) {
        match value {
            serde_json::Value::Object(members) => {
                for (name, value) in members {
                    match value.as_str() {
                        Some(reference) if name == "$ref" => {
                            references.insert(reference.to_owned());
                        }
                        _ => collect(value, references),
                    }
                }
            }
            serde_json::Value::Array(values) => values.iter().for_each(|value| collect(value, references)),
            _ => {}
        }
    }
}
