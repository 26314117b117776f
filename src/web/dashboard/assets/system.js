// The process and what it stands on.

import { h, put } from "./dom.js";
import { get } from "./api.js";
import { badge } from "./chart.js";
import { ago, bytes, count, span } from "./format.js";

export async function system({ root, live, listen }) {
  const first = await get("/v1/dashboard", { limit: 0 });
  const body = h("div", {});
  root.append(h("h1", {}, "System"), body);
  const show = () => {
    const { service, overview: all } = live.snapshot ?? first;
    const now = live.now();
    const list = (pairs) => h("dl", {}, pairs.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
    const nobody = all.unattended_roles;
    put(body, h("div", { class: "grid" },
      h("section", { class: "card" }, h("h2", {}, "This replica"), list([["Version", service.version], ["Mode", service.mode], ["State", service.ready ? badge("ok", "ready") : badge("down", service.missing ?? "not ready")],
        ["Up", span(service.uptime_seconds * 1000)], ["Roles", service.roles.join(", ")],
        ["Roles that nobody has", nobody === null ? "not known" : nobody.length ? h("strong", {}, nobody.join(", ")) : "none"]])),
      h("section", { class: "card" }, h("h2", {}, "Stores"), h("table", { class: "rows" }, h("thead", {}, h("tr", {}, ["Store", "State", "Answered in", "Since"].map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, all.dependencies.map((store) => h("tr", { "data-key": store.name }, h("th", { scope: "row" }, store.name), h("td", { "data-name": "State" }, badge(store.healthy ? "ok" : "down"), store.error && ` ${store.error}`),
          h("td", { class: "figure", "data-name": "Answered in" }, `${store.took_ms} ms`), h("td", { class: "figure", "data-name": "Since" }, ago(store.since_ms, now))))))),
      h("section", { class: "card" }, h("h2", {}, "Flow"), list([["Records to route", count(all.lag.source)], ["Transfers to deliver", count(all.lag.transfer)],
        ["Oldest transfer", ago(all.lag.transfer_oldest_ms, now)], ["On the wire", count(all.in_flight)], ["Queued in memory", count(all.queued)],
        ["Stash", `${count(all.stash.pending)} waiting (${bytes(all.stash.bytes)}), ${count(all.stash.dead)} dead`]])),
      h("section", { class: "card" }, h("h2", {}, "This page"), list([["Made in", `${(all.cost_us / 1000).toFixed(1)} ms, once a second, for all who watch`], ["Stores asked", all.gathered_at_ms ? `${ago(all.gathered_at_ms, now)}, took ${all.gathering_ms} ms` : "not yet"],
        ["Watching", count(service.streams)], ["Scope", "this replica: rates, latencies and actors are its own; states and the stash are everybody's"]]),
        h("p", {}, h("a", { href: "/status" }, "/status"), " · ", h("a", { href: "/metrics" }, "/metrics")))));
  };
  show();
  listen("snapshot", show);
}
