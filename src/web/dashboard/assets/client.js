// One client: how it is, what came of its last attempts, and what can be done about it.

import { h, on, put } from "./dom.js";
import { get, segment } from "./api.js";
import { badge, bars } from "./chart.js";
import { cause, restart } from "./actors.js";
import { act } from "./dialog.js";
import { why } from "./overview.js";
import { ago, bytes, clock, count, ms, rate, reason, time, until } from "./format.js";

const ATTEMPTS = 30;

export async function client({ root, live, parts: [id], every, listen }) {
  const path = `/v1/clients/${segment(id)}`;
  let shown, stored, attempts, events, actor;
  const load = async () => {
    // One that is in the store but not in a snapshot yet, or the other way round, is shown all the same.
    const answers = await Promise.allSettled([get(`/v1/dashboard/${segment(id)}`), get(path), get(`${path}/attempts`, { limit: ATTEMPTS }),
      get("/v1/operational-events", { client: id, limit: 10, order: "newest" }), get("/v1/actors", { kind: "delivery", filter: id, limit: 200 })]);
    if (answers[0].status === "rejected" && answers[1].status === "rejected") throw answers[1].reason;
    const [one, two, three, four, five] = answers.map((answer) => answer.value);
    actor = five ? five.rows.find((actor) => actor.id === id) : actor;
    [shown, stored, attempts, events] = [one ?? shown, two ?? stored, three ?? attempts, four?.events ?? events ?? []];
  };
  await load();
  const head = h("div", { class: "head" });
  const buttons = h("div", { class: "buttons" });
  const facts = h("section", { class: "card" });
  const numbers = h("section", { class: "card" });
  const tried = h("section", { class: "card wide flush" });
  const config = h("section", { class: "card wide" });
  const happened = h("section", { class: "card" });
  root.append(h("p", { class: "crumbs" }, h("a", { href: "#/clients" }, "Clients"), " / ", id), head, buttons,
    h("div", { class: "grid" }, facts, numbers, happened, tried, config));

  const show = () => {
    const now = live.now();
    const view = shown?.client;
    put(head, h("h1", {}, id), view ? badge(view.phase) : badge("stopped", "not served yet"), view && h("p", { class: "why" }, why(view) === "–" ? "" : why(view)));
    put(buttons, actions(view, stored));
    put(facts, view ? state_list(view, now, actor) : h("p", { class: "empty" }, "Its first numbers come within a second."));
    put(numbers, view ? figures(view, shown.minutes) : "");
    put(tried, attempt_table(attempts, now));
    put(happened, h("h2", {}, "What happened"), events.length ? h("ul", { class: "plain events" }, events.map((event) => h("li", { "data-key": `e${event.id}` }, badge(event.type),
      h("span", {}, reason(event.reason)), h("time", { class: "quiet", title: time(event.at_ms) }, ago(event.at_ms, now))))) : h("p", { class: "empty" }, "Nothing worth telling."));
    put(config, h("h2", {}, "Config"), stored?.config ? [
      h("p", { class: "quiet" }, `${stored.config.status}, changed ${ago(stored.config.updated_at_ms, now)}${stored.config.owner ? `, owner ${stored.config.owner}` : ""}. Secrets are not shown.`),
      stored.config.fault && h("p", { class: "notice" }, `${stored.config.fault.key}: ${stored.config.fault.problem}`),
      h("pre", { tabindex: "0" }, JSON.stringify(stored.config.value, null, 2))] : h("p", { class: "empty" }, "It has no config."));
  };
  const again = async () => {
    try { await load(); } catch { return; }
    show();
  };
  on(buttons, "click", "[data-act]", async (button) => {
    if (await ACTIONS[button.dataset.act](id, path, shown?.client)) again();
  });
  listen("clients", ({ detail }) => {
    const found = detail.changed.find((one) => one.client === id);
    if (found && shown) shown.client = found;
  });
  listen("snapshot", show);
  every(2500, again);
  show();
}

function actions(view, stored) {
  const paused = stored?.paused;
  const is_active = stored?.config && stored.config.status === "ACTIVE" && !stored.config.deleted;
  const has_config = stored?.config && !stored.config.deleted;
  const button = (name, text, more) => h("button", { "data-act": name, "data-key": name, ...more }, text);
  return [
    has_config && button("retry", "Try now"),
    has_config && (paused ? button("resume", "Resume", { class: "strong" }) : button("pause", "Pause")),
    has_config && (is_active ? button("disable", "Disable", { class: "danger" }) : button("enable", "Enable", { class: "strong" })),
    view?.actor && button("restart", "Restart actor"),
    (view?.dead ?? 0) > 0 && button("replay", `Replay ${count(view.dead)} dead`),
  ];
}

const ACTIONS = {
  retry: (id, path) => act({ path: `${path}/retry`, done: `${id} is tried now` }),
  pause: (id, path) => act({ question: { title: `Pause ${id}?`, text: "Its changes wait until it is resumed. Requests on the wire end.", button: "Pause", reason: true },
    path: `${path}/pause`, body: {}, done: `${id} is paused` }),
  resume: (id, path) => act({ path: `${path}/resume`, done: `${id} goes on` }),
  disable: (id, path) => act({ question: { title: `Disable ${id}?`, danger: true, button: "Disable",
    text: ["New changes are skipped, not kept: the client needs a resync afterwards.", "What waits already stays. To keep new changes, pause it instead."] },
    method: "PUT", path, body: { status: "INACTIVE" }, done: `${id} is disabled` }),
  enable: (id, path) => act({ method: "PUT", path, body: { status: "ACTIVE" }, done: `${id} is enabled` }),
  restart: (id) => restart("delivery", id),
  replay: (id, path) => act({ question: { title: `Replay the dead letters of ${id}?`, button: "Replay",
    text: "The oldest 100 that no newer change has replaced are sent again." }, path: `${path}/dead-letters/replay`, body: {},
    done: (answer) => `${answer.replayed} replayed${answer.next ? ", there are more" : ""}${refusals(answer.refused)}` }),
};

const refusals = (refused) => Object.entries(refused ?? {}).map(([reason, number]) => `, ${number} refused: ${reason.replaceAll("_", " ")}`).join("");

function list(pairs) {
  return h("dl", {}, pairs.filter(Boolean).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

function state_list(view, now, actor) {
  return [h("h2", {}, "State"), list([
    ["Since", view.since_ms ? `${time(view.since_ms)} (${ago(view.since_ms, now)})` : "it has not been served lately"],
    ["Webhook", view.webhook ?? "–"],
    view.next_attempt_at_ms && ["Next try", until(view.next_attempt_at_ms, now)],
    view.disable_at_ms && ["Switched off", `${until(view.disable_at_ms, now)}, if nothing succeeds before`],
    ["Last success", ago(view.last_success_ms, now)],
    ["Last error", view.last_error ? `${reason(view.last_error.reason)}, ${ago(view.last_error.at_ms, now)}` : "none known"],
    ["Waiting", view.stashed ? `${count(view.stashed)} in the stash (${bytes(view.stashed_bytes)}), the oldest ${ago(view.oldest_ts_ms, now)}` : "nothing"],
    ["Dead", view.dead ? h("a", { href: `#/dead?client=${segment(view.client)}` }, count(view.dead)) : "none"],
    view.dropped > 0 && ["Dropped", `${count(view.dropped)}: it needs a resync`],
    actor?.last_cause && ["Last broke", cause(actor)],
    ["Actor", view.actor ? [badge(view.actor), ` ${view.restarts ? `restarted ${view.restarts} times` : "never restarted"}`] : "none here: it rests, or another replica serves it"],
  ])];
}

function figures(view, minutes) {
  return [h("h2", {}, "Deliveries"), list([
    ["Now", `${rate(view.rate)}/s${view.failure_rate ? `, ${rate(view.failure_rate)}/s fail` : ""}`],
    ["On the wire", count(view.in_flight)], ["Queued", count(view.queued)],
    ["Answers", view.latency ? `p50 ${ms(view.latency.p50)}, p95 ${ms(view.latency.p95)}, p99 ${ms(view.latency.p99)}` : "none lately"],
    ["Since the start", `${count(view.delivered)} delivered, ${count(view.failed)} failed`],
  ]), bars(`Deliveries and failures of each minute: ${minutes.at(-1)?.join(" and ") ?? "none yet"} in the last one`, minutes, 60),
  h("p", { class: "quiet axis" }, h("span", {}, "an hour ago"), h("span", {}, "now"))];
}

function attempt_table(attempts, now) {
  const rows = [...(attempts?.attempts ?? []), ...(attempts?.recent ?? [])].sort((one, other) => other.at_ms - one.at_ms).slice(0, ATTEMPTS);
  if (!rows.length) return [h("h2", {}, "Attempts"), h("p", { class: "empty" }, "None is remembered.")];
  return [h("h2", {}, "Attempts"), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Attempts" }, h("table", { class: "rows" },
    h("thead", {}, h("tr", {}, ["When", "Outcome", "Status", "Took", "Try", "Document", "Answer"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, rows.map((attempt) => h("tr", { "data-key": `${attempt.event_id}.${attempt.at_ms}.${attempt.attempt}` },
      h("td", { "data-name": "When", title: `${time(attempt.at_ms)}, ${ago(attempt.at_ms, now)}` }, clock(attempt.at_ms)),
      h("td", { "data-name": "Outcome" }, badge(attempt.outcome)), h("td", { class: "figure", "data-name": "Status" }, attempt.status ?? reason(attempt.reason)),
      h("td", { class: "figure", "data-name": "Took" }, ms(attempt.latency_ms)), h("td", { class: "figure", "data-name": "Try" }, attempt.attempt),
      h("td", { class: "code", "data-name": "Document", title: attempt.event_id }, attempt.document), h("td", { class: "code why", "data-name": "Answer" }, attempt.answer || "–"))))))];
}

