// The process, those beside it, and what they stand on.

import { h, on, put } from "./dom.js";
import { get, segment } from "./api.js";
import { badge } from "./badge.js";
import { act } from "./dialog.js";
import { deed } from "./session.js";
import { opens, table } from "./table.js";
import { SILENT } from "./verdict.js";
import { foreign } from "./words.js";
import { ago, bytes, count, plain, rate, span, time } from "./format.js";

const MOST_OWNERS = 100;

export async function system({ root, live, every, listen }) {
  const ask = () => get("/v1/blocked-owners", { limit: MOST_OWNERS });
  const [first, found] = await Promise.all([get("/v1/dashboard", { limit: 0 }), ask()]);
  let blocked = found;
  const owners = h("section", { class: "card flush" });
  const stores = h("section", { class: "card flush" });
  const replicas = h("section", { class: "card flush" });
  const facts = h("div", { class: "grid" });
  root.append(h("h1", { class: "unseen" }, "System"), replicas, stores, owners, facts);
  opens(stores);
  opens(replicas);
  opens(owners);
  const show = () => {
    const snapshot = live.snapshot ?? first;
    const { service, overview: all } = snapshot;
    const now = live.now();
    put(replicas, title("Replicas"), replica_table(all.replicas), all.unread_replicas.map((one) => h("p", { class: "notice" }, `${one.name} cannot be read: ${one.why}`)));
    put(stores, title("Stores"), table("Stores", [
      { name: "Store", wide: "w150", of: (store) => store.name }, { name: "State", kind: "state", wide: "w120", of: (store) => badge(store.healthy ? "ok" : "down") },
      { name: "Answered in", kind: "n", wide: "w120", of: (store) => `${store.took_ms} ms` }, { name: "For", kind: "n", wide: "w120", of: (store) => span(now - store.since_ms) },
      { name: "Error", kind: "cut", spare: true, of: (store) => plain(store.error ?? "") }], all.dependencies, { key: ({ name }) => name }));
    put(owners, title("Blocked owners"), owner_table(blocked, now));
    put(facts, card("This replica", own(service, all)), card("Flow", flow(all, now)), card("This page", page(service, all, now), h("p", { class: "quiet" }, h("a", { href: "/status" }, "/status"), " · ", h("a", { href: "/metrics" }, "/metrics"))));
  };
  const again = every(5000, async () => {
    blocked = await ask();
    show();
  });
  on(owners, "click", "[data-do]", async ({ dataset: { owner } }) => {
    if (await act({ question: { title: `Unblock ${plain(owner)}?`, text: "Its clients get what waits for them, and its jobs are done again.", button: "Unblock" }, method: "DELETE", path: `/v1/blocked-owners/${segment(owner)}`, done: `${plain(owner)} is unblocked` })) again();
  });
  show();
  listen("snapshot", show);
}

const title = (text) => h("div", { class: "title" }, h("h2", {}, text));

const card = (name, pairs, ...more) => h("section", { class: "card" }, h("h2", {}, name), h("dl", {}, pairs.map(([term, value]) => [h("dt", {}, term), h("dd", {}, value)])), more);

function own(service, all) {
  const nobody = all.unattended_roles;
  return [["Version", service.version], ["Mode", service.mode], ["State", service.ready ? badge("ready") : badge("down", service.missing ?? "not ready")],
    ["Up", span(service.uptime_seconds * 1000)], ["Roles", service.roles.join(", ")],
    ["Nobody does", nobody === null ? "not known" : nobody.length ? h("strong", { class: "bad-text" }, nobody.join(", ")) : "every role is done by somebody"]];
}

const flow = (all, now) => [["To route", count(all.lag.source)], ["To deliver", count(all.lag.transfer)], ["Oldest of them", ago(all.lag.transfer_oldest_ms, now)],
  ["On the wire", count(all.in_flight)], ["In memory", count(all.queued)], ["Stash", `${count(all.stash.pending)} waiting, ${bytes(all.stash.bytes)}`], ["Dead", count(all.stash.dead)]];

const page = (service, all, now) => [["Made in", `${(all.cost_us / 1000).toFixed(1)} ms, each second, for all who watch`],
  ["Stores asked", all.gathered_at_ms ? `${ago(all.gathered_at_ms, now)}, took ${all.gathering_ms} ms` : "not yet"], ["Watching", count(service.streams)], ["Shows", service.scope]];

const owner_table = ({ blocked_owners: rows, next }, now) => (rows.length ? [table("Blocked owners", [
  { name: "Owner", wide: "p30", of: (one) => foreign(one.owner), title: (one) => plain(one.owner) },
  { name: "By", wide: "p20", of: (one) => plain(one.by) },
  { name: "Why", kind: "cut", of: (one) => plain(one.reason) },
  { name: "Since", kind: "n", wide: "w100", of: (one) => ago(one.since_ms, now), title: (one) => time(one.since_ms) },
  { name: "Clients", kind: "n", wide: "w90", of: (one) => h("a", { href: `#/clients?${new URLSearchParams({ filter: one.owner })}` }, "Show") },
  { name: "Do", unseen: true, kind: "acts", wide: "w100", of: (one) => h("div", { class: "buttons" }, deed("unblock", "Unblock", { "data-owner": one.owner, "aria-label": `Unblock ${one.owner}` })) },
], rows, { key: ({ owner }) => owner }), next && h("p", { class: "quiet empty" }, `The first ${rows.length}.`)] : h("p", { class: "empty" }, "Nobody is blocked."));

const replica_table = (replicas) => table("Replicas", [
  { name: "Replica", wide: "p20", of: (one) => [one.name, one.here && h("span", { class: "quiet" }, " (here)")], title: (one) => one.name },
  { name: "State", kind: "state", wide: "w120", of: replica_state },
  { name: "Roles", kind: "cut", of: (one) => one.roles.join(", ") },
  { name: "Version", wide: "w80", extra: "much", of: (one) => one.version },
  { name: "Clients", kind: "n", wide: "w80", of: (one) => count(one.clients) },
  { name: "Rate", kind: "n", wide: "w80", of: (one) => `${rate(one.rate)}/s` },
  { name: "Fails", kind: "n", wide: "w80", spare: true, of: (one) => one.failure_rate > 0 && h("span", { class: "bad-text" }, `${rate(one.failure_rate)}/s`) },
  { name: "To deliver", kind: "n", wide: "w90", of: (one) => count(one.lag.transfer) },
  { name: "Actors", kind: "n", wide: "w80", of: (one) => h("a", { href: `#/actors?replica=${segment(one.name)}` }, count(one.actors)) },
  { name: "Restarts", kind: "n", wide: "w80", extra: "much", of: (one) => count(one.restarts) },
  { name: "Up", kind: "n", wide: "w90", extra: "much", of: (one) => span(one.uptime_s * 1000) },
  { name: "Told", kind: "n", wide: "w90", of: (one) => (one.here || one.age_ms < 2000 ? "now" : `${span(one.age_ms)} ago`) },
], replicas, { key: ({ name }) => name });

function replica_state(one) {
  const down = one.dependencies.filter((store) => !store.healthy);
  if (one.age_ms > SILENT) return badge("silent");
  if (down.length) return badge("down", `without ${down.map(({ name }) => name).join(", ")}`);
  return one.actors_failed ? badge("failed", `${one.actors_failed} given up`) : badge("ok");
}
