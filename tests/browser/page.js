// What all parts have in hand: the browser, the wishes to whoever started us, and how one looks at a page.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(new URL("../../target/services/browser/package.json", import.meta.url));
const { chromium } = require("playwright-core");
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const [url, token] = process.argv.slice(2);
export const SOON = { timeout: 30_000 };
export const VIEWER = "look-only";

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

// A line of output is a wish, answered by a line of input.
export async function wish(text) {
  process.stdout.write(`${text}\n`);
  await answers.next();
}

export const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync"] });

// What no page may ever do; looked at in the end.
export const problems = [];

export async function open(options) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
  // The only way around the page's policy is the debugger's: what axe needs.
  await context.addInitScript(AXE);
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
  page.on("console", (message) => message.text().includes("Content Security Policy") && problems.push(message.text()));
  page.on("dialog", (dialog) => problems.push(`a dialog that is not ours: ${dialog.message()}`));
  return page;
}

export async function log_in(page, secret) {
  await page.goto(`${url}/dashboard`);
  await page.getByLabel("Token").fill(secret);
  await page.keyboard.press("Enter");
  await page.getByRole("status").getByText("live").waitFor();
}

// Nothing serious to axe, and nothing wider than the screen.
export async function audit(page, where) {
  const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  const serious = found.violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  assert.deepEqual(serious.map(({ id, nodes }) => `${id}: ${nodes[0].html}`), [], where);
  const sideways = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(sideways <= 0, `${where} is ${sideways} pixels too wide`);
}

export const go = async (page, place) => {
  // Who goes somewhere has the mouse at the top, not on what is read.
  await page.mouse.move(640, 24);
  await page.goto(`${url}/dashboard#/${place}`);
  await page.locator(`main .view.${place.split(/[/?]/)[0]}`).waitFor();
};
export const state = (page, text) => page.locator(".head .badge", { hasText: text }).first().waitFor(SOON);
export const press = (page, name) => page.getByRole("button", { name, exact: true }).click();
export const agree = (page, button) => page.locator("dialog").getByRole("button", { name: button, exact: true }).click();
export const next_snapshot = (page) => page.evaluate(() => new Promise((done) => {
  const clock = document.querySelector("#top .clock");
  new MutationObserver((_, watch) => { watch.disconnect(); done(); }).observe(clock, { subtree: true, characterData: true, childList: true });
}));
