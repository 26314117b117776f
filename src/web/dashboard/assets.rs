//! The files of the page, compiled in. They are sent without what only their authors read: comments and indentation.

use std::sync::LazyLock;

use actix_web::http::header;
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::web::problem;

/// What the page may do: load what we serve and ask us. No inline script or style, no other site, no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! assets {
    ($($name:literal $kind:ident),* $(,)?) => {
        [$(Asset { name: $name, kind: $kind, text: include_str!(concat!("assets/", $name)) }),*]
    };
}

/// The sheets as one file, in this order: the page is not painted before it has them.
macro_rules! sheets {
    ($($name:literal),*) => {
        #[cfg(test)]
        const SHEETS: &[&str] = &[$($name),*];
        const STYLE: Asset = Asset {
            name: "style.css",
            kind: CSS,
            text: concat!($(include_str!(concat!("assets/", $name))),*),
        };
    };
}

sheets!["base.css", "frame.css", "parts.css", "tables.css", "pages.css", "phone.css"];

/// A file.
struct Asset {
    name: &'static str,
    kind: &'static str,
    text: &'static str,
}

static ASSETS: [Asset; 36] = assets![
    "index.html" HTML,
    "icon.svg" SVG,
    "actors.js" JS,
    "api.js" JS,
    "attempts.js" JS,
    "audit.js" JS,
    "badge.js" JS,
    "chart.js" JS,
    "client.js" JS,
    "client_actions.js" JS,
    "clients.js" JS,
    "dead.js" JS,
    "dead_actions.js" JS,
    "dialog.js" JS,
    "dom.js" JS,
    "events.js" JS,
    "format.js" JS,
    "frame.js" JS,
    "job.js" JS,
    "json.js" JS,
    "keys.js" JS,
    "list.js" JS,
    "live.js" JS,
    "main.js" JS,
    "overview.js" JS,
    "queue.js" JS,
    "queue_actions.js" JS,
    "queues.js" JS,
    "session.js" JS,
    "stash.js" JS,
    "system.js" JS,
    "table.js" JS,
    "theme.js" JS,
    "tiles.js" JS,
    "verdict.js" JS,
    "words.js" JS,
];

/// A file as it is sent.
struct Sent {
    name: &'static str,
    kind: &'static str,
    text: Bytes,
    tag: String,
}

static SENT: LazyLock<Vec<Sent>> = LazyLock::new(|| {
    let sent = |asset: &Asset| {
        let text = lean(asset);
        let tag = format!("\"{}\"", &HEXLOWER.encode(&Sha256::digest(&text))[..16]);
        Sent { name: asset.name, kind: asset.kind, text: text.into(), tag }
    };
    ASSETS.iter().chain([&STYLE]).map(sent).collect()
});

/// A file without lines that are comments of a script, and without indentation. No string of ours goes over two lines.
fn lean(asset: &Asset) -> String {
    let is_comment = |line: &str| asset.kind == JS && line.starts_with("//");
    let lines = asset.text.lines().map(str::trim_start).filter(|line| !line.is_empty() && !is_comment(line));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// The page
#[utoipa::path(get, path = "/dashboard", responses(
    (status = 200, body = String, content_type = "text/html; charset=utf-8"),
    (status = 304, description = "It is as you have it"),
))]
pub(in crate::web) async fn index(request: HttpRequest) -> HttpResponse {
    answer(&request, "index.html")
}

/// A file of the page
#[utoipa::path(get, path = "/dashboard/{file}", params(("file" = String, Path, description = "Its name")), responses(
    (status = 200, content((String = "text/html; charset=utf-8"), (String = "text/css; charset=utf-8"),
        (String = "text/javascript; charset=utf-8"), (String = "image/svg+xml"))),
    (status = 304, description = "It is as you have it"),
    (status = 404, description = "There is no such file"),
))]
pub(in crate::web) async fn file(request: HttpRequest) -> HttpResponse {
    let name = request.path().rsplit('/').next().unwrap_or_default();
    answer(&request, name)
}

/// The queues of the page, where boards of BullMQ stand elsewhere
#[utoipa::path(get, path = "/bullmq", responses((status = 302, description = "To the page")))]
pub(in crate::web) async fn bullmq() -> HttpResponse {
    HttpResponse::Found().insert_header((header::LOCATION, "/dashboard#/queues")).finish()
}

fn answer(request: &HttpRequest, name: &str) -> HttpResponse {
    let Some(Sent { kind, text, tag, .. }) = SENT.iter().find(|sent| sent.name == name) else {
        return problem::not_found("there is nothing at this path");
    };
    let known = request.headers().get(header::IF_NONE_MATCH).is_some_and(|known| known == tag);
    let mut response = if known { HttpResponse::NotModified() } else { HttpResponse::Ok() };
    response
        .content_type(*kind)
        // Asked again each time, and sent again only when it is another: a new version shows at once.
        .insert_header((header::CACHE_CONTROL, "no-cache"))
        .insert_header((header::ETAG, tag.as_str()))
        .insert_header((header::CONTENT_SECURITY_POLICY, POLICY))
        .insert_header((header::REFERRER_POLICY, "no-referrer"))
        .insert_header(("cross-origin-opener-policy", "same-origin"));
    if known { response.finish() } else { response.body(text.clone()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small() {
        let bytes: usize = SENT.iter().map(|sent| sent.text.len()).sum();
        assert!(bytes < 150_000, "{bytes}");
    }

    #[test]
    fn what_is_sent_is_without_comments_and_indentation_and_else_the_same() {
        let script = "// Why.\nlet a = `x`;\n\n  // Because.\n  b('//'); // c\n";
        let sent = |name, kind| lean(&Asset { name, kind, text: script });
        assert_eq!(sent("a.js", JS), "let a = `x`;\nb('//'); // c\n");
        assert_eq!(sent("a.css", CSS), "// Why.\nlet a = `x`;\n// Because.\nb('//'); // c\n");
        // A text over two lines would be another then.
        for asset in ASSETS.iter().filter(|asset| asset.kind == JS) {
            let broken = asset.text.lines().find(|line| line.matches('`').count() % 2 == 1);
            assert_eq!(broken, None, "{}", asset.name);
        }
    }

    #[test]
    fn every_file_is_served_and_every_import_is_a_file() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/web/dashboard/assets");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut files: Vec<_> = files.map(|name| name.into_string().unwrap()).collect();
        files.sort();
        let sheets = SHEETS.iter().map(|name| (*name).to_owned());
        let mut served: Vec<_> = ASSETS.iter().map(|asset| asset.name.to_owned()).chain(sheets).collect();
        served.sort();
        assert_eq!(files, served);
        for asset in ASSETS.iter().filter(|asset| asset.kind == JS) {
            for import in asset.text.split("from \"./").skip(1) {
                let name = import.split('"').next().unwrap();
                assert!(served.iter().any(|file| file == name), "{} imports {name}", asset.name);
            }
        }
    }

    #[test]
    fn nothing_of_the_page_is_inline_or_elsewhere_or_made_of_markup() {
        for asset in ASSETS.iter().chain([&STYLE]) {
            for refused in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"]
            {
                assert!(!asset.text.contains(refused), "{} has {refused}", asset.name);
            }
            let elsewhere = asset.text.replace("http://www.w3.org/2000/svg", "");
            assert!(!elsewhere.contains("//cdn") && !elsewhere.contains("https://"), "{}", asset.name);
        }
        let index = ASSETS.iter().find(|asset| asset.name == "index.html").unwrap().text;
        assert!(!index.contains("<style") && !index.contains(" style="), "inline style");
        assert!(index.matches("<script").count() == index.matches("<script type=\"module\" src=").count());
    }
}
