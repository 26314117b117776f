// A list that somebody may be reading: what is new waits, and says so, until it is asked for or nobody has moved for a minute.

import { h } from "./dom.js";
import { say } from "./dialog.js";

const IDLE = 60_000;
// What stands above a list, in pixels.
const TOP = 150;
let moved_at = performance.now();
for (const event of ["pointermove", "pointerdown", "keydown", "wheel", "scroll", "touchmove"]) addEventListener(event, () => { moved_at = performance.now(); }, { passive: true });

// Who has not moved for so long does not read a certain row.
export const is_idle = () => performance.now() - moved_at > IDLE;

export class List {
  rows;
  next;
  #held;
  #is_long = false;
  #how;

  // `key(row)`; `node`: what is read; `reads()`: whether it is, if that is not seen from it; `show()`: it is another; `text(number)`: what the button says, of how many new rows.
  constructor(first, how) {
    this.#how = how;
    this.#set(first);
  }

  #set({ rows, next }) {
    [this.rows, this.next, this.#held, this.#is_long] = [rows, next, undefined, false];
  }

  // Somebody points at it, or is in it, or has gone down in it.
  #is_read() {
    const { node, reads } = this.#how;
    if (reads) return reads();
    const is_down = scrollY > 60;
    return (this.#is_long && is_down) || (!is_idle() && (is_down || node.matches(":hover") || node.contains(document.activeElement)));
  }

  // The first page as it is now.
  offer(found) {
    const { key } = this.#how;
    const shown = this.#is_long ? this.rows.slice(0, found.rows.length) : this.rows;
    const stays = shown.every((row, at) => at < found.rows.length && key(row) === key(found.rows[at]));
    if (this.#is_long ? !stays && !this.#is_read() : stays || !this.#is_read()) this.#set(found);
    else {
      this.update(found.rows);
      this.#held = stays ? undefined : found;
    }
    this.#how.show();
  }

  // Rows that are known stay where they are, and are as they are now.
  update(rows) {
    const { key } = this.#how;
    const now = new Map(rows.map((row) => [key(row), row]));
    this.rows = this.rows.map((row) => now.get(key(row)) ?? row);
  }

  remove(is_it) {
    this.rows = this.rows.filter((row) => !is_it(row));
    this.#how.show();
  }

  // The next page, below.
  async more(ask) {
    try {
      const { rows, next } = await ask(this.next);
      [this.rows, this.next, this.#is_long] = [[...this.rows, ...rows], next, true];
      this.#how.show();
    } catch (error) { say(error.message, "bad"); }
  }

  // Shows what waits; nothing when nothing does.
  button() {
    if (!this.#held) return null;
    const known = new Set(this.rows.map(this.#how.key));
    const number = this.#held.rows.filter((row) => !known.has(this.#how.key(row))).length;
    const text = this.#how.text?.(number) ?? (number ? `${number}${number === this.#held.rows.length && this.#held.next !== null ? "+" : ""} new: show` : "Changed: show");
    return h("button", { class: "news", onclick: () => {
      this.#set(this.#held);
      const { top } = this.#how.node.getBoundingClientRect();
      if (top < TOP) scrollBy(0, top - TOP);
      this.#how.show();
    } }, text);
  }
}
