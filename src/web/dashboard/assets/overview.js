// How everything is, at a glance: what is wrong comes first.

import { h, put } from "./dom.js";
import { get, segment } from "./api.js";
import { badge, shape } from "./badge.js";
import { stacked } from "./chart.js";
import { List } from "./list.js";
import { keep_order, opens, table } from "./table.js";
import { tiles } from "./tiles.js";
import { troubles } from "./verdict.js";
import { PHASES, cause, client_link, foreign, reason, why } from "./words.js";
import { ago, clock, count, plural, span, time, until } from "./format.js";

const LISTED = 8;
const HOUR = 3_600_000;

export async function overview({ root, live, every, listen }) {
  const [first, happened] = await Promise.all([load(true), recent()]);
  let { hour, clients } = first;
  const verdict = h("section", { class: "card verdict" });
  const figures = h("section", { class: "figures", "aria-label": "Figures" });
  const attention = h("section", { class: "card flush" });
  const lately = h("section", { class: "card" });
  const queues = h("section", { class: "card" });
  const stores = h("section", { class: "card" });
  root.append(h("h1", { class: "unseen" }, "Overview"), verdict, figures,
    h("div", { class: "split" }, h("div", { class: "stack" }, attention, queues), h("div", { class: "stack" }, lately, stores)));
  opens(attention);

  const show = () => {
    const snapshot = live.snapshot ?? first;
    const all = snapshot.overview;
    const last = all.point;
    const now = live.now();
    if (last && last.at_ms > (hour.at(-1)?.at_ms ?? 0)) hour = [...hour.filter(({ at_ms }) => at_ms > last.at_ms - HOUR), last];
    const wrong = troubles(snapshot, now);
    put(verdict, judge(all, wrong));
    put(figures, tiles(all, hour));
    put(attention, problems(all, wrong, clients, now));
    put(lately, event_list(events, now));
    put(queues, queue_list(all.queues));
    put(stores, store_list(all, now));
  };
  const events = new List(happened, { key: ({ id }) => id, node: lately, show });
  const again = async () => {
    const [found, newest] = await Promise.all([load(false), recent()]);
    // Who reads on is not moved about.
    found.clients.rows = keep_order(clients.rows, found.clients.rows, ({ client }) => client);
    ({ clients } = found);
    events.offer(newest);
  };
  show();
  listen("snapshot", show);
  // What happened meanwhile is in no line.
  listen("again", async () => {
    const found = await load(true).catch(() => ({ hour }));
    ({ hour } = found);
  });
  every(2000, again);
}

const load = (hour) => get("/v1/dashboard", { hour, phase: "problem", limit: LISTED });
export async function recent(client) {
  const { events, next } = await get("/v1/operational-events", { client, limit: 8, order: "newest" });
  return { rows: events, next };
}

// One sentence for who has no time.
function judge(all, wrong) {
  const { total, phases } = all.clients;
  const kind = wrong.length ? "bad" : "good";
  const said = wrong.length ? wrong.map(({ text }) => text).join(", ") : total ? "All is well" : "Nobody is served yet";
  const failed = all.queues.reduce((sum, { counts }) => sum + (counts.failed ?? 0), 0);
  return [h("p", { class: "say" }, h("span", { class: `badge ${kind}` }, shape(kind)), h("span", { class: "what" }, said),
    h("span", { class: "quiet" }, [plural(total, "client"), plural(all.actors.total, "actor"), plural(all.actors.restarts, "restart"), all.stash.dead && plural(all.stash.dead, "dead letter"), failed && plural(failed, "failed job")].filter(Boolean).join(" · "))),
  total > 0 && stacked(`Clients by state: ${PHASES.map((phase) => `${phases[phase] ?? 0} ${phase}`).join(", ")}`, [...PHASES].reverse().map((phase) => [phase, phases[phase] ?? 0])),
  h("ul", { class: "chips" }, PHASES.map((phase) => h("li", {}, h("a", { class: `chip ${phases[phase] ? "" : "none"}`, href: `#/clients?phase=${phase}` }, badge(phase), h("span", { class: "figure" }, count(phases[phase] ?? 0))))))];
}

function problems(all, wrong, clients, now) {
  const actors = all.actors.troubled;
  const title = h("div", { class: "title" }, h("h2", {}, "Needs attention"), clients.matched > clients.rows.length && h("a", { href: "#/clients?phase=problem" }, `All ${count(clients.matched)}`));
  if (!clients.matched && !wrong.length) {
    return [title, h("p", { class: "empty" }, all.clients.total ? "Nothing. Every webhook takes what it is sent, no actor broke." :
      ["No client has a config yet. Give it one: ", h("code", {}, "dispatcher clients set ID --webhook URL")])];
  }
  const rows = [...wrong.flatMap(({ rows }) => rows).map((row) => ({ ...row, what: h("a", { href: "#/system" }, foreign(row.what)) })),
    ...actors.filter((actor) => !clients.rows.some(({ client }) => client === actor.id)).map((actor) => ({ key: `actor ${actor.kind} ${actor.id}`, what: actor.kind === "delivery" ? client_link(actor.id) : h("a", { href: "#/actors?state=problem" }, actor.kind), state: badge(actor.state), why: `Its actor ${cause(actor) ?? "broke"}`, since: span(actor.state_seconds * 1000) })),
    ...clients.rows.map((client) => ({ key: client.client, what: client_link(client.client), state: badge(client.phase), why: why(client, now) + broken(actors, client), next: until(client.next_attempt_at_ms, now), waits: count(client.stashed + client.queued), since: client.since_ms && span(now - client.since_ms) }))];
  return [title, table("Needs attention", [
    { name: "What", wide: "p20", of: (row) => row.what }, { name: "State", kind: "state", wide: "w120", of: (row) => row.state }, { name: "Why", kind: "cut", of: (row) => row.why },
    { name: "For", kind: "n", wide: "w70", extra: true, of: (row) => row.since }, { name: "Next try", kind: "n", wide: "w100", of: (row) => row.next, spare: true }, { name: "Waiting", kind: "n", wide: "w80", of: (row) => row.waits, spare: true }], rows, { key: ({ key }) => key })];
}

function broken(actors, { client }) {
  const actor = actors.find(({ kind, id }) => kind === "delivery" && id === client);
  return actor?.last_cause ? ` · ${cause(actor)}` : "";
}

function queue_list(queues) {
  return [h("div", { class: "title" }, h("h2", {}, "Queues")), queues.length ? h("ul", { class: "plain" }, queues.map((queue) => {
    const { active = 0, waiting = 0, delayed = 0, failed = 0, prioritized = 0 } = queue.counts;
    return h("li", {}, h("a", { href: `#/queues/${segment(queue.name)}` }, queue.name), queue.paused && badge("paused"), failed > 0 && badge("failed", `${count(failed)} failed`),
      h("span", { class: "quiet figure" }, `${count(active)} active · ${count(waiting + prioritized)} waiting · ${count(delayed)} delayed`));
  })) : h("p", { class: "empty" }, "They are asked within seconds.")];
}

function store_list(all, now) {
  return [h("div", { class: "title" }, h("h2", {}, "Stores")), h("ul", { class: "plain" }, all.dependencies.map((store) => h("li", {}, badge(store.healthy ? "ok" : "down"), store.name,
    h("span", { class: "quiet figure" }, store.healthy ? `${store.took_ms} ms` : `for ${span(now - store.since_ms)}`)))),
  all.late.length > 0 && h("p", { class: "notice" }, `Did not answer in time, so as of ${clock(all.gathered_at_ms)}: ${all.late.join(", ")}.`)];
}

// What happened lately, in all or to one; `events` is a List.
export function event_list(events, now, own) {
  return [h("div", { class: "title" }, h("h2", {}, own ? "What happened" : "Lately"), h("div", { class: "ends" }, events.button(), h("a", { href: own ? `#/events?client=${segment(own)}` : "#/events" }, "All events"))),
    events.rows.length ? h("ul", { class: "plain events" }, events.rows.map((event) => h("li", { "data-key": `e${event.id}` }, badge(event.type),
      h("span", { class: "cut", title: reason(event.reason) }, event.client && !own ? client_link(event.client) : foreign(reason(event.reason))),
      h("time", { class: "quiet figure", title: time(event.at_ms) }, ago(event.at_ms, now))))) :
      h("p", { class: "empty" }, "Nothing worth telling has happened.")];
}
