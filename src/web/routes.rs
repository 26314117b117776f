//! The table of the paths: what answers, and under which name it stands in the OpenAPI document and in the audit log.
//!
//! Each handler says by `#[utoipa::path]` what it takes and answers; one that does not fails to compile (`__path_…` is not found in its module).

use actix_web::http::Method;
use actix_web::{Resource, web};
use utoipa::OpenApi;

use super::dashboard::{assets, session, stream};
use super::problem;
use super::queues::jobs;
use super::{
    actions, actors, attempts, audit, blocked_owners, clients, dashboard, dead_letters, events, export,
    heavy_jobs, openapi, operational_events, queues, replays, source_letters, stash, status,
};

/// A path with a method.
#[derive(Debug, Clone, Copy)]
pub(super) struct Route {
    /// Below which path.
    pub(super) scope: &'static str,
    /// Its own, with `{id}` for what varies.
    pub(super) path: &'static str,
    /// In lower case.
    pub(super) method: &'static str,
    /// Unique.
    pub(super) name: &'static str,
}

impl Route {
    fn is(&self, method: &Method, pattern: &str) -> bool {
        self.method.eq_ignore_ascii_case(method.as_str())
            && pattern.strip_prefix(self.scope) == Some(self.path)
    }
}

/// All of them.
pub(super) fn all() -> impl Iterator<Item = &'static Route> {
    [ALWAYS, API, PAGE].into_iter().flatten()
}

/// What the handlers say of themselves.
pub(super) fn documented() -> utoipa::openapi::OpenApi {
    let mut all = Always::openapi();
    all.merge(Api::openapi());
    all.merge(Page::openapi());
    all
}

/// The route of a request, by the pattern that its path fits.
pub(super) fn find(method: &Method, pattern: &str) -> Option<&'static Route> {
    all().find(|route| route.is(method, pattern))
}

macro_rules! routes {
    ($(#[$doc:meta])* $register:ident, $table:ident, $documented:ident, $scope:literal {
        $($path:literal => $($method:ident $name:ident = $($handler:ident)::+),+;)+
    }) => {
        $(#[$doc])*
        pub(super) fn $register(app: &mut web::ServiceConfig) {
            $(app.service(only(
                web::resource($path)$(.route(web::$method().to($($handler)::+)))+,
                &[$(stringify!($method)),+],
            ));)+
        }

        #[derive(OpenApi)]
        #[openapi(paths($($($($handler)::+),+),+))]
        struct $documented;

        const $table: &[Route] = &[$($(Route {
            scope: $scope,
            path: $path,
            method: stringify!($method),
            name: stringify!($name),
        }),+),+];
    };
}

routes! {
    /// What every process answers, and everybody may see.
    always, ALWAYS, Always, "" {
        "/status" => get status = status::status;
        "/livez" => get is_alive = status::livez;
        "/readyz" => get is_ready = status::readyz;
        "/metrics" => get metrics = status::metrics;
        "/bullmq" => get bullmq = assets::bullmq;
    }
}

routes! {
    /// The page, below `/dashboard`.
    page, PAGE, Page, "/dashboard" {
        "" => get page = assets::index;
        "/session" => get session = session::get, put log_in = session::put, delete log_out = session::delete;
        "/{file}" => get page_file = assets::file;
    }
}

routes! {
    /// The API, below `/v1`.
    api, API, Api, "/v1" {
        "/openapi.json" => get openapi = openapi::get;
        "/session" => get who = session::who;
        "/audit" => get list_audit = audit::list;
        "/events" => post send_events = events::post;
        "/clients" => get list_clients = clients::list;
        "/clients/{id}" => get get_client = clients::get, put put_client = clients::put, delete delete_client = clients::delete;
        "/clients/{id}/pause" => post pause_client = actions::pause;
        "/clients/{id}/resume" => post resume_client = actions::resume;
        "/clients/{id}/retry" => post retry_client = actions::retry;
        "/clients/{id}/disable" => post disable_client = actions::disable;
        "/clients/{id}/enable" => post enable_client = actions::enable;
        "/clients/{id}/stash" => get list_rows = stash::list;
        "/clients/{id}/stash/{event}" => get get_row = stash::get;
        "/clients/{id}/export" => get export_rows = export::export;
        "/clients/{id}/purge" => post purge_client = stash::purge;
        "/clients/{id}/attempts" => get list_attempts = attempts::list;
        "/clients/{id}/resync" => post resync_client = heavy_jobs::resync;
        "/clients/{id}/replay" => post replay_client = heavy_jobs::replay;
        "/clients/{id}/heavy-jobs" => get list_heavy_jobs = heavy_jobs::list;
        "/clients/{id}/heavy-jobs/{job}" => get get_heavy_job = heavy_jobs::get, delete end_heavy_job = heavy_jobs::delete;
        "/clients/{id}/dead-letters/replay" => post replay_dead_letters = replays::of_client;
        "/dead-letters" => get list_dead_letters = dead_letters::list;
        // Before what it would be a client of.
        "/dead-letters/source" => get list_source_letters = source_letters::list;
        "/dead-letters/source/{id}/redrive" => post redrive_source_letter = source_letters::redrive;
        "/dead-letters/{client}/{event}" => get get_dead_letter = dead_letters::get, delete delete_dead_letter = dead_letters::delete;
        "/dead-letters/{client}/{event}/replay" => post replay_dead_letter = replays::one;
        "/actors" => get list_actors = dashboard::actors;
        "/actors/{kind}/{id}/restart" => post restart_actor = actors::restart;
        "/blocked-owners" => get list_blocked_owners = blocked_owners::list;
        "/blocked-owners/{owner}" => put block_owner = blocked_owners::put, delete unblock_owner = blocked_owners::delete;
        "/operational-events" => get list_operational_events = operational_events::list;
        "/schedules" => get list_schedules = queues::all_schedules;
        "/queues" => get list_queues = queues::list;
        "/queues/{queue}" => get get_queue = queues::get;
        "/queues/{queue}/jobs" => get list_jobs = jobs::list;
        "/queues/{queue}/jobs/{id}" => get get_job = jobs::get, delete remove_job = jobs::remove;
        "/queues/{queue}/jobs/{id}/promote" => post promote_job = jobs::promote;
        "/queues/{queue}/jobs/{id}/retry" => post retry_job = jobs::retry;
        "/queues/{queue}/promote-all" => post promote_all_jobs = queues::promote_all;
        "/queues/{queue}/retry-all" => post retry_all_jobs = queues::retry_all;
        "/queues/{queue}/clean" => post clean_queue = queues::clean;
        "/queues/{queue}/pause" => post pause_queue = queues::pause;
        "/queues/{queue}/resume" => post resume_queue = queues::resume;
        "/queues/{queue}/schedules" => get list_queue_schedules = queues::schedules;
        "/queues/{queue}/schedules/{id}" => get get_schedule = queues::schedule, delete remove_schedule = queues::remove_schedule;
        "/dashboard" => get dashboard = dashboard::overview;
        "/dashboard/{client}" => get dashboard_client = dashboard::client;
        "/stream" => get stream = stream::watch;
    }
}

/// Answers other methods with what is allowed.
fn only(resource: Resource, methods: &[&str]) -> Resource {
    let methods = methods.join(", ").to_ascii_uppercase();
    resource.default_service(web::to(move || {
        let answer = problem::method_not_allowed(&methods);
        async { answer }
    }))
}
