// The pictures of docs/, from a running service that has something to show: node tests/browser/screenshots.js URL [TOKEN [CLIENT]].
// Not a test.

import { browser, go, log_in, open, token, url } from "./page.js";

const client = process.argv[4] ?? "flaky";
const PICTURES = [["overview", "overview", "light", 1280, 860], ["clients", "clients", "dark", 1280, 360], ["client", `client/${client}`, "light", 1280, 860], ["phone", "overview", "dark", 390, 844]];

for (const [name, place, colorScheme, width, height] of PICTURES) {
  const page = await open({ colorScheme, viewport: { width, height } });
  if (token) await log_in(page, token);
  await go(page, place);
  await page.getByRole("status").getByText("live").waitFor();
  await page.screenshot({ path: new URL(`../../docs/dashboard-${name}.png`, import.meta.url).pathname });
  await page.context().close();
}
await browser.close();
process.stdin.destroy();
