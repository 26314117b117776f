// What is not as it should be, in all: the sentence at the top, the list below it and the number in the title say the same.

import { badge } from "./badge.js";
import { count, plain, plural, span } from "./format.js";

// A replica tells of itself each second.
export const SILENT = 5000;
// What waits longer to be routed or delivered is behind.
const BEHIND = 60_000;

// Groups: how many, how that is said, and a row for each.
export function troubles({ service, overview: all }, now) {
  const { clients, actors, lag } = all;
  const row = (what, word, why, ms) => ({ key: `${what} ${word}`, what, state: badge(word), why: plain(why ?? ""), since: ms === undefined ? undefined : span(ms) });
  const late = [["To route", lag.source_oldest_ms, lag.source], ["To deliver", lag.transfer_oldest_ms, lag.transfer]].filter(([, oldest]) => oldest && now - oldest > BEHIND);
  const away = (stores) => stores.filter((store) => !store.healthy);
  const groups = [
    { said: (number) => `${plural(number, "store")} down`, rows: away(all.dependencies).map((store) => row(store.name, "down", store.error, now - store.since_ms)) },
    { said: () => `not ready: ${service.missing}`, rows: service.ready ? [] : [row("This replica", "down", service.missing)] },
    { said: (number) => `${count(number)} of ${plural(clients.total, "client")} ${number === 1 ? "needs" : "need"} attention`, number: clients.problems, rows: [] },
    { said: (number) => `${plural(number, "actor")} broken`, number: actors.restarting + actors.failed, rows: [] },
    { said: () => `behind by ${span(now - Math.min(...late.map(([, oldest]) => oldest)))}`, rows: late.map(([what, oldest, number]) => row(what, "late", `${count(number)} records wait longer than a minute`, now - oldest)) },
    { said: (number) => `${plural(number, "replica")} in trouble`, rows: all.replicas.filter((one) => !one.here).flatMap((one) => {
      if (one.age_ms > SILENT) return [row(one.name, "silent", "A replica that tells nothing of itself", one.age_ms)];
      const without = away(one.dependencies).map(({ name }) => name);
      return without.length ? [row(one.name, "down", `It is without ${without.join(", ")}`)] : [];
    }) },
    { said: (number) => `${plural(number, "replica")} not readable`, rows: all.unread_replicas.map((one) => row(one.name, "unread", one.why)) },
    { said: () => "the other replicas are not seen", rows: all.others_unseen ? [row("Other replicas", "unseen", all.others_unseen)] : [] },
    { said: (number) => `nobody does ${plural(number, "role")}`, rows: (all.unattended_roles ?? []).map((role) => row(role, "unattended", "No replica has this role: its work is not done")) },
    { said: () => "some numbers are old", rows: all.late.map((what) => row(what, "late", "It did not answer in time: its numbers are as they were", now - all.gathered_at_ms)) },
  ];
  return groups.map(({ said, rows, number = rows.length }) => ({ number, rows, text: said(number) })).filter(({ number }) => number > 0);
}

export const number_of = (groups) => groups.reduce((sum, { number }) => sum + number, 0);
