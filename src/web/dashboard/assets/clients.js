// All clients, a page at a time. Rows stay where they are while somebody is here: only their numbers change, until a new order is asked for.

import { h, on, put } from "./dom.js";
import { get } from "./api.js";
import { badge } from "./badge.js";
import { opens, table } from "./table.js";
import { PHASES, client_link, why } from "./words.js";
import { ago, count, ms, rate, until } from "./format.js";

const PAGE = 50;
// Who has not moved for so long does not read a certain row.
const IDLE = 60_000;
const SORTS = { problems: "Problems first", client: "Name", waiting: "Most waiting", oldest: "Oldest waiting", rate: "Busiest",
  failures: "Most failures", latency: "Slowest", restarts: "Most restarts", since: "Changed last" };

export async function clients({ root, live, query, signal, every, listen }) {
  const asked = { filter: query.get("filter") ?? "", phase: query.get("phase") ?? "", sort: Object.hasOwn(SORTS, query.get("sort")) ? query.get("sort") : "problems",
    reverse: query.get("reverse") === "true", offset: Number(query.get("offset")) || 0, limit: PAGE };
  let page = (await get("/v1/dashboard", asked)).clients;
  let newer;
  let moved_at = performance.now();
  for (const event of ["pointermove", "pointerdown", "keydown", "wheel", "scroll", "touchmove"]) {
    addEventListener(event, () => { moved_at = performance.now(); }, { signal, passive: true });
  }
  const search = h("input", { type: "search", id: "search", value: asked.filter, placeholder: "Name, webhook, owner or reason   /", maxlength: "200", autocomplete: "off", "aria-label": "Search" });
  const sort = h("select", { id: "sort" }, Object.entries(SORTS).map(([value, text]) => h("option", { value, selected: value === asked.sort }, text)));
  const states = h("nav", { class: "tabs", "aria-label": "States" });
  const list = h("div", { class: "card flush" });
  const foot = h("div", { class: "foot" });
  // The place of the notice is there before it is: it moves nothing.
  const news = h("div", { class: "ends" });
  root.append(h("h1", { class: "unseen" }, "Clients"), h("div", { class: "controls" }, search, h("label", {}, "Order ", sort), news), states, list, foot);
  opens(list);

  const show = () => {
    const now = live.now();
    const sums = live.snapshot?.overview.clients;
    const numbers = sums && { "": sums.total, problem: sums.problems, ...sums.phases };
    put(states, ["", "problem", ...PHASES].map((phase) => h("button", { "data-phase": phase, "aria-pressed": String(phase === asked.phase), class: numbers && !numbers[phase] ? "none" : undefined },
      phase === "" ? "All" : phase === "problem" ? "Problems" : badge(phase), h("span", { class: "number" }, numbers ? count(numbers[phase] ?? 0) : "–"))));
    put(news, newer && h("button", { class: "news", "data-go": "newer" }, "New order: show it"));
    put(list, page.rows.length ? table("Clients", columns(now), page.rows, { key: ({ client }) => client, sort: asked.sort === "problems" ? undefined : asked.sort, reverse: asked.reverse }) :
      h("p", { class: "empty" }, asked.filter || asked.phase ? ["No client is so. ", h("button", { class: "plain", "data-go": "all" }, "Show all")] :
        ["No client has a config yet. Give it one: ", h("code", {}, "dispatcher clients set ID --webhook URL")]));
    put(foot, h("p", { class: "quiet figure" }, page.rows.length ? `${page.offset + 1} to ${page.offset + page.rows.length} of ${page.matched}` : ""),
      h("button", { "data-go": "back", disabled: page.offset === 0 }, "Back"), h("button", { "data-go": "on", disabled: page.next === null }, "Next"));
  };
  const take = (found) => {
    page = found;
    newer = undefined;
    show();
  };
  // What is asked stands in the address: it can be kept, sent and gone back to.
  const load = async (change) => {
    Object.assign(asked, change);
    const { limit, ...shown } = asked;
    const kept = Object.entries(shown).filter(([name, value]) => value && !(name === "sort" && value === "problems"));
    history.replaceState(null, "", `#/clients${kept.length ? `?${new URLSearchParams(kept)}` : ""}`);
    try {
      const found = (await get("/v1/dashboard", asked)).clients;
      if (!signal.aborted) take(found);
    } catch { /* The mark at the top says that there is no news. */ }
  };
  const look = async () => {
    const mine = { ...asked };
    const found = (await get("/v1/dashboard", mine).catch(() => undefined))?.clients;
    if (!found || signal.aborted || Object.entries(mine).some(([name, value]) => asked[name] !== value)) return;
    const same = found.rows.length === page.rows.length && found.rows.every((one, at) => one.client === page.rows[at].client);
    if (same || !page.rows.length || performance.now() - moved_at > IDLE) return take(found);
    update(found.rows);
    page.matched = found.matched;
    newer = found;
    show();
  };
  const update = (rows) => {
    const by = new Map(rows.map((one) => [one.client, one]));
    page.rows = page.rows.map((one) => by.get(one.client) ?? one);
  };
  const GO = { newer: () => take(newer), all: () => { search.value = ""; load({ filter: "", phase: "", offset: 0 }); }, back: () => step(-PAGE), on: () => step(PAGE) };
  const step = async (by) => { await load({ offset: Math.max(0, asked.offset + by) }); scrollTo(0, 0); };
  let typing;
  search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => load({ filter: search.value, offset: 0 }), 150);
  });
  sort.addEventListener("change", () => load({ sort: sort.value, reverse: false, offset: 0 }));
  on(states, "click", "[data-phase]", (button) => load({ phase: button.dataset.phase, offset: 0 }));
  on(list, "click", "[data-sort]", ({ dataset }) => {
    sort.value = dataset.sort;
    load({ sort: dataset.sort, reverse: dataset.sort === asked.sort && !asked.reverse, offset: 0 });
  });
  on(root, "click", "[data-go]", (button) => GO[button.dataset.go]());
  listen("clients", ({ detail }) => update(detail.changed));
  listen("snapshot", show);
  every(3000, look);
  show();
}

const columns = (now) => [
  { name: "Client", sort: "client", wide: "p16", of: (client) => client_link(client.client) },
  { name: "State", sort: "problems", kind: "state", wide: "w120", of: (client) => badge(client.phase) },
  { name: "Why", kind: "cut", spare: true, of: (client) => why(client, now) },
  { name: "Next try", kind: "n", wide: "w100", spare: true, of: (client) => until(client.next_attempt_at_ms, now) },
  { name: "Rate", sort: "rate", kind: "n", wide: "w70", of: (client) => client.rate && `${rate(client.rate)}/s` },
  { name: "Fails", sort: "failures", kind: "n", wide: "w70", spare: true, of: (client) => client.failure_rate && h("span", { class: "bad-text" }, `${rate(client.failure_rate)}/s`) },
  { name: "Memory", kind: "n", wide: "w80", extra: true, spare: true, title: (client) => `${client.in_flight} on the wire, ${client.queued} queued`, of: (client) => count(client.in_flight + client.queued) },
  { name: "Stash", sort: "waiting", kind: "n", wide: "w70", of: (client) => count(client.stashed) },
  { name: "Oldest", sort: "oldest", kind: "n", wide: "w90", spare: true, of: (client) => ago(client.oldest_ts_ms, now) },
  { name: "p95", sort: "latency", kind: "n", wide: "w70", of: (client) => ms(client.latency?.p95) },
  { name: "Success", kind: "n", wide: "w90", extra: true, of: (client) => ago(client.last_success_ms, now) },
];
