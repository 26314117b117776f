// Ids and answers that are no friends of a page.

import assert from "node:assert/strict";
import { SOON, go, wish } from "./page.js";

const MARKUP = "<img src=x onerror=alert(1)>";
const TURNED = "safe\u202Eexe.live";
const LONG = "x".repeat(3000);

export async function stay_text(page) {
  await wish("hostile clients");
  for (const [id, shown] of [[MARKUP, MARKUP], [TURNED, "safe\\u202eexe.live"], [LONG, LONG]]) {
    await go(page, `clients?filter=${encodeURIComponent(id.slice(0, 60))}`);
    const link = page.getByRole("link", { name: shown, exact: true });
    await link.waitFor(SOON);
    await link.click();
    await page.getByRole("heading", { name: shown, exact: true }).waitFor(SOON);
    const sideways = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(sideways <= 0, `${id.slice(0, 20)} makes the page ${sideways} pixels too wide`);
  }
  assert.equal(await page.locator("main img, main script, main b").count(), 0, "nothing became an element");
}
