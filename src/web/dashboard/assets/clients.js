// All clients, a page at a time. Rows stay where they are while somebody is here: only their numbers change, until a new order is asked for.

import { h, on, put } from "./dom.js";
import { get, segment } from "./api.js";
import { badge } from "./badge.js";
import { say } from "./dialog.js";
import { List, is_idle } from "./list.js";
import { opens, table } from "./table.js";
import { PHASES, client_link, why } from "./words.js";
import { ago, count, ms, rate, time, until } from "./format.js";

const PAGE = 50;
const SORTS = { problems: "Problems first", client: "Name", waiting: "Most waiting", oldest: "Oldest waiting", rate: "Busiest",
  failures: "Most failures", latency: "Slowest", restarts: "Most restarts", since: "Changed last" };

// The list as it was left: who goes back from a client finds it so.
let left = "#/clients";
export const clients_place = () => left;

export async function clients({ root, live, query, signal, every, listen, watch }) {
  const asked = { filter: query.get("filter") ?? "", phase: query.get("phase") ?? "", sort: Object.hasOwn(SORTS, query.get("sort")) ? query.get("sort") : "problems",
    reverse: query.get("reverse") === "true", offset: Number(query.get("offset")) || 0, limit: PAGE };
  const find = async () => {
    const wanted = JSON.stringify(asked);
    const found = (await get("/v1/dashboard", asked)).clients;
    // What was asked for last is shown, whatever comes last.
    if (signal.aborted || JSON.stringify(asked) !== wanted) return undefined;
    if (found.rows.length || !found.matched) return found;
    // It ends before.
    asked.offset = PAGE * Math.floor((found.matched - 1) / PAGE);
    return find();
  };
  const keep = () => {
    const { limit, ...shown } = asked;
    const kept = Object.entries(shown).filter(([name, value]) => value && !(name === "sort" && value === "problems"));
    left = `#/clients${kept.length ? `?${new URLSearchParams(kept)}` : ""}`;
  };
  let place = { matched: 0, offset: 0, next: null, ...await find() };
  keep();
  const search = h("input", { type: "search", id: "search", value: asked.filter, placeholder: "Name, webhook, owner or reason   /", maxlength: "200", autocomplete: "off", "aria-label": "Search" });
  const sort = h("select", { id: "sort" }, Object.entries(SORTS).map(([value, text]) => h("option", { value, selected: value === asked.sort }, text)));
  const states = h("nav", { class: "tabs", "aria-label": "States" });
  const body = h("div", { class: "card flush" });
  const foot = h("div", { class: "foot" });
  // The place of the notice is there before it is: it moves nothing.
  const news = h("div", { class: "ends" });
  root.append(h("h1", { class: "unseen" }, "Clients"), h("div", { class: "controls" }, search, h("label", {}, "Order ", sort), news), states, body, foot);
  opens(body);

  const show = () => {
    const now = live.now();
    const { rows } = list;
    const sums = live.snapshot?.overview.clients;
    const numbers = sums && { "": sums.total, problem: sums.problems, ...sums.phases };
    put(states, ["", "problem", ...PHASES].map((phase) => h("button", { "data-phase": phase, "aria-pressed": String(phase === asked.phase), class: numbers && !numbers[phase] ? "none" : undefined },
      phase === "" ? "All" : phase === "problem" ? "Problems" : badge(phase), h("span", { class: "number" }, numbers ? count(numbers[phase] ?? 0) : "–"))));
    put(news, list.button());
    put(body, rows.length ? table("Clients", columns(now), rows, { key: ({ client }) => client, sort: asked.sort === "problems" ? undefined : asked.sort, reverse: asked.reverse }) :
      h("p", { class: "empty" }, asked.filter || asked.phase ? ["No client is so. ", h("button", { class: "plain", "data-go": "all" }, "Show all")] :
        ["No client has a config yet. Give it one: ", h("code", {}, "dispatcher clients set ID --webhook URL")]));
    put(foot, h("p", { class: "quiet figure" }, rows.length ? `${place.offset + 1} to ${place.offset + rows.length} of ${place.matched}` : ""),
      h("button", { "data-go": "back", disabled: place.offset === 0 }, "Back"), h("button", { "data-go": "on", disabled: place.next === null }, "Next"));
  };
  const begin = () => {
    list = new List(place, { key: ({ client }) => client, node: body, reads: () => !is_idle(), show, text: () => "New order: show it" });
    watch(list.rows.map(({ client }) => client));
    show();
  };
  let list;
  begin();
  // What is asked stands in the address: it can be kept, sent and gone back to.
  const load = async (change) => {
    Object.assign(asked, change);
    keep();
    history.replaceState(null, "", left);
    try {
      const found = await find();
      if (!found) return;
      place = found;
      begin();
    } catch (error) { say(error.message, "bad"); }
  };
  const look = async () => {
    const found = await find();
    if (!found) return;
    place = found;
    list.offer(found);
    watch(list.rows.map(({ client }) => client));
  };
  const GO = { all: () => { search.value = ""; load({ filter: "", phase: "", offset: 0 }); }, back: () => step(-PAGE), on: () => step(PAGE) };
  const step = async (by) => { await load({ offset: Math.max(0, asked.offset + by) }); scrollTo(0, 0); };
  let typing;
  search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => signal.aborted || load({ filter: search.value, offset: 0 }), 150);
  });
  sort.addEventListener("change", () => load({ sort: sort.value, reverse: false, offset: 0 }));
  on(states, "click", "[data-phase]", (button) => load({ phase: button.dataset.phase, offset: 0 }));
  on(body, "click", "[data-sort]", ({ dataset }) => {
    sort.value = dataset.sort;
    load({ sort: dataset.sort, reverse: dataset.sort === asked.sort && !asked.reverse, offset: 0 });
  });
  on(root, "click", "[data-go]", (button) => GO[button.dataset.go]());
  listen("clients", ({ detail }) => list.update(detail.changed));
  listen("snapshot", show);
  every(3000, look);
}

const columns = (now) => [
  { name: "Client", sort: "client", wide: "p16", of: (client) => client_link(client.client) },
  { name: "State", sort: "problems", kind: "state", wide: "w120", of: (client) => badge(client.phase) },
  { name: "Why", kind: "cut", spare: true, of: (client) => why({ ...client, disable_at_ms: null }, now) },
  { name: "Next try", kind: "n", wide: "w100", spare: true, of: (client) => until(client.next_attempt_at_ms, now) },
  { name: "Off", kind: "n", wide: "w100", spare: true, title: (client) => client.disable_at_ms && `Switched off ${time(client.disable_at_ms)} if nothing succeeds before`, of: (client) => (client.phase === "healthy" ? "–" : until(client.disable_at_ms, now)) },
  { name: "Rate", sort: "rate", kind: "n", wide: "w70", of: (client) => client.rate && `${rate(client.rate)}/s` },
  { name: "Fails", sort: "failures", kind: "n", wide: "w70", spare: true, of: (client) => client.failure_rate && h("span", { class: "bad-text" }, `${rate(client.failure_rate)}/s`) },
  { name: "Memory", kind: "n", wide: "w80", extra: "much", spare: true, title: (client) => `${client.in_flight} on the wire, ${client.queued} queued`, of: (client) => count(client.in_flight + client.queued) },
  { name: "Stash", sort: "waiting", kind: "n", wide: "w70", of: (client) => count(client.stashed) },
  { name: "Oldest", sort: "oldest", kind: "n", wide: "w90", spare: true, of: (client) => ago(client.oldest_ts_ms, now) },
  { name: "Success", kind: "n", wide: "w90", extra: "much", of: (client) => ago(client.last_success_ms, now) },
  { name: "p95", sort: "latency", kind: "n", wide: "w70", of: (client) => ms(client.latency?.p95) },
  { name: "Dead", kind: "n", wide: "w70", spare: true, of: (client) => client.dead && h("a", { class: "bad-text", href: `#/dead?client=${segment(client.client)}` }, count(client.dead)) },
];
