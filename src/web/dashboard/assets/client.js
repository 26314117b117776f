// One client: how it is, what came of its last attempts, and what can be done about it.

import { h, on, put } from "./dom.js";
import { get, segment } from "./api.js";
import { badge } from "./badge.js";
import { bars } from "./chart.js";
import { attempt_table } from "./attempts.js";
import { CLIENT_ACTIONS, client_buttons } from "./client_actions.js";
import { clients_place } from "./clients.js";
import { List } from "./list.js";
import { opens } from "./table.js";
import { event_list, recent } from "./overview.js";
import { tile } from "./tiles.js";
import { cause, decided, foreign, has_page, reason, why } from "./words.js";
import { ago, bytes, count, ms, plain, plural, rate, time, until } from "./format.js";

const ATTEMPTS = 20;

export async function client({ root, live, parts: [id], every, listen, watch }) {
  if (!has_page(id)) throw new Error("This id has more than 512 bytes: the API takes none so long, so that its client has no page. The list of clients shows it.");
  const path = `/v1/clients/${segment(id)}`;
  const ask_attempts = async (before) => {
    const { attempts, recent: last, next } = await get(`${path}/attempts`, { limit: ATTEMPTS, before });
    return { rows: [...attempts, ...last].sort((one, other) => other.at_ms - one.at_ms), next };
  };
  let shown, stored, heavy = [], is_gone = false;
  let attempts, events;
  const tried = h("section", { class: "card flush" });
  const happened = h("section", { class: "card" });
  const load = async () => {
    // One that is in the store but not in a snapshot yet, or the other way round, is shown all the same.
    const answers = await Promise.allSettled([get(`/v1/dashboard/${segment(id)}`), get(path), ask_attempts(), recent(id), get(`${path}/heavy-jobs`)]);
    const [one, two, three, four, five] = answers.map((answer) => answer.value);
    const [is_unseen, is_unknown] = answers.map(({ reason: error }) => error?.status === 404);
    if (!shown && !stored && answers[0].reason && answers[1].reason) throw answers[1].reason;
    is_gone = is_unseen && is_unknown || two?.config?.deleted === true;
    [shown, stored, heavy] = [one ?? shown, two ?? stored, five?.heavy_jobs ?? heavy];
    const nothing = { rows: [], next: null };
    attempts ??= new List(three ?? nothing, { key: (one) => `${one.event_id}.${one.at_ms}.${one.attempt}`, node: tried, show });
    events ??= new List(four ?? nothing, { key: ({ id }) => id, node: happened, show });
    if (three) attempts.offer(three);
    if (four) events.offer(four);
    show();
    const failed = answers.find(({ reason: error }) => error && error.status !== 404);
    if (failed) throw failed.reason;
  };
  const head = h("div", { class: "head" });
  const gone = h("p", { class: "notice" }, "This client is deleted. This is how it was seen last.");
  const said = h("p", { class: "quiet" });
  const figures = h("section", { class: "figures", "aria-label": "Figures" });
  const chart = h("section", { class: "card" });
  const facts = h("section", { class: "card" });
  const config = h("section", { class: "card" });
  root.append(h("p", { class: "crumbs" }, h("a", { href: clients_place() }, "Clients"), "/", foreign(id)), head, gone, said, figures,
    h("div", { class: "split even" }, chart, facts), tried, h("div", { class: "split" }, happened, config));
  opens(tried);

  const show = () => {
    const now = live.now();
    const view = shown?.client;
    gone.hidden = !is_gone;
    said.hidden = is_gone;
    put(head, h("h1", { title: plain(id) }, foreign(id)), is_gone ? badge("gone") : view ? badge(view.phase) : badge("waiting", "not served yet"),
      h("div", { class: "buttons" }, is_gone ? "" : client_buttons(view, stored, live.snapshot?.service.mode === "cluster")));
    put(said, view ? sentence(view, now) : "Its first numbers come within a second.");
    put(figures, view ? numbers(view, now) : "");
    put(chart, deliveries(view, shown?.minutes ?? []));
    put(facts, view ? state_list(view, now, { actor: shown.actor, heavy, stored, replicas: live.snapshot?.overview.replicas?.length }) : h("p", { class: "empty" }, "Not known yet."));
    put(tried, attempt_table(attempts, now));
    put(happened, event_list(events, now, id));
    put(config, config_of(stored, now));
  };
  // What is missing at first is asked for again, and said if it stays away.
  await load().catch((error) => { if (!attempts) throw error; });
  const again = every(2500, load);
  on(head, "click", "[data-do]", async (button) => {
    if (await CLIENT_ACTIONS[button.dataset.do](id, path, shown?.client)) again();
  });
  on(tried, "click", "[data-go]", () => attempts.more(ask_attempts));
  listen("clients", ({ detail }) => {
    const found = detail.changed.find((one) => one.client === id);
    if (found && shown) shown.client = found;
  });
  watch([id]);
  listen("snapshot", show);
}

// What happens, and what comes next.
function sentence(view, now) {
  const ill = upper(why({ ...view, disable_at_ms: undefined, restarts: 0 }, now));
  switch (view.phase) {
    case "healthy": return ill || "Everything is sent at once.";
    case "degraded": return `${ill}. One change is tried ${until(view.next_attempt_at_ms, now)}; what else comes waits in the stash, in order.`;
    case "draining": return `${ill || "It works again"}. What waited goes out, the oldest first.`;
    case "paused": return `${ill}. Its changes wait in the stash until it is resumed.`;
    default: return `${ill}. New changes are skipped; what waited stays.`;
  }
}

const upper = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);

function numbers(view, now) {
  const { latency } = view;
  return [
    tile("Deliveries", `${rate(view.rate)}/s`, view.failure_rate ? h("span", { class: "bad-text" }, `${rate(view.failure_rate)}/s fail`) : `${count(view.delivered)} since the start`),
    tile("Answer time p95", ms(latency?.p95), latency ? `p50 ${ms(latency.p50)} · p99 ${ms(latency.p99)}` : "none lately"),
    tile("In the stash", view.stashed ? h("a", { href: `#/stash/${segment(view.client)}` }, count(view.stashed)) : "0", view.stashed ? `oldest ${ago(view.oldest_ts_ms, now)} · ${bytes(view.stashed_bytes)}` : "nothing waits"),
    tile("In memory", count(view.in_flight + view.queued), `${count(view.in_flight)} on the wire · ${count(view.queued)} queued`),
    tile("Next try", view.next_attempt_at_ms ? until(view.next_attempt_at_ms, now) : "–", `last success ${ago(view.last_success_ms, now)}`),
    view.disable_at_ms ? tile("Switched off", until(view.disable_at_ms, now), "if nothing succeeds before", null, "bad") :
      tile("Dead letters", view.dead ? h("a", { href: `#/dead?client=${segment(view.client)}` }, count(view.dead)) : "0", view.dead ? "given up" : "none was given up"),
  ];
}

function deliveries(view, minutes) {
  const last = minutes.at(-1);
  return [h("div", { class: "title" }, h("h2", {}, "Deliveries by minute"), h("span", { class: "quiet figure" }, view ? `${count(view.delivered)} delivered, ${count(view.failed)} failed since the start` : "")),
    bars(`Deliveries and failures of each minute: ${last?.join(" and ") ?? "none yet"} in the last one`, minutes, 60),
    h("p", { class: "quiet axis" }, h("span", {}, "an hour ago"), !minutes.length && h("span", {}, "nothing was sent"), h("span", {}, "now"))];
}

function state_list(view, now, { actor, heavy, stored, replicas }) {
  const pairs = [
    ["Since", view.since_ms ? [time(view.since_ms), h("br"), h("span", { class: "quiet" }, ago(view.since_ms, now))] : "it has not been served lately"],
    stored?.paused && ["Paused", decided(stored.paused, now)],
    stored?.blocked && ["Blocked", [`its owner ${plain(stored.blocked.owner)}, `, decided(stored.blocked, now)]],
    ["Webhook", view.webhook ?? "–"],
    view.replica && replicas > 1 && ["Replica", h("a", { href: "#/system" }, view.replica)],
    ["Last error", view.last_error ? `${reason(view.last_error.reason)}, ${ago(view.last_error.at_ms, now)}` : "none known"],
    view.dead > 0 && ["Dead", h("a", { href: `#/dead?client=${segment(view.client)}` }, count(view.dead))],
    view.dropped > 0 && ["Dropped", `${count(view.dropped)}: it needs a resync`],
    view.owner && ["Owner", [foreign(view.owner), view.blocked && " (blocked)"]],
    ["Actor", view.actor ? [badge(view.actor), ` ${view.restarts ? `restarted ${plural(view.restarts, "time")}` : "never restarted"}`] : "none: it rests"],
    actor?.last_cause && ["Last broke", cause(actor)],
    ...heavy.slice(0, 2).map((job) => [job.kind[0].toUpperCase() + job.kind.slice(1), [badge(job.state), ` ${job.reason ? plain(job.reason) : counted(job.progress)}, ${ago(job.updated_ms, now)}`]]),
  ];
  return [h("div", { class: "title" }, h("h2", {}, "State")), h("dl", {}, pairs.filter(Boolean).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]))];
}

const counted = (progress) => Object.entries(progress ?? {}).filter(([, value]) => typeof value === "number").map(([name, value]) => `${count(value)} ${name.replaceAll("_", " ")}`).join(", ");

function config_of(stored, now) {
  const found = stored?.config;
  if (!found) return [h("h2", {}, "Config"), h("p", { class: "empty" }, "It has none.")];
  return [h("details", {}, h("summary", {}, "Config"), h("p", { class: "quiet" }, `${found.status}, changed ${ago(found.updated_at_ms, now)}. Secrets are not shown.`),
    h("pre", { tabindex: "0" }, JSON.stringify(found.value, null, 2))), found.fault && h("p", { class: "notice" }, `${found.fault.key}: ${found.fault.problem}`)];
}
