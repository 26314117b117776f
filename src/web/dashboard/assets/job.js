// One job: its times, its payload, its log.

import { h, on, put } from "./dom.js";
import { get, segment } from "./api.js";
import { badge } from "./chart.js";
import { ACTIONS, attempts, job_actions, when } from "./queues.js";
import { span, time } from "./format.js";

export async function job({ root, live, parts: [queue, id], every }) {
  const path = `/v1/queues/${segment(queue)}/jobs/${segment(id)}`;
  let shown = await get(path);
  let gone = false;
  const body = h("div", {});
  root.append(h("p", { class: "crumbs" }, h("a", { href: "#/queues" }, "Queues"), " / ", h("a", { href: `#/queues/${segment(queue)}/${shown.state}` }, queue), " / ", id), body);
  const show = () => {
    const lasted = shown.finished_ms && shown.started_ms && span(shown.finished_ms - shown.started_ms);
    put(body, h("div", { class: "head" }, h("h1", {}, shown.id), badge(gone ? "stopped" : shown.state, gone ? "gone" : shown.state), h("div", { class: "buttons" }, gone ? "" : job_actions(queue, shown))),
      gone && h("p", { class: "notice" }, "The job is not in the queue any more: it is done, or was removed. This is how it was seen last."),
      h("div", { class: "grid" }, h("section", { class: "card" }, h("h2", {}, "Job"), h("dl", {}, [
        ["Name", shown.name], ["Attempts", attempts(shown)], ["Now", when(shown, live.now())], ["Added", time(shown.created_ms)],
        ["Due", time(shown.due_ms)], ["Started", time(shown.started_ms)], ["Ended", lasted ? `${time(shown.finished_ms)}, after ${lasted}` : time(shown.finished_ms)],
        ["Priority", shown.options.priority ?? "–"], ["Schedule", shown.schedule ?? "–"]].map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]))),
      shown.reason && h("section", { class: "card" }, h("h2", {}, "Why it failed"), h("pre", { tabindex: "0" }, shown.reason)),
      part("Data"), part("Result"), part("Progress"),
      h("section", { class: "card wide" }, h("h2", {}, "Log"), shown.logs.length ? h("pre", { tabindex: "0" }, shown.logs.join("\n")) : h("p", { class: "empty" }, "It wrote none."))));
  };
  const part = (title) => {
    const name = title.toLowerCase();
    const value = shown[name];
    if (value === null || value === undefined) return null;
    const cut = shown[`${name}_bytes`];
    return h("section", { class: "card" }, h("h2", {}, title), h("pre", { tabindex: "0" }, cut ? value : JSON.stringify(value, null, 2)), cut && h("p", { class: "quiet" }, `Only the beginning of ${cut} bytes.`));
  };
  const again = async () => {
    if (gone) return;
    try { shown = await get(path); } catch (error) { if (error.status === 404) gone = true; else return; }
    show();
  };
  on(body, "click", "[data-act]", async (button) => { if (await ACTIONS[button.dataset.act](queue, id)) again(); });
  show();
  every(2000, again);
}
