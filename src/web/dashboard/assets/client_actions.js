// What can be done with a client.

import { act } from "./dialog.js";
import { segment } from "./api.js";
import { deed } from "./session.js";
import { count, plain } from "./format.js";

// The buttons for a client as it is now; the service decides by what it is then.
export function client_buttons(view, stored, can_resync) {
  const has_config = stored?.config && !stored.config.deleted;
  const is_active = has_config && stored.config.status === "ACTIVE";
  return [
    (view?.dead ?? 0) > 0 && deed("replay", `Replay ${count(view.dead)} dead`),
    (view?.dead ?? 0) > 0 && deed("purge", "Delete dead", { class: "danger" }),
    has_config && deed("retry", "Try now"),
    has_config && can_resync && deed("resync", "Resync"),
    view?.actor && deed("restart", "Restart actor"),
    has_config && (stored.paused ? deed("resume", "Resume", { class: "strong" }) : deed("pause", "Pause")),
    has_config && (is_active ? deed("disable", "Disable", { class: "danger" }) : deed("enable", "Enable", { class: "strong" })),
  ];
}

// What is more is a job's work.
const AT_ONCE = 100;
const refusals = (refused) => Object.entries(refused ?? {}).map(([reason, number]) => `, ${number} refused: ${reason.replaceAll("_", " ")}`).join("");

export const CLIENT_ACTIONS = {
  retry: (id, path) => act({ path: `${path}/retry`, done: `${plain(id)} is tried now` }),
  pause: (id, path) => act({ question: { title: `Pause ${plain(id)}?`, text: "Its changes wait in the stash until it is resumed. Requests on the wire end.", button: "Pause", reason: true },
    path: `${path}/pause`, body: {}, done: `${plain(id)} is paused` }),
  resume: (id, path) => act({ path: `${path}/resume`, done: `${plain(id)} goes on` }),
  disable: (id, path) => act({ question: { title: `Disable ${plain(id)}?`, danger: true, button: "Disable",
    text: ["New changes are skipped, not kept: the client needs a resync afterwards.", "What waits already stays. To keep new changes, pause it instead."] },
    method: "PUT", path, body: { status: "INACTIVE" }, done: `${plain(id)} is disabled` }),
  enable: (id, path) => act({ method: "PUT", path, body: { status: "ACTIVE" }, done: `${plain(id)} is enabled` }),
  restart: (id) => restart("delivery", id),
  replay: (id, path, view) => ((view?.dead ?? 0) > AT_ONCE ? act({ question: { title: `Replay all ${count(view.dead)} dead letters of ${plain(id)}?`, button: "Replay",
    text: "A job sends again those that no newer change has replaced, the oldest first. How far it is stands in the client's state." }, path: `${path}/replay`, body: { again: true },
    done: ({ job }) => `the replay is ${job.state}` }) :
    act({ question: { title: `Replay the dead letters of ${plain(id)}?`, button: "Replay", text: "Those that no newer change has replaced are sent again, the oldest first." }, path: `${path}/dead-letters/replay`, body: {},
      done: (answer) => `${answer.replayed} replayed${answer.next ? ", there are more" : ""}${refusals(answer.refused)}` })),
  resync: (id, path) => act({ question: { title: `Resync ${plain(id)}?`, button: "Resync",
    text: ["Every document that it may see is sent to it, as MongoDB has it now. A job does it; that may take long."] },
    path: `${path}/resync`, body: { again: true }, done: ({ job }) => `the resync is ${job.state}` }),
  purge: (id, path) => act({ question: { title: `Delete the dead letters of ${plain(id)}?`, danger: true, button: "Delete", text: "Their payloads are gone then, and can never be sent; at most 1,000 at a time." },
    path: `${path}/purge`, body: { state: "dead", limit: 1000 }, done: ({ purged, more }) => `${purged} deleted${more ? ", there are more" : ""}` }),
};

// An actor begins anew.
export const restart = (kind, id, replica) => act({ question: { title: `Restart ${kind} ${plain(id)}?`, button: "Restart",
  text: kind === "delivery" ? "Requests on the wire end, and their changes are sent again: the webhook may get some twice. Nothing is lost." : "It begins anew with its mailbox. Nothing is lost." },
  path: `/v1/actors/${segment(kind)}/${segment(id || "-")}/restart${replica && kind !== "delivery" ? `?replica=${segment(replica)}` : ""}`, done: `${kind} ${plain(id)} begins anew` });
