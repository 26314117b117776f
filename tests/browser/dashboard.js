// An operator at the dashboard, in Chromium. Arguments: the address of the service, the admin token. A line of output is a wish to whoever
// started us, answered by a line of input; anything that is not as it should be ends with a stack and exit code 1.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(new URL("../../target/services/browser/package.json", import.meta.url));
const { chromium } = require("playwright-core");
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const [url, token] = process.argv.slice(2);
const SOON = { timeout: 30_000 };

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
async function wish(text) {
  process.stdout.write(`${text}\n`);
  await answers.next();
}

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync"] });
const problems = [];

async function open(options) {
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

async function audit(page, where) {
  const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  const serious = found.violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  assert.deepEqual(serious.map(({ id, nodes }) => `${id}: ${nodes[0].html}`), [], where);
  const sideways = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(sideways <= 0, `${where} is ${sideways} pixels too wide`);
}

const go = async (page, place) => {
  await page.goto(`${url}/dashboard#/${place}`);
  await page.locator("main .view").waitFor();
};
const state = (page, text) => page.locator(".head .badge", { hasText: text }).first().waitFor(SOON);
const agree = (page, button) => page.locator("dialog").getByRole("button", { name: button, exact: true }).click();

async function log_in(page) {
  await page.goto(`${url}/dashboard`);
  await page.getByLabel("Admin token").fill("wrong");
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByText("this is not the admin token").waitFor();
  await audit(page, "log-in");
  await page.getByLabel("Admin token").fill(token);
  await page.keyboard.press("Enter");
  await page.getByRole("status").getByText("live").waitFor();
  assert.equal(await page.evaluate(() => document.cookie), "", "the page cannot read its session");
}

async function degrades_and_recovers(page) {
  await wish("changes");
  await go(page, "client/acme");
  await state(page, "healthy");
  await page.getByRole("cell", { name: "delivered" }).first().waitFor(SOON);
  await wish("down");
  await wish("changes");
  await state(page, "degraded");
  await page.getByText("answers 503").first().waitFor(SOON);
  await page.getByText("<img src=x onerror=alert(1)>").first().waitFor(SOON);
  await go(page, "overview");
  await page.locator(".wide").getByRole("link", { name: "<b>bold</b>" }).first().waitFor(SOON);
  await audit(page, "overview with a problem");
  await wish("up");
  await go(page, "client/acme");
  await state(page, "healthy");
}

async function pauses_and_resumes(page) {
  await page.getByRole("button", { name: "Pause", exact: true }).click();
  await agree(page, "Cancel");
  await page.getByRole("button", { name: "Pause", exact: true }).click();
  await page.getByLabel("Reason").fill("moving house");
  await agree(page, "Pause");
  await state(page, "paused");
  await wish("changes");
  await page.getByText(/[1-9]\d* in the stash/).waitFor(SOON);
  await page.getByRole("button", { name: "Resume", exact: true }).click();
  await state(page, "healthy");
  await page.getByRole("button", { name: "Disable", exact: true }).click();
  await audit(page, "a question");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Cancel", "Enter destroys nothing");
  await agree(page, "Disable");
  await state(page, "disabled");
  await page.getByRole("button", { name: "Enable", exact: true }).click();
  await state(page, "healthy");
}

async function restarts_its_actor(page) {
  await wish("changes");
  await page.getByRole("button", { name: "Restart actor" }).click();
  await agree(page, "Restart");
  await page.getByText("restarted 1 times").waitFor(SOON);
}

async function promotes_a_job(page) {
  await wish("down");
  await wish("changes");
  await go(page, "queues/dispatcher/delayed");
  await page.getByRole("link", { name: "disable-acme" }).click();
  await page.getByRole("heading", { name: "disable-acme" }).waitFor();
  await audit(page, "a job");
  await page.getByRole("button", { name: "Promote" }).click();
  await page.getByText("is promoted").waitFor(SOON);
  await go(page, "queues");
  const heavy = page.locator("section", { has: page.getByRole("heading", { name: "dispatcher-heavy" }) });
  await heavy.getByRole("button", { name: "Pause" }).click();
  await agree(page, "Pause");
  await heavy.getByText("paused").first().waitFor(SOON);
  await heavy.getByRole("button", { name: "Resume" }).click();
  await heavy.getByRole("button", { name: "Pause" }).waitFor(SOON);
  await wish("up");
}

async function outlives_the_service(page) {
  await go(page, "overview");
  await wish("kill");
  await page.getByText("No news from the service").waitFor(SOON);
  await page.getByRole("status").getByText("stale").waitFor(SOON);
  await wish("start");
  await page.getByRole("status").getByText("live").waitFor(SOON);
  await page.getByText("No news from the service").waitFor({ state: "hidden", ...SOON });
}

async function reads_long_lists(page) {
  await wish("many clients");
  await go(page, "clients");
  await page.getByText("1 to 50 of 122").waitFor(SOON);
  await page.getByRole("button", { name: "Next" }).click();
  await page.getByText("51 to 100 of 122").waitFor(SOON);
  await page.keyboard.press("/");
  await page.keyboard.type("MANY-07");
  await page.getByText("1 to 10 of 10").waitFor(SOON);
  // The place is in the address: it comes back as it was.
  await page.reload();
  await page.getByText("1 to 10 of 10").waitFor(SOON);
  await page.getByLabel("Order").selectOption("client");
  await page.getByRole("row").nth(1).getByText("many-070").waitFor(SOON);
}

async function looks_at_everything(page, where) {
  for (const place of ["overview", "clients", "client/acme", "queues", "queues/dispatcher", "actors", "dead", "dead/source", "events", "system"]) {
    await go(page, place);
    await audit(page, `${place} ${where}`);
  }
  await go(page, "nowhere");
  await page.getByText("There is no such page.").waitFor();
  await go(page, "client/nobody");
  await page.getByText("there is no such client").waitFor();
}

try {
  const page = await open({});
  for (const part of [log_in, degrades_and_recovers, pauses_and_resumes, restarts_its_actor, promotes_a_job, outlives_the_service, reads_long_lists]) {
    await wish(`it ${part.name.replaceAll("_", " ")}`);
    await part(page);
  }
  await wish("it looks at everything");
  await looks_at_everything(page, "light");
  const dark = await open({ viewport: { width: 390, height: 844 }, colorScheme: "dark", storageState: await page.context().storageState() });
  await looks_at_everything(dark, "dark, on a phone");
  await page.bringToFront();
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByLabel("Admin token").waitFor();
  assert.equal(await page.evaluate(async () => (await fetch("/v1/dashboard")).status), 401);
  assert.deepEqual(problems, []);
} catch (error) {
  console.error(error);
  for (const context of browser.contexts()) for (const page of context.pages()) {
    console.error(await page.locator("body").innerText().catch(() => "?"));
    await page.screenshot({ path: "target/services/browser/failed.png" }).catch(() => {});
  }
  console.error(problems);
  process.exitCode = 1;
} finally {
  await browser.close();
  process.stdin.destroy();
}
