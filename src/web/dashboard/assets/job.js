// One job: its times, its payload, its log.

import { h, on, put } from "./dom.js";
import { get, segment } from "./api.js";
import { badge } from "./badge.js";
import { QUEUE_ACTIONS, job_buttons } from "./queue_actions.js";
import { attempts, when } from "./queue.js";
import { client_link } from "./words.js";
import { plain, span, time } from "./format.js";

export async function job({ root, live, parts: [queue, id], every, listen }) {
  const path = `/v1/queues/${segment(queue)}/jobs/${segment(id)}`;
  let shown = await get(path);
  let gone = false;
  const body = h("div", { class: "part" });
  root.append(h("p", { class: "crumbs" }, h("a", { href: "#/queues" }, "Queues"), h("span", {}, "/"), h("a", { href: `#/queues/${segment(queue)}/${shown.state}` }, queue), h("span", {}, "/"), h("bdi", {}, plain(id))), body);
  const show = () => {
    put(body, h("div", { class: "head" }, h("h1", {}, plain(shown.id)), gone ? badge("gone") : badge(shown.state), h("div", { class: "buttons" }, gone ? "" : job_buttons(queue, shown))),
      gone && h("p", { class: "notice" }, "The job is not in the queue any more: it is done, or was removed. This is how it was seen last."),
      h("section", { class: "card" }, h("h2", {}, "Times"), h("ol", { class: "steps" }, steps(shown))),
      h("div", { class: "grid" }, h("section", { class: "card" }, h("h2", {}, "Job"), h("dl", {}, facts(shown, live.now()).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]))),
        shown.reason && h("section", { class: "card" }, h("h2", {}, "Why it failed"), h("pre", { tabindex: "0" }, plain(shown.reason))),
        ["Data", "Result", "Progress"].map((title) => part(shown, title)),
        h("section", { class: "card wide" }, h("h2", {}, "Log"), shown.logs.length ? h("pre", { tabindex: "0" }, plain(shown.logs.join("\n"))) : h("p", { class: "empty" }, "It wrote none."))));
  };
  const again = every(2000, async () => {
    if (gone) return;
    try { shown = await get(path); } catch (error) {
      if (error.status !== 404) throw error;
      gone = true;
    }
    show();
  });
  on(body, "click", "[data-do]", async ({ dataset }) => { if (await QUEUE_ACTIONS[dataset.do](queue, id)) again(); });
  show();
  listen("snapshot", show);
}

// What has been and what is to come, each with how long after the one before.
function steps(job) {
  const marks = [["Added", job.created_ms], ["Due", job.due_ms], [job.state === "delayed" ? "Started last" : "Started", job.started_ms], ["Ended", job.finished_ms]].filter(([, at]) => at)
    .sort(([, one], [, other]) => one - other);
  return marks.map(([name, at], place) => h("li", { class: name === "Due" && job.state === "delayed" ? undefined : "done" }, h("span", {}, name), time(at),
    place > 0 && h("span", {}, `after ${span(at - marks[place - 1][1])}`)));
}

const facts = (job, now) => [["Name", plain(job.name)], ["Attempts", attempts(job)], ["Now", when(job, now)],
  typeof job.data?.client === "string" && ["Client", client_link(job.data.client)], job.options.priority && ["Priority", job.options.priority], job.schedule && ["Schedule", plain(job.schedule)]].filter(Boolean);

function part(job, title) {
  const name = title.toLowerCase();
  const value = job[name];
  if (value === null || value === undefined) return null;
  const cut = job[`${name}_bytes`];
  return h("section", { class: "card" }, h("h2", {}, title), h("pre", { tabindex: "0" }, plain(cut ? value : JSON.stringify(value, null, 2))), cut && h("p", { class: "quiet" }, `Only the beginning of ${cut} bytes.`));
}
