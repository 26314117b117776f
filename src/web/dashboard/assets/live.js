// What happens, as it happens. When nothing is heard for a while the page says that it is old.

const STALE_AFTER = 4000;
const LONGEST_WAIT = 15000;

export class Live extends EventTarget {
  #source;
  #wait = 500;
  #timer;
  #heard = 0;
  // Ours minus the service's clock.
  #skew = 0;
  state = "connecting";
  snapshot;

  start() {
    this.stop();
    const source = new EventSource("/v1/stream");
    this.#source = source;
    source.addEventListener("snapshot", (event) => {
      this.snapshot = JSON.parse(event.data);
      this.#heard = Date.now();
      this.#skew = Date.now() - this.snapshot.overview.at_ms;
      this.#wait = 500;
      this.#is("live");
      this.dispatchEvent(new Event("snapshot"));
    });
    source.addEventListener("clients", (event) => {
      this.dispatchEvent(new CustomEvent("clients", { detail: JSON.parse(event.data) }));
    });
    source.addEventListener("stopping", () => this.#again());
    source.addEventListener("error", () => this.#again());
    this.#timer ??= setInterval(() => {
      if (Date.now() - this.#heard > STALE_AFTER && this.state === "live") this.#is("stale");
    }, 500);
  }

  stop() {
    this.#source?.close();
    this.#source = undefined;
  }

  // Our own reconnecting: the browser's gives up for good on an answer that is no stream.
  #again() {
    if (!this.#source) return;
    this.stop();
    this.#is("lost");
    this.dispatchEvent(new Event("lost"));
    setTimeout(() => this.#source || this.state === "ended" || this.start(), this.#wait * (0.75 + Math.random() / 2));
    this.#wait = Math.min(this.#wait * 2, LONGEST_WAIT);
  }

  end() {
    this.stop();
    this.#is("ended");
  }

  begin() {
    this.state = "connecting";
    this.start();
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

  // When something was heard last, by our clock; 0: never.
  get heard() {
    return this.#heard;
  }
}
