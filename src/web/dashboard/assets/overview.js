// How everything is, at a glance: what is wrong comes first.

import { h, put } from "./dom.js";
import { get, segment } from "./api.js";
import { badge, lines } from "./chart.js";
import { ago, bytes, clock, count, ms, plural, rate, reason, share, span, until } from "./format.js";

export const PHASES = ["degraded", "draining", "paused", "disabled", "healthy"];
const LISTED = 8;

export async function overview({ root, live, every, listen }) {
  const [first, happened] = await Promise.all([load(), recent()]);
  let { hour, clients } = first;
  let events = happened;
  const figures = h("section", { class: "figures", "aria-label": "Figures" });
  const attention = h("section", { class: "card wide" });
  const phases = h("section", { class: "card" });
  const queues = h("section", { class: "card" });
  const stores = h("section", { class: "card" });
  const lately = h("section", { class: "card wide" });
  root.append(h("h1", { class: "unseen" }, "Overview"), figures,
    h("div", { class: "grid" }, attention, phases, stores, queues, lately));

  const show = () => {
    const snapshot = live.snapshot ?? first;
    const all = snapshot.overview;
    const last = all.point;
    if (last && last.at_ms !== hour.at(-1)?.at_ms) hour = [...hour.slice(-359), last];
    put(figures, tiles(all, hour));
    put(attention, problems(all, clients, live));
    put(phases, by_phase(all.clients));
    put(queues, queue_list(all.queues));
    put(stores, store_list(all, live.now()));
    put(lately, event_list(events, live.now()));
  };
  let loading = false;
  const again = async () => {
    if (loading || document.hidden) return;
    loading = true;
    try {
      [{ clients }, events] = await Promise.all([load(), recent()]);
    } catch { /* The mark at the top says that there is no news. */ }
    loading = false;
  };
  show();
  listen("snapshot", show);
  every(2000, again);
}

const load = () => get("/v1/dashboard", { hour: true, phase: "problem", limit: LISTED });
const recent = async () => (await get("/v1/operational-events", { limit: 6, order: "newest" })).events;

function tiles(all, hour) {
  const of = (member) => hour.map((point) => point[member]);
  const waits = all.stash.pending;
  const since = hour.length > 354 ? "1 h ago" : `${Math.round(Math.max(hour.length, 60) / 6)} min ago`;
  return [
    tile("Throughput", `${rate(all.rate)}/s`, all.failure_rate ? `${rate(all.failure_rate)}/s fail` : "nothing fails",
      lines("Throughput", [{ name: "delivered", kind: "good", area: true, values: of("rate") },
        { name: "failed", kind: "bad", values: of("failure_rate") }], { format: (value) => `${rate(value)}/s` }), since),
    tile("Succeeded", share(all.success_share), all.success_share === null ? "no attempt lately" : "of the last minute's attempts",
      lines("Success", [{ name: "share", kind: "good", area: true,
        values: hour.map((point) => (point.rate + point.failure_rate ? point.rate / (point.rate + point.failure_rate) : null)) }],
      { top: 1, format: share }), since),
    tile("Webhook answers", all.answer_ms ? ms(all.answer_ms.p95) : "–",
      all.answer_ms ? `p95; half ${ms(all.answer_ms.p50)}, p99 ${ms(all.answer_ms.p99)}` : "none lately",
      lines("Answers", [{ name: "p95", kind: "plain", values: of("p95_ms") }], { format: ms }), since),
    tile("From change to 2xx", all.age_ms ? ms(all.age_ms.p95) : "–",
      all.age_ms ? `p95; half ${ms(all.age_ms.p50)}, p99 ${ms(all.age_ms.p99)}` : "none lately",
      lines("From change to 2xx", [{ name: "p95", kind: "plain", values: of("age_p95_ms") }], { format: ms }), since),
    tile("In the stash", count(waits), waits ? `oldest ${ago(all.stash.oldest_ts_ms, all.at_ms)} · ${bytes(all.stash.bytes)}` : "nothing waits",
      lines("Waiting", [{ name: "waiting", kind: "wait", area: true, values: of("stashed") }], { top: 10, format: count }), since),
    tile("Behind", count((all.lag.source ?? 0) + (all.lag.transfer ?? 0)), `${count(all.lag.source)} to route, ${count(all.lag.transfer)} to deliver`,
      lines("Records behind", [{ name: "behind", kind: "wait", area: true, values: of("lag") }], { top: 10, format: count }), since),
  ];
}

const tile = (name, value, note, chart, since, foot) =>
  h("div", { class: "card tile", "data-key": name }, h("h2", {}, name), h("p", { class: "value" }, value),
    h("p", { class: "quiet" }, note), chart, h("p", { class: "quiet axis" }, h("span", {}, since), foot && h("span", {}, foot), h("span", {}, "now")));

export const client_link = (id) => h("a", { href: `#/client/${segment(id)}` }, id);

function problems(all, clients, live) {
  const now = live.now();
  const actors = all.actors.troubled;
  const down = all.dependencies.filter((store) => !store.healthy);
  const title = h("h2", {}, "Needs attention");
  if (!clients.matched && !actors.length && !down.length) {
    return [title, h("p", { class: "empty" }, badge("ok", "all well"), ` ${plural(all.clients.total, "client")}, every store answers, no actor broke.`)];
  }
  return [title,
    down.map((store) => h("p", { class: "notice" }, badge("down"), ` ${store.name}: ${store.error} (since ${span(now - store.since_ms)})`)),
    actors.map((actor) => h("p", { class: "notice" }, badge(actor.state), ` actor ${actor.kind} ${actor.id}: ${actor.last_cause ? `${actor.last_cause.reason.replaceAll("_", " ")}, ${actor.last_cause.message}` : "no cause known"}`)),
    clients.matched ? h("table", { class: "rows" }, h("thead", {}, h("tr", {}, ["Client", "State", "Why", "Next try", "Waiting"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, clients.rows.map((client) => h("tr", { "data-key": client.client },
        h("th", { scope: "row" }, client_link(client.client)), h("td", { "data-name": "State" }, badge(client.phase)),
        h("td", { class: "why", "data-name": "Why" }, why(client)), h("td", { class: "figure", "data-name": "Next try" }, until(client.next_attempt_at_ms, now)),
        h("td", { class: "figure", "data-name": "Waiting" }, count(client.stashed)))))) : null,
    clients.matched > clients.rows.length && h("p", {}, h("a", { href: "#/clients?phase=problem" }, `All ${count(clients.matched)}`))];
}

// The reason, and when it ends in being switched off.
export function why(client) {
  const parts = [reason(client.reason)];
  if (client.overflows) parts.push("changes are dropped: too many wait");
  if (client.actor === "failed") parts.push("its actor was given up");
  if (client.actor === "restarting") parts.push("its actor restarts");
  return parts.filter(Boolean).join("; ") || "–";
}

function by_phase({ total, phases }) {
  if (!total) return [h("h2", {}, "Clients"), h("p", { class: "empty" }, "No client has a config yet: dispatcher clients set ID --webhook URL")];
  return [h("h2", {}, "Clients"), h("ul", { class: "plain phases" }, PHASES.map((phase) => h("li", {},
    h("a", { href: `#/clients?phase=${phase}` }, badge(phase), h("span", { class: "figure" }, count(phases[phase] ?? 0))))))];
}

function queue_list(queues) {
  return [h("h2", {}, "Queues"), queues.length ? h("ul", { class: "plain" }, queues.map((queue) => {
    const { active = 0, waiting = 0, delayed = 0, failed = 0, prioritized = 0 } = queue.counts;
    return h("li", {}, h("a", { href: `#/queues/${segment(queue.name)}` }, queue.name), queue.paused && badge("paused"),
      h("span", { class: "quiet" }, `${count(active)} active, ${count(waiting + prioritized)} waiting, ${count(delayed)} delayed`), failed > 0 && badge("failed", `${count(failed)} failed`));
  })) : h("p", { class: "empty" }, "Not asked yet.")];
}

function store_list(all, now) {
  return [h("h2", {}, "Stores"), h("ul", { class: "plain" }, all.dependencies.map((store) => h("li", {}, badge(store.healthy ? "ok" : "down", store.healthy ? "ok" : "down"), store.name,
    h("span", { class: "quiet" }, store.healthy ? `${store.took_ms} ms` : `for ${span(now - store.since_ms)}`)))),
  all.late.length > 0 && h("p", { class: "notice" }, `Did not answer in time, so as of ${clock(all.gathered_at_ms)}: ${all.late.join(", ")}.`)];
}

export function event_list(events, now) {
  return [h("h2", {}, "Lately"), events.length ? h("ul", { class: "plain events" }, events.map((event) => h("li", { "data-key": `e${event.id}` },
    badge(event.type), event.client && client_link(event.client), h("span", {}, reason(event.reason)), h("time", { class: "quiet" }, ago(event.at_ms, now))))) :
    h("p", { class: "empty" }, "Nothing worth telling has happened."), events.length > 0 && h("p", {}, h("a", { href: "#/events" }, "All events"))];
}
