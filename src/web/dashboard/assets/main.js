// Which page is shown, and what it is given.

import { h } from "./dom.js";
import { api, get, onSignedOut } from "./api.js";
import { Frame } from "./frame.js";
import { Live } from "./live.js";
import { listen_to_keys } from "./keys.js";
import { ask_session, log_in_form, session } from "./session.js";
import { overview } from "./overview.js";

// What is not on the first page comes when it is opened.
const VIEWS = {
  overview: { open: overview },
  clients: { open: async (place) => (await import("./clients.js")).clients(place) },
  client: { of: "clients", open: async (place) => (await import("./client.js")).client(place) },
  stash: { of: "clients", open: async (place) => (await import("./stash.js")).stash(place) },
  queues: { open: async (place) => (place.parts.length ? (await import("./queue.js")).queue(place) : (await import("./queues.js")).queues(place)) },
  job: { of: "queues", open: async (place) => (await import("./job.js")).job(place) },
  actors: { open: async (place) => (await import("./actors.js")).actors(place) },
  dead: { open: async (place) => (await import("./dead.js")).dead(place) },
  events: { open: async (place) => (place.parts[0] === "audit" ? (await import("./audit.js")).audit(place) : (await import("./events.js")).events(place)) },
  system: { open: async (place) => (await import("./system.js")).system(place) },
};

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
  const [here] = parts();
  frame.show_pages(VIEWS[here]?.of ?? here);
};

async function open() {
  closing.abort();
  closing = new AbortController();
  const mine = ++turn;
  const [name, ...rest] = parts();
  show_pages();
  const root = h("div", { class: `view ${name}` });
  const { signal } = closing;
  const place = { root, live, parts: rest, query: query(), signal,
    // Every so often, and when it is looked at again; not while nobody looks, and not while the last one is on its way.
    every(ms, act) {
      let busy = false;
      const run = async () => {
        if (document.hidden || busy) return;
        busy = true;
        try { await act(); } finally { busy = false; }
      };
      const timer = setInterval(run, ms);
      document.addEventListener("visibilitychange", run, { signal });
      signal.addEventListener("abort", () => clearInterval(timer));
    },
    listen(event, act) { live.addEventListener(event, act, { signal }); } };
  try {
    if (!Object.hasOwn(VIEWS, name)) throw new Error("There is no such page.");
    await VIEWS[name].open(place);
  } catch (error) {
    if (mine !== turn) return;
    root.replaceChildren(h("h1", {}, "This cannot be shown"), h("p", { class: "notice" }, error.message),
      h("p", { class: "buttons" }, h("button", { onclick: open }, "Try again"), h("a", { class: "button", href: "#/overview" }, "Overview")));
  }
  if (mine !== turn) return;
  main.replaceChildren(root);
  scrollTo(0, 0);
  performance.mark("shown");
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
addEventListener("hashchange", () => frame.is_hidden || open());
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
