// Who may look, and no more: sees everything, is shown nothing that acts, and is refused if he tries.

import assert from "node:assert/strict";
import { SOON, VIEWER, audit, go, log_in, open, token, wish } from "./page.js";

const ACTS = ["Pause", "Resume", "Disable", "Enable", "Try now", "Restart", "Restart actor", "Replay", "Delete", "Delete dead", "Payload", "Promote", "Remove", "Read again"];

export async function as_a_viewer_cannot_act() {
  const page = await open({});
  await log_in(page, VIEWER);
  await page.getByText("wall (viewer)").waitFor(SOON);
  await wish("changes");
  for (const place of ["overview", "clients", "client/acme", "stash/acme", "queues", "queues/dispatcher", "queues/dispatcher-schedule/delayed", "actors", "dead", "dead/source", "events", "events/audit", "system"]) {
    await go(page, place);
    assert.equal(await page.locator("[data-do]").count(), 0, place);
    for (const name of ACTS) assert.equal(await page.locator("main").getByRole("button", { name, exact: true }).count(), 0, `${name} on ${place}`);
  }
  await audit(page, "system, to a viewer");
  await page.setViewportSize({ width: 390, height: 844 });
  const [inside, whole] = await page.locator("#top .bar").evaluate((bar) => [bar.clientWidth, bar.scrollWidth]);
  assert.ok(whole <= inside, `who is signed in makes the top ${whole - inside} pixels too wide`);
  await page.setViewportSize({ width: 1280, height: 860 });
  const refused = await page.evaluate(() => Promise.all([["POST", "/v1/clients/acme/pause"], ["DELETE", "/v1/clients/acme"], ["POST", "/v1/actors/delivery/acme/restart"]].map(async ([method, path]) =>
    (await fetch(path, { method, headers: { "x-dispatcher-action": "dashboard", "content-type": "application/json" }, body: "{}" })).status)));
  assert.deepEqual(refused, [403, 403, 403]);
  await page.context().close();
}

export async function finds_it_written_down(page) {
  await go(page, "events/audit");
  for (const [who, outcome] of [["admin", "done"], ["wall", "refused"]]) {
    const row = page.getByRole("row", { name: new RegExp(`${who} restart actor`) }).first();
    await row.getByText("delivery / acme").waitFor(SOON);
    await row.getByText(outcome).waitFor(SOON);
  }
  assert.ok(!(await page.content()).includes(token), "no token is shown");
}
