// Which page is shown, and what it is given.

import { h } from "./dom.js";
import { ApiError, api, get, onSignedOut } from "./api.js";
import { clock } from "./format.js";
import { Frame } from "./frame.js";
import { Live } from "./live.js";
import { listen_to_keys } from "./keys.js";
import { ask_session, log_in_form, session } from "./session.js";
import { overview } from "./overview.js";

// What is not on the first page comes when nothing else is to be done, or when it is opened.
const LATER = {
  clients: () => import("./clients.js"), client: () => import("./client.js"), stash: () => import("./stash.js"), queues: () => import("./queues.js"), queue: () => import("./queue.js"),
  job: () => import("./job.js"), actors: () => import("./actors.js"), dead: () => import("./dead.js"), events: () => import("./events.js"), audit: () => import("./audit.js"), system: () => import("./system.js"),
};
const later = (name) => async (place) => (await LATER[name]())[name](place);
const VIEWS = {
  overview: { open: overview },
  clients: { open: later("clients") },
  client: { of: "clients", open: later("client") },
  stash: { of: "clients", open: later("stash") },
  queues: { open: (place) => later(place.parts.length ? "queue" : "queues")(place) },
  job: { of: "queues", open: later("job") },
  actors: { open: later("actors") },
  dead: { open: later("dead") },
  events: { open: (place) => later(place.parts[0] === "audit" ? "audit" : "events")(place) },
  system: { open: later("system") },
};
// All are of one version: no old one meets a new one after an upgrade.
const load_all = () => (window.requestIdleCallback ?? setTimeout)(() => Object.values(LATER).forEach((load) => load().catch(() => {})));

const live = new Live();
const main = document.getElementById("main");
const frame = new Frame(document.getElementById("top"), live, log_out);
let closing = new AbortController();
let turn = 0;

// The parts of the address behind the #.
function parts() {
  const [path] = location.hash.replace(/^#\/?/, "").split("?");
  const found = path.split("/").map((part) => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  return found[0] ? found : ["overview"];
}

const query = () => new URLSearchParams(location.hash.split("?")[1] ?? "");

const show_pages = () => {
  const [here, ...rest] = parts();
  frame.show_pages(VIEWS[here]?.of ?? here, rest);
};

// What a view is given.
function place_of(root, rest, signal) {
  const note = h("p", { class: "notice as-of", role: "status" });
  return { root, live, parts: rest, query: query(), signal,
    // Every so often, and when it is looked at again; not while nobody looks, and not while the last one is on its way. Where it fails it is
    // said since when. Returns what does it at once.
    every(ms, act) {
      let [is_busy, is_asked, good_at] = [false, false, Date.now()];
      const run = async () => {
        if (signal.aborted || is_busy) return;
        is_busy = true;
        try {
          do {
            is_asked = false;
            await act();
          } while (is_asked && !signal.aborted);
          good_at = Date.now();
          note.remove();
        } catch (error) {
          if (!(error instanceof ApiError)) throw error;
          note.textContent = `As of ${clock(good_at)}: ${error.message}`;
          if (!note.isConnected) root.prepend(note);
        } finally { is_busy = false; }
      };
      const look = () => document.hidden || run();
      if (!signal.aborted) {
        const timer = setInterval(look, ms);
        document.addEventListener("visibilitychange", look, { signal });
        signal.addEventListener("abort", () => clearInterval(timer));
      }
      return () => { is_asked = true; return run(); };
    },
    listen(event, act) { live.addEventListener(event, act, { signal }); },
    // The clients that it shows.
    watch(clients) { if (!signal.aborted) live.watch(clients); } };
}

async function open(moved) {
  closing.abort();
  closing = new AbortController();
  const mine = ++turn;
  const [name, ...rest] = parts();
  show_pages();
  const root = h("div", { class: `view ${name}` });
  const place = place_of(root, rest, closing.signal);
  const slow = setTimeout(() => mine === turn && main.replaceChildren(h("p", { class: "quiet" }, "Loading…")), 300);
  try {
    if (!Object.hasOwn(VIEWS, name)) throw new Error("There is no such page.");
    if (!["clients", "client"].includes(name)) live.watch([]);
    await VIEWS[name].open(place);
  } catch (error) {
    if (mine !== turn) return;
    root.replaceChildren(h("h1", {}, "This cannot be shown"), h("p", { class: "notice" }, error.message),
      h("p", { class: "buttons" }, h("button", { onclick: () => open() }, "Try again"), h("a", { class: "button", href: "#/overview" }, "Overview")));
  } finally { clearTimeout(slow); }
  if (mine !== turn) return;
  main.replaceChildren(root);
  scrollTo(0, 0);
  // Who listens, or goes by keys, is where the page is.
  if (moved) main.focus({ preventScroll: true });
  frame.show_state();
  performance.mark("shown");
  load_all();
}

function log_in(problem) {
  live.end();
  closing.abort();
  turn++;
  frame.hide();
  const { form, input } = log_in_form(problem, begin);
  main.replaceChildren(form);
  input.focus();
}

async function log_out() {
  try { await api("DELETE", "/dashboard/session"); } catch { /* Then it ends by itself. */ }
  log_in();
}

function begin() {
  frame.show();
  live.begin();
  open();
}

onSignedOut(() => frame.is_hidden || log_in("The session has ended."));
addEventListener("hashchange", () => frame.is_hidden || open(true));
// It is no page of ours.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
live.addEventListener("snapshot", () => { show_pages(); frame.show_state(); });
live.addEventListener("state", () => frame.show_state());
// A stream that is refused may mean that the session has ended; only an answer tells.
live.addEventListener("lost", () => get("/v1/dashboard", { limit: 0 }).catch(() => {}));
setInterval(() => frame.is_hidden || frame.show_state(), 1000);
listen_to_keys(main);

async function start() {
  try {
    await ask_session();
    if (session.signed_in) begin();
    else log_in();
  } catch (error) {
    main.replaceChildren(h("p", { class: "notice" }, error.message, " ", h("button", { onclick: start }, "Try again")));
  }
}
start();
