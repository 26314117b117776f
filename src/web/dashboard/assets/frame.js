// What stands around every page: the pages, whether what is shown is fresh, who is signed in.

import { h, put, svg } from "./dom.js";
import { badge } from "./badge.js";
import { clock, count, plain, span } from "./format.js";
import { help } from "./keys.js";
import { may_act, session } from "./session.js";
import { theme_button } from "./theme.js";
import { number_of, troubles } from "./verdict.js";

const PAGES = [
  { name: "overview", title: "Overview", icon: "M3 10l7-6 7 6v7h-5v-5H8v5H3Z" },
  { name: "clients", title: "Clients", icon: "M3 5h14M3 10h14M3 15h14", of: (all) => [all.clients.total] },
  { name: "queues", title: "Queues", icon: "M3 4h14v4H3ZM3 12h14v4H3Z", of: (all) => [sum(all.queues, "failed"), "bad"] },
  { name: "actors", title: "Actors", icon: "M10 3v5M10 8H4v5M10 8h6v5M2 13h4v4H2ZM14 13h4v4h-4ZM8 3h4", of: (all) => [all.actors.restarting + all.actors.failed, "bad"] },
  { name: "dead", title: "Dead letters", short: "Dead", icon: "M3 5h14v11H3ZM3 5l7 6 7-6", of: (all) => [all.stash.dead, "bad"] },
  { name: "events", title: "Events", icon: "M10 3a7 7 0 1 0 0 14a7 7 0 1 0 0-14ZM10 6v4l3 2" },
  { name: "system", title: "System", icon: "M3 4h14v8H3ZM10 12v4M6 16h8" },
];
const sum = (queues, state) => queues.reduce((total, queue) => total + (queue.counts[state] ?? 0), 0);

export class Frame {
  #live;
  #title = "";
  #version;
  #nav = h("nav", { class: "pages", "aria-label": "Pages" });
  #state = h("span", { role: "status" });
  #clock = h("span", { class: "quiet clock" });
  #who = h("span", { class: "quiet who" });
  #out;
  #update = h("button", { class: "news", hidden: true, onclick: () => location.reload() }, "New version: reload");
  #banner = h("p", { class: "banner", hidden: true, role: "alert" });

  constructor(top, live, log_out) {
    this.#live = live;
    this.#out = h("button", { class: "plain", onclick: log_out }, "Log out");
    top.querySelector(".bar").append(this.#nav, h("div", { class: "ends" }, this.#update, this.#state, this.#clock, this.#who,
      h("button", { class: "plain by-key", title: "Keys and states (?)", "aria-label": "Help", onclick: help }, "?"), theme_button(), this.#out));
    document.body.append(this.#banner);
    this.hide();
  }

  // Nothing is known of who asks.
  hide() {
    this.#nav.hidden = true;
    this.#banner.hidden = true;
    put(this.#state);
    put(this.#clock);
    put(this.#who);
    this.#out.hidden = true;
    document.body.classList.remove("stale");
  }

  get is_hidden() {
    return this.#nav.hidden;
  }

  show() {
    this.#nav.hidden = false;
    this.#out.hidden = !session.needs_token;
    const name = session.needs_token && session.name ? plain(session.name) : "";
    put(this.#who, name && [h("span", { title: name }, name), may_act() ? "" : " (viewer)"]);
  }

  show_pages(active, more = []) {
    this.#title = [...more.map((part) => plain(part).slice(0, 60)).reverse(), PAGES.find(({ name }) => name === active)?.title].filter(Boolean).join(" · ");
    const all = this.#live.snapshot?.overview;
    put(this.#nav, PAGES.map((page) => {
      const [number, kind] = (all && page.of?.(all)) ?? [];
      return h("a", { href: `#/${page.name}`, "aria-current": page.name === active && "page" },
        svg("svg", { viewBox: "0 0 20 20", "aria-hidden": "true" }, svg("path", { d: page.icon })), h("span", { "data-short": page.short }, page.title),
        number ? h("span", { class: `number ${kind ?? ""}` }, count(number)) : null);
    }));
  }

  show_state() {
    const { state, snapshot, silence, why } = this.#live;
    const is_connecting = state === "connecting" || state === "unseen";
    put(this.#state, state === "live" ? badge("live") : badge(is_connecting ? "connecting" : "lost", is_connecting ? "connecting" : "stale"));
    put(this.#clock, snapshot && h("span", { class: "mode" }, `${snapshot.service.mode} · `), snapshot && clock(snapshot.overview.at_ms));
    const is_old = silence > 1500;
    this.#banner.hidden = !is_old;
    // Its seconds are not read out, each anew.
    if (is_old) put(this.#banner, "No news from the service", h("span", { "aria-hidden": "true" }, ` for ${span(silence)}`), why ? `: ${plain(why)}.` : ".", " What is shown is that old; trying again.");
    document.body.classList.toggle("stale", is_old);
    this.#version ??= snapshot?.service.version;
    this.#update.hidden = !snapshot || snapshot.service.version === this.#version;
    const problems = snapshot ? number_of(troubles(snapshot, this.#live.now())) : 0;
    document.title = `${is_old ? "(stale) " : problems ? `(${problems}) ` : ""}${this.#title ? `${this.#title} · ` : ""}dispatcher`;
  }
}
