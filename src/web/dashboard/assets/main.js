// The frame of the page: who is signed in, where one is, whether what is shown is fresh.

import { h, put } from "./dom.js";
import { api, get, onSignedOut } from "./api.js";
import { Live } from "./live.js";
import { badge } from "./chart.js";
import { clock, count, span } from "./format.js";
import { overview } from "./overview.js";

// What is not on the first page comes when it is opened.
const VIEWS = [
  { name: "overview", title: "Overview", open: overview },
  { name: "clients", title: "Clients", open: async (place) => (await import("./clients.js")).clients(place), of: (all) => count(all.clients.total) },
  { name: "queues", title: "Queues", open: async (place) => (await import("./queues.js")).queues(place) },
  { name: "actors", title: "Actors", open: async (place) => (await import("./actors.js")).actors(place), of: (all) => count(all.actors.total) },
  { name: "dead", title: "Dead letters", open: async (place) => (await import("./dead.js")).dead(place), of: (all) => all.stash.dead ? count(all.stash.dead) : "" },
  { name: "events", title: "Events", open: async (place) => (await import("./events.js")).events(place) },
  { name: "system", title: "System", open: async (place) => (await import("./system.js")).system(place) },
];
const DETAILS = {
  client: { of: "clients", open: async (place) => (await import("./client.js")).client(place) },
  job: { of: "queues", open: async (place) => (await import("./job.js")).job(place) },
};

const live = new Live();
const main = document.getElementById("main");
const top = document.getElementById("top");
const mark = h("p", { class: "mark", role: "status" });
const banner = h("p", { class: "banner", hidden: true, role: "alert" });
const nav = h("nav", { "aria-label": "Pages" });
const out = h("button", { class: "plain", hidden: true, onclick: signOut }, "Log out");
let needs_token = false;
let closing = new AbortController();
let turn = 0;

top.append(h("div", { class: "bar" }, h("a", { href: "#/overview", class: "name" }, "dispatcher"), mark, out), nav);
top.after(banner);

function show_nav() {
  const [here] = parts();
  const active = DETAILS[here]?.of ?? here;
  const all = live.snapshot?.overview;
  put(nav, VIEWS.map((view) => h("a", { href: `#/${view.name}`, "aria-current": view.name === active && "page" },
    view.title, view.of && all && view.of(all) ? h("span", { class: "number" }, view.of(all)) : null)));
}

function show_mark() {
  const { state, snapshot } = live;
  const fresh = state === "live";
  put(mark, fresh ? badge("ok", "live") : badge("failed", state === "connecting" ? "connecting" : "stale"),
    snapshot && h("span", { class: "quiet" }, h("span", { class: "place" }, `${snapshot.service.mode} · this replica · `), clock(snapshot.overview.at_ms)));
  const old = live.heard && Date.now() - live.heard;
  const is_old = !fresh && state !== "ended" && old > 1500;
  banner.hidden = !is_old;
  if (is_old) put(banner, `No news from the service for ${span(old)}. What is shown is that old; trying again.`);
  document.body.classList.toggle("stale", is_old);
  const failing = snapshot?.overview.clients.phases.degraded ?? 0;
  document.title = `${is_old ? "(stale) " : failing ? `(${failing}) ` : ""}dispatcher`;
}

// The parts of the address behind the #.
function parts() {
  const [path] = location.hash.replace(/^#\/?/, "").split("?");
  const found = path.split("/").map((part) => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  return found[0] ? found : ["overview"];
}

const query = () => new URLSearchParams(location.hash.split("?")[1] ?? "");

async function open() {
  closing.abort();
  closing = new AbortController();
  const mine = ++turn;
  const [name, ...rest] = parts();
  show_nav();
  const view = VIEWS.find((view) => view.name === name) ?? DETAILS[name];
  const root = h("div", { class: `view ${name}` });
  const place = { root, live, parts: rest, query: query(), signal: closing.signal,
    // Every so often, and when it is looked at again; not while nobody looks.
    every(ms, act) {
      const run = () => document.hidden || act();
      const timer = setInterval(run, ms);
      document.addEventListener("visibilitychange", run, { signal: closing.signal });
      closing.signal.addEventListener("abort", () => clearInterval(timer));
    },
    listen(event, act) { live.addEventListener(event, act, { signal: closing.signal }); } };
  try {
    if (!view) throw new Error("There is no such page.");
    await view.open(place);
  } catch (error) {
    if (mine !== turn) return;
    root.replaceChildren(h("h1", {}, "This cannot be shown"), h("p", { class: "notice" }, error.message),
      h("p", {}, h("button", { onclick: open }, "Try again"), " ", h("a", { href: "#/overview" }, "Overview")));
  }
  if (mine === turn) {
    main.replaceChildren(root);
    scrollTo(0, 0);
  }
}

function log_in(problem) {
  live.end();
  closing.abort();
  turn++;
  nav.hidden = true;
  out.hidden = true;
  banner.hidden = true;
  mark.replaceChildren();
  const input = h("input", { id: "token", type: "password", required: true, autocomplete: "current-password", "aria-describedby": "problem" });
  const note = h("p", { id: "problem", class: "notice", role: "alert", hidden: !problem }, problem ?? "");
  const form = h("form", { class: "card login", onsubmit: async (event) => {
    event.preventDefault();
    try {
      await api("PUT", "/dashboard/session", { token: input.value });
      begin();
    } catch (error) {
      note.textContent = error.message;
      note.hidden = false;
      input.select();
    }
  } }, h("h1", {}, "Log in"), h("label", { for: "token" }, "Admin token"), input, note,
    h("button", { class: "strong" }, "Log in"),
    h("p", { class: "quiet" }, "The token is what the service was started with (DISPATCHER_ADMIN_TOKEN)."));
  main.replaceChildren(form);
  input.focus();
}

async function signOut() {
  try { await api("DELETE", "/dashboard/session"); } catch { /* Then it ends by itself. */ }
  log_in();
}

function begin() {
  nav.hidden = false;
  out.hidden = !needs_token;
  live.begin();
  open();
}

onSignedOut(() => nav.hidden || log_in("The session has ended."));
addEventListener("hashchange", () => nav.hidden || open());
live.addEventListener("snapshot", () => { show_nav(); show_mark(); });
live.addEventListener("state", show_mark);
// A stream that is refused may mean that the session has ended; only an answer tells.
live.addEventListener("lost", () => get("/v1/dashboard", { limit: 0 }).catch(() => {}));
setInterval(show_mark, 1000);
addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.target.closest("input, select, textarea, dialog")) {
    const search = main.querySelector("input[type=search]");
    if (search) { event.preventDefault(); search.focus(); }
  }
});

async function start() {
  try {
    const session = await get("/dashboard/session");
    needs_token = session.needs_token;
    if (session.signed_in) begin();
    else log_in();
  } catch (error) {
    main.replaceChildren(h("p", { class: "notice" }, error.message, " ", h("button", { onclick: start }, "Try again")));
  }
}
start();
