// All clients, a page at a time. Rows stay where they are while they are looked at: only their numbers change.

import { h, on, put } from "./dom.js";
import { get } from "./api.js";
import { badge } from "./chart.js";
import { PHASES, client_link, why } from "./overview.js";
import { ago, count, ms, rate, until } from "./format.js";

const PAGE = 50;
const SORTS = { problems: "Problems first", client: "Name", waiting: "Most waiting", oldest: "Oldest waiting", rate: "Busiest",
  failures: "Most failures", latency: "Slowest", restarts: "Most restarts", since: "Changed last" };
const COLUMNS = [["Client", "client"], ["State", "problems"], ["Why"], ["Next try"], ["Sending"], ["Queued"], ["Stashed", "waiting"], ["Oldest", "oldest"],
  ["Rate", "rate"], ["p95", "latency"], ["Last success"], ["Restarts", "restarts"]];

export async function clients({ root, live, query, signal, every, listen }) {
  const asked = { filter: query.get("filter") ?? "", phase: query.get("phase") ?? "", sort: SORTS[query.get("sort")] ? query.get("sort") : "problems",
    offset: Number(query.get("offset")) || 0, limit: PAGE };
  let page = (await get("/v1/dashboard", asked)).clients;
  let newer;
  const search = h("input", { type: "search", id: "search", value: asked.filter, placeholder: "Name, webhook, owner or reason  ( / )", maxlength: "200", autocomplete: "off" });
  const phase = h("select", { id: "phase" }, [["", "All"], ["problem", "Problems"], ...PHASES.map((one) => [one, one])].map(([value, text]) => h("option", { value, selected: value === asked.phase }, text)));
  const sort = h("select", { id: "sort" }, Object.entries(SORTS).map(([value, text]) => h("option", { value, selected: value === asked.sort }, text)));
  const table = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Clients" });
  const foot = h("div", { class: "foot" });
  root.append(h("h1", {}, "Clients"), h("div", { class: "controls" }, h("label", { for: "search", class: "unseen" }, "Search"), search,
    h("label", {}, "State ", phase), h("label", {}, "Order ", sort)), h("div", { class: "card flush" }, table), foot);

  const show = () => {
    const now = live.now();
    put(table, page.rows.length ? h("table", { class: "rows" },
      h("thead", {}, h("tr", {}, COLUMNS.map(([name, by]) => h("th", { scope: "col", "aria-sort": by === asked.sort && by !== "problems" && (by === "client" ? "ascending" : "descending") },
        by ? h("button", { class: "sort", "data-sort": by }, name) : name)))),
      h("tbody", {}, page.rows.map((client) => row(client, now)))) :
      h("p", { class: "empty" }, asked.filter || asked.phase ? "No client is so." : "No client has a config yet: dispatcher clients set ID --webhook URL"));
    const last = page.offset + page.rows.length;
    put(foot, h("p", { class: "quiet" }, page.matched ? `${page.offset + 1} to ${last} of ${page.matched}` : ""),
      newer && h("button", { class: "plain", "data-act": "newer" }, "The order has changed: show it"),
      h("button", { "data-act": "back", disabled: page.offset === 0 }, "Back"), h("button", { "data-act": "on", disabled: page.next === null }, "Next"));
  };
  // What is asked stands in the address: it can be kept, sent and gone back to.
  const load = async (change, keep) => {
    Object.assign(asked, change);
    const { limit, ...shown } = asked;
    const kept = Object.entries(shown).filter(([name, value]) => value && !(name === "sort" && value === "problems"));
    history.replaceState(null, "", `#/clients${kept.length ? `?${new URLSearchParams(kept)}` : ""}`);
    try {
      const found = (await get("/v1/dashboard", asked)).clients;
      if (signal.aborted) return;
      const same = found.rows.length === page.rows.length && found.rows.every((one, at) => one.client === page.rows[at].client);
      if (keep && !same && (table.matches(":hover") || table.contains(document.activeElement))) {
        // Not under the reader's hand.
        const by = new Map(found.rows.map((one) => [one.client, one]));
        page.rows = page.rows.map((one) => by.get(one.client) ?? one);
        page.matched = found.matched;
        newer = found;
      } else {
        page = found;
        newer = undefined;
      }
    } catch { /* The mark at the top says that there is no news. */ }
    show();
  };
  let typing;
  search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => load({ filter: search.value, offset: 0 }), 200);
  });
  phase.addEventListener("change", () => load({ phase: phase.value, offset: 0 }));
  sort.addEventListener("change", () => load({ sort: sort.value, offset: 0 }));
  on(table, "click", "[data-sort]", (button) => { sort.value = button.dataset.sort; load({ sort: button.dataset.sort, offset: 0 }); });
  on(foot, "click", "[data-act]", (button) => {
    const { act } = button.dataset;
    if (act === "newer") { page = newer; newer = undefined; show(); }
    else { load({ offset: Math.max(0, asked.offset + (act === "on" ? PAGE : -PAGE)) }); root.scrollIntoView(); }
  });
  listen("clients", ({ detail }) => {
    const by = new Map(detail.changed.map((one) => [one.client, one]));
    page.rows = page.rows.map((one) => by.get(one.client) ?? one);
  });
  listen("snapshot", show);
  every(3000, () => load({}, true));
  show();
}

function row(client, now) {
  const cell = (name, content, kind = "figure") => h("td", { class: kind, "data-name": name }, content);
  return h("tr", { "data-key": client.client },
    h("th", { scope: "row" }, client_link(client.client)), cell("State", badge(client.phase), "state"), cell("Why", why(client), "why"),
    cell("Next try", until(client.next_attempt_at_ms, now)), cell("Sending", count(client.in_flight)), cell("Queued", count(client.queued)),
    cell("Stashed", count(client.stashed)), cell("Oldest", ago(client.oldest_ts_ms, now)),
    cell("Rate", client.failure_rate ? `${rate(client.rate)}/s, ${rate(client.failure_rate)}/s fail` : `${rate(client.rate)}/s`),
    cell("p95", ms(client.latency?.p95)), cell("Last success", ago(client.last_success_ms, now)), cell("Restarts", count(client.restarts)));
}

