// What happens, as it happens. When nothing is heard for a while the page says that it is old, and asks anew.

import { get } from "./api.js";

const STALE_AFTER = 4000;
// A connection may end without a word, as when the machine has slept.
const SILENT_AFTER = 10_000;
const LONGEST_WAIT = 15_000;
// Browsers have six connections for all pages of a service: one that nobody sees gives its own back, and only asks for the number in its title.
const UNSEEN_AFTER = 15_000;
const UNSEEN_EVERY = 20_000;
// Bytes of an address that every proxy takes.
const ADDRESS = 6000;

export class Live extends EventTarget {
  #source;
  #wait = 500;
  #retry;
  #turn;
  #query = "";
  #heard = 0;
  // Silence counts from here: nothing could be heard before.
  #woken = 0;
  #begun = 0;
  #hidden = 0;
  // Ours minus the service's clock.
  #skew = 0;
  state = "ended";
  snapshot;
  // Why there is no stream, when the service said so.
  why;

  constructor() {
    super();
    setInterval(() => this.#look(), 500);
    addEventListener("online", () => this.#wake());
    document.addEventListener("visibilitychange", () => { this.#hidden = Date.now(); this.#wake(); });
  }

  begin() {
    this.#woken = Date.now();
    this.state = "connecting";
    this.#start();
  }

  end() {
    this.#stop();
    this.#is("ended");
  }

  // The clients that are on the screen: it is told when they change.
  watch(clients) {
    let query = "";
    for (const client of clients.slice(0, 100)) {
      const more = `${query}${query ? "&" : "?"}client=${encodeURIComponent(client)}`;
      if (more.length < ADDRESS) query = more;
    }
    clearTimeout(this.#turn);
    if (query === this.#query) return;
    this.#turn = setTimeout(() => {
      this.#query = query;
      if (this.#source) this.#start();
    }, 300);
  }

  #start() {
    this.#stop();
    this.#begun = Date.now();
    const source = new EventSource(`/v1/stream${this.#query}`);
    this.#source = source;
    source.addEventListener("snapshot", (event) => {
      const is_back = this.snapshot && this.state !== "live" && this.state !== "stale";
      this.#take(JSON.parse(event.data));
      this.#wait = 500;
      this.why = undefined;
      this.#is("live");
      if (is_back) this.dispatchEvent(new Event("again"));
    });
    source.addEventListener("clients", (event) => this.dispatchEvent(new CustomEvent("clients", { detail: JSON.parse(event.data) })));
    source.addEventListener("stopping", () => this.#again());
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED) this.#ask_why();
      this.#again();
    });
  }

  #stop() {
    clearTimeout(this.#retry);
    this.#source?.close();
    this.#source = undefined;
  }

  // Our own reconnecting: the browser's gives up for good on an answer that is no stream.
  #again() {
    if (!this.#source) return;
    this.#stop();
    this.#is("lost");
    this.dispatchEvent(new Event("lost"));
    this.#retry = setTimeout(() => this.state === "lost" && this.#start(), this.#wait * (0.75 + Math.random() / 2));
    this.#wait = Math.min(this.#wait * 2, LONGEST_WAIT);
  }

  // An answer that is no stream says why, but not to an EventSource.
  async #ask_why() {
    const enough = new AbortController();
    try {
      const answer = await fetch("/v1/stream", { signal: enough.signal });
      this.why = answer.ok ? undefined : (await answer.json()).detail;
    } catch {
      this.why = undefined;
    }
    enough.abort();
  }

  #look() {
    const now = Date.now();
    if (this.state === "ended") return;
    if (document.hidden) {
      if (now - this.#hidden < UNSEEN_AFTER) return;
      this.#stop();
      this.#is("unseen");
      if (now - this.#begun > UNSEEN_EVERY) this.#ask_once();
      return;
    }
    const silent = now - Math.max(this.#heard, this.#begun);
    if (silent > SILENT_AFTER) this.#again();
    else if (silent > STALE_AFTER && this.state === "live") this.#is("stale");
  }

  async #ask_once() {
    this.#begun = Date.now();
    try {
      const found = await get("/v1/dashboard", { limit: 0 });
      if (this.state === "unseen") this.#take(found);
    } catch { /* Whoever looks again is told. */ }
  }

  // Somebody looks again, or there is a network again.
  #wake() {
    if (document.hidden || this.state === "ended" || (this.state === "live" && Date.now() - this.#heard < STALE_AFTER)) return;
    if (this.state === "unseen") this.#woken = Date.now();
    this.#wait = 500;
    this.#is("connecting");
    this.#start();
  }

  #take(snapshot) {
    this.snapshot = snapshot;
    this.#heard = Date.now();
    this.#skew = this.#heard - snapshot.overview.at_ms;
    this.dispatchEvent(new Event("snapshot"));
  }

  #is(state) {
    if (this.state === state) return;
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }

  // The time by the service's clock.
  now() {
    return Date.now() - this.#skew;
  }

  // For how long nothing was heard, milliseconds; 0: it is as it should be.
  get silence() {
    return ["live", "ended", "unseen"].includes(this.state) ? 0 : Date.now() - Math.max(this.#heard, this.#woken);
  }
}
