// How large the page is, and how soon it is seen.

import assert from "node:assert/strict";
import { SOON, browser, url, wish } from "./page.js";

const LARGEST = 150_000;
const LATEST = 200;
// How long a browser takes for a page of one word where nothing else is done. Where it takes longer, others keep the machine busy, and we
// may take longer alike.
const BARE = 40;

export async function has_a_small_page_soon(page) {
  const storageState = await page.context().storageState();
  const [painted, bare, shown] = [[], [], []];
  for (let time = 0; time < 5; time += 1) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, storageState });
    const fresh = await context.newPage();
    const paint = () => fresh.waitForFunction(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime, undefined, SOON).then((found) => found.jsonValue());
    await fresh.goto(`${url}/livez`);
    bare.push(await paint());
    await fresh.goto(`${url}/dashboard`);
    painted.push(await paint());
    await fresh.locator("main .view .tile").first().waitFor(SOON);
    shown.push(await fresh.evaluate(() => performance.getEntriesByName("shown")[0].startTime));
    await context.close();
  }
  // Every file, whether this page needs it or not.
  const sizes = await page.evaluate(async () => {
    const sizes = {};
    const queue = ["/dashboard"];
    while (queue.length) {
      const path = queue.shift();
      if (sizes[path] !== undefined) continue;
      const text = await (await fetch(path)).text();
      sizes[path] = new TextEncoder().encode(text).length;
      for (const [, name] of text.matchAll(/["'(](?:\.|\/dashboard)\/([a-z_]+\.(?:js|css|svg))["')]/g)) queue.push(`/dashboard/${name}`);
    }
    return sizes;
  });
  const whole = Object.values(sizes).reduce((sum, size) => sum + size, 0);
  const median = (times) => times.sort((one, other) => one - other)[2];
  await wish(`it is ${whole} bytes in ${Object.keys(sizes).length} files; first paint ${median(painted).toFixed(0)} ms, figures ${median(shown).toFixed(0)} ms, a bare page ${median(bare).toFixed(0)} ms (medians of 5)`);
  assert.ok(Object.keys(sizes).length > 25 && whole < LARGEST, JSON.stringify(sizes));
  assert.ok(median(painted) < LATEST * Math.max(1, median(bare) / BARE), `painted after ${painted}, a bare page after ${bare}`);
}
