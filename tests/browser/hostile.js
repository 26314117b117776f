// Ids and answers that are no friends of a page.

import assert from "node:assert/strict";
import { SOON, go, wish } from "./page.js";

const MARKUP = "<img src=x onerror=alert(1)>";
const TURNED = "safe\u202Eexe.live";
// As long as the API takes; one of the platform's configs may be longer.
const LONG = "x".repeat(512);
const LONGER = "y".repeat(3072);

const fits = async (page, what) => {
  const sideways = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(sideways <= 0, `${what} makes the page ${sideways} pixels too wide`);
};

export async function reads_hostile_text(page) {
  await wish("hostile clients");
  for (const [id, shown] of [[MARKUP, MARKUP], [TURNED, "safe\\u202eexe.live"], [LONG, LONG]]) {
    await go(page, `clients?filter=${encodeURIComponent(id.slice(0, 60))}`);
    const link = page.getByRole("link", { name: shown, exact: true });
    await link.waitFor(SOON);
    await fits(page, `${id.slice(0, 20)} in the list`);
    await link.click();
    await page.getByRole("heading", { name: shown, exact: true }).waitFor(SOON);
    await fits(page, id.slice(0, 20));
  }
  assert.equal(await page.locator("main img, main script, main b").count(), 0, "nothing became an element");
}

export async function reads_very_long_text(page) {
  await page.route("**/v1/dashboard?*", async (route) => {
    const answer = await (await route.fetch()).json();
    Object.assign(answer.clients.rows[0], { client: LONGER, reason: MARKUP.repeat(30) });
    await route.fulfill({ json: answer });
  });
  for (const width of [1280, 390]) {
    await page.setViewportSize({ width, height: 860 });
    await go(page, `clients?sort=client&at=${width}`);
    const row = page.locator(`tr[data-key="${LONGER}"]`);
    await row.waitFor(SOON);
    await fits(page, "3 KB of id");
    const height = await row.evaluate((shown) => shown.getBoundingClientRect().height);
    assert.ok(height < 500, "one row does not fill the screen");
    await row.getByText("3072 characters").waitFor(SOON);
    assert.equal(await row.getByRole("link").count(), 0, "the API takes no id so long: it has no page");
  }
  await page.unroute("**/v1/dashboard?*");
  await page.setViewportSize({ width: 1280, height: 860 });
}
