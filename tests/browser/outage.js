// The service goes away and comes back: said, and lived through without a reload.

import assert from "node:assert/strict";
import { SOON, go, wish } from "./page.js";

export async function outlives_the_service(page) {
  await go(page, "overview");
  await page.evaluate(() => { window.never_reloaded = true; });
  await wish("kill");
  await page.getByText("No news from the service").waitFor(SOON);
  await page.getByRole("status").getByText("stale").waitFor(SOON);
  assert.match(await page.title(), /^\(stale\)/);
  await wish("start");
  await page.getByRole("status").getByText("live").waitFor(SOON);
  await page.getByText("No news from the service").waitFor({ state: "hidden", ...SOON });
  assert.ok(await page.evaluate(() => window.never_reloaded));
}
