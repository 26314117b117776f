//! All rows of a client with their payloads, as JSON lines.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse, web};
use bytes::Bytes;
use futures_util::stream;
use serde::Deserialize;
use utoipa::IntoParams;

use super::Shared;
use super::access::may_see_payloads;
use super::dead_letters::Payload;
use super::path::{client_of, query};
use super::problem::{Problem, ask};
use super::schema::{self, OfClient};
use super::stash::{StashRow, view};
use crate::domain::config::ClientId;
use crate::domain::stash::RowState;
use crate::domain::stash_view::{RowQuery, RowView};
use crate::domain::transfer::Sequence;
use crate::ports::stash_rows::StashRows;

/// Rows that are looked up at once; payloads one by one.
const PAGE: usize = 200;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Wanted {
    /// Only rows in this state.
    #[param(inline, value_type = Option<schema::RowState>)]
    state: Option<String>,
}

/// All rows of a client with their payloads, as JSON lines, in the order in which they are delivered
///
/// They are read while they are sent: what comes or goes meanwhile may be among them. An answer that breaks off ends without its last chunk.
#[utoipa::path(get, path = "/v1/clients/{id}/export", params(OfClient, Wanted), responses(
    (status = 200, body = StashRow, content_type = "application/x-ndjson"),
))]
pub(super) async fn export(request: HttpRequest, shared: web::Data<Shared>) -> Result<HttpResponse, Problem> {
    let client = client_of(&request)?;
    let Wanted { state } = query(&request)?;
    may_see_payloads(&shared, &request).await?;
    let state = state.map(|text| text.parse::<RowState>()).transpose();
    let mut export = Export {
        rows: shared.service.stash_rows.clone(),
        client,
        state: state.map_err(|err| Problem::bad_request(format!("query: state: {err}")))?,
        page: VecDeque::new(),
        after: None,
        is_last: false,
    };
    // What cannot be begun is said by a status.
    export.look().await?;
    let lines = stream::try_unfold(export, async |mut export| {
        // What breaks it off was said where it happened.
        let line = export.next().await.map_err(|err| io::Error::other(err.to_string()))?;
        Ok::<_, io::Error>(line.map(|line| (line, export)))
    });
    Ok(HttpResponse::Ok().content_type("application/x-ndjson").streaming(Box::pin(lines)))
}

/// How far it is.
struct Export {
    rows: Arc<dyn StashRows>,
    client: ClientId,
    state: Option<RowState>,
    page: VecDeque<RowView>,
    after: Option<Sequence>,
    is_last: bool,
}

impl Export {
    /// Reads the next page.
    async fn look(&mut self) -> Result<(), Problem> {
        let (client, state, after) = (self.client.clone(), self.state, self.after);
        let asked = RowQuery { client, state, document: None, after, limit: PAGE };
        self.page = ask(self.rows.rows(asked)).await?.into();
        self.is_last = self.page.len() < PAGE;
        Ok(())
    }

    /// The next line; `None`: that was the last. A row that was delivered or purged meanwhile is left out.
    async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        loop {
            while let Some(row) = self.page.pop_front() {
                self.after = Some(row.sequence);
                let Some(body) = ask(self.rows.body(&self.client, &row.event_id)).await? else { continue };
                let mut shown = view(&self.client, &row);
                shown.payload = Some(Payload::of(&body));
                let mut line = serde_json::to_vec(&shown)
                    .map_err(|err| Problem::unavailable(format!("a row cannot be written: {err}")))?;
                line.push(b'\n');
                return Ok(Some(line.into()));
            }
            if self.is_last {
                return Ok(None);
            }
            self.look().await?;
        }
    }
}
