// SPDX-License-Identifier: Apache-2.0
//
// Claims about the dashboard, in a real Chromium: node dashboard.mjs CLAIM URL TOKEN
//
// test/e2e/test_86_dashboard.py runs one claim at a time, on a router or on mock_admin.py.  A claim
// that needs something done outside the browser asks for it: a line `> word` on the output, and a
// line on the input when it is done.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import readline from "node:readline";

const require = createRequire(join(import.meta.dirname, "../../build/browser/"));
const { chromium } = require("playwright-core");

const [claimName, base, token] = process.argv.slice(2);
const SLOW = Number(process.env.SLOW_FACTOR ?? 1);
const ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const PHONE = { width: 375, height: 812 };
const DESK = { width: 1440, height: 900 };

const input = readline.createInterface({ input: process.stdin });
const lines = input[Symbol.asyncIterator]();

async function tell(word) {
  console.log(`> ${word}`);
  return (await lines.next()).value;
}

async function api(path, method = "GET") {
  const answer = await fetch(base + path, { method, headers: { authorization: `Bearer ${token}` } });
  return answer.json();
}

// Until it holds; what it says when it does not is the failure.
async function eventually(check, seconds = 15) {
  const end = Date.now() + seconds * 1000 * SLOW;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (Date.now() > end) throw error;
      await new Promise((resolve) => setTimeout(resolve, 60));
    }
  }
}

class Browser {
  errors = []; // of the console and of scripts
  urls = []; // asked for

  async open({ viewport = DESK, colorScheme = "light", reducedMotion = "no-preference", hasTouch = false } = {}) {
    this.folder ??= mkdtempSync(join(tmpdir(), "warmpath-browser-"));
    await this.context?.close();
    this.context = await chromium.launchPersistentContext(mkdtempSync(join(this.folder, "user-")), {
      executablePath: "/usr/bin/chromium", args: ARGUMENTS, viewport, colorScheme, reducedMotion, hasTouch, timeout: 30000 * SLOW,
    });
    this.context.setDefaultTimeout(20000 * SLOW);
    const page = this.context.pages()[0] ?? await this.context.newPage();
    page.on("console", (message) => message.type() === "error" && this.errors.push(message.text()));
    page.on("pageerror", (error) => this.errors.push(String(error)));
    page.on("request", (request) => this.urls.push(request.url()));
    return page;
  }

  // With figures on it.
  async dashboard(options) {
    const page = await this.open(options);
    await page.goto(`${base}/dashboard#token=${token}`);
    await page.locator("main:not(.loading)").waitFor();
    await page.locator("#connection[data-kind=live]").waitFor();
    return page;
  }

  async close() {
    await this.context?.close();
    if (this.folder) rmSync(this.folder, { recursive: true, force: true });
  }
}

const browser = new Browser();
const textOf = async (page, selector) => (await page.locator(selector).first().innerText()).trim();
const rowOf = (page, id) => page.locator(`#backends tr[data-id="${id}"]`);

// Figures as the page should write them, by rules of its own.
const grouped = (value) => Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, ",");
// A half is rounded up, as people do; toFixed looks at the binary number, where 5.85 is less than a
// half.
const fixed = (value, digits) => value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const ms = (value) => (value === null ? "–" : value < 10 ? `${fixed(value, 1)} ms` : value < 999.5 ? `${fixed(value, 0)} ms`
  : `${fixed(value / 1000, value < 9995 ? 2 : 1)} s`);
const percent = (share, digits = 0) => (share === null ? "–" : `${fixed(share * 100, digits)}%`);

// Of times; the machine may have been busy with something else during one of them.
function median(what, times) {
  times.sort((a, b) => a - b);
  console.log(`${what}: ${times.map((one) => one.toFixed(0)).join(" ")} ms`);
  return times[Math.floor(times.length / 2)];
}

const overflow = () => document.documentElement.scrollWidth - innerWidth;

// Text whose contrast with what is behind it is below WCAG AA.
function faintTexts() {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const parse = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (node) => {
    for (let one = node; one; one = one.parentElement) {
      const colour = parse(getComputedStyle(one).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  const faint = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim() !== "");
    if (!own || !node.checkVisibility({ opacityProperty: true, visibilityProperty: true }) || node.disabled) continue;
    const style = getComputedStyle(node);
    const [a, b] = [light(parse(style.color)), light(ground(node))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const isLarge = parseFloat(style.fontSize) >= 24;
    if (contrast < (isLarge ? 3 : 4.5)) faint.push(`${node.tagName} "${node.textContent.slice(0, 30)}" ${contrast.toFixed(2)}`);
  }
  return faint;
}

const claims = {
  async figures_are_those_of_the_router() {
    const page = await browser.dashboard();
    await eventually(async () => {
      const { totals, recent, backends, version, policy } = await api("/overview");
      assert.equal(await textOf(page, "#version"), version);
      assert.equal(await textOf(page, "#policy"), policy);
      assert.equal(await textOf(page, "#tile-hits .value"), percent(recent.hit_rate, 1));
      assert.equal(await textOf(page, "#tile-hits .theirs b"), percent(recent.round_robin_hit_rate));
      assert.equal(await textOf(page, "#tile-ttft .value"), ms(recent.ttft_ms.p95));
      assert.equal(await textOf(page, "#tile-ttft .theirs b"), ms(recent.round_robin_ttft_ms.p95));
      assert.equal(await textOf(page, "#tile-failures .value"), grouped(totals.failures));
      assert.ok((await textOf(page, "#tile-rate .note")).startsWith(`${grouped(totals.requests)} since start`));
      assert.equal(await page.locator("#backends tbody tr").count(), backends.length);
      for (const { id, url, in_flight, hit_rate, weight, ttft_p95_ms } of backends) {
        const cell = (column) => rowOf(page, id).locator(`[data-column=${column}]`).innerText();
        assert.ok((await cell("url")).startsWith(url.replace("http://", "")));
        assert.equal(await cell("in_flight"), grouped(in_flight));
        assert.equal((await cell("hit_rate")).trim(), percent(hit_rate));
        assert.equal(await cell("ttft_p95_ms"), ms(ttft_p95_ms));
        assert.equal(await cell("weight"), `× ${weight}`);
      }
    }, 15);
  },

  async hottest_prefixes_are_shown_by_hash() {
    const page = await browser.dashboard();
    await eventually(async () => {
      const { hottest } = await api("/overview");
      assert.ok(hottest.length > 0, "there are some");
      assert.deepEqual(await page.locator("#prefix-list code").allInnerTexts(), hottest.slice(0, 12).map(({ prefix }) => prefix));
      assert.match(await textOf(page, "#prefix-list li"), /tokens[\s\S]*% of requests[\s\S]*holder/);
    });
  },

  async a_router_without_a_cluster_shows_no_other_routers() {
    const page = await browser.dashboard();
    assert.ok(await page.locator("#routers").isHidden());
  },

  async other_routers_are_shown_with_their_state() {
    for (const viewport of [DESK, PHONE]) {
      const page = await browser.dashboard({ viewport });
      const rows = page.locator("#router-list li");
      assert.equal(await rows.count(), 3);
      const texts = (await rows.allInnerTexts()).map((text) => text.replaceAll(/\s+/g, " ").trim());
      assert.match(texts[0], /There host-1\/4711 5 in flight heard 10 ms ago$/);
      assert.match(texts[1], /Catching up host-2\/4711 10 in flight heard 20 ms ago$/);
      assert.match(texts[2], /Away host-3\/4711 Connection refused$/);
      assert.match(await textOf(page, "#routers .note"), /directly/);
      assert.ok(await page.locator("#routers-empty").isHidden());
      assert.ok(await page.evaluate(overflow) <= 0);
      assert.deepEqual(await page.evaluate(faintTexts), []);
    }
  },

  async a_store_that_does_not_obey_is_named() {
    const page = await browser.dashboard();
    assert.equal(await textOf(page, "#routers .note"), "The store does not obey, nothing is shared: no reply in time");
  },

  async figures_move_by_the_stream_alone() {
    const page = await browser.dashboard();
    const requests = async () => Number((await textOf(page, "#tile-rate .note")).split(" ")[0].replaceAll(",", ""));
    const before = await requests();
    await tell("request");
    await eventually(async () => assert.ok(await requests() > before, "the count grows"));
    await eventually(async () => assert.equal(await requests(), (await api("/overview")).totals.requests));
    const paths = browser.urls.map((url) => new URL(url).pathname);
    assert.equal(paths.filter((path) => path === "/stream").length, 1);
    assert.ok(!paths.includes("/overview"));
  },

  async without_a_stream_it_asks_again_and_again() {
    const page = await browser.open();
    await page.route("**/stream", (route) => route.fulfill({ status: 503, body: "{}" }));
    await page.goto(`${base}/dashboard#token=${token}`);
    await page.locator("#connection[data-kind=polling]").waitFor();
    const polls = () => browser.urls.filter((url) => url.endsWith("/overview")).length;
    const before = polls();
    await eventually(() => assert.ok(polls() > before + 1, "it polls"));
    await eventually(async () => assert.ok(await page.locator("#decision-list li").count() > 0, "decisions come too"));
    browser.errors = browser.errors.filter((text) => !text.includes("503"));
  },

  async a_backend_is_drained_and_made_ready() {
    const page = await browser.dashboard();
    const { id } = (await api("/overview")).backends[0];
    const button = rowOf(page, id).locator("[data-column=action] button");
    const stateOf = async () => (await api("/overview")).backends.find((one) => one.id === id).state;
    await button.click();
    await page.locator("#ask button[value=no]").click();
    assert.equal(await stateOf(), "up", "called off");
    await button.click();
    assert.match(await textOf(page, "#ask"), /^Drain .*\?/);
    await page.locator("#ask button[value=yes]").click();
    await eventually(async () => assert.equal(await stateOf(), "draining"));
    await rowOf(page, id).getByText("Draining").waitFor();
    await eventually(async () => assert.equal(await button.innerText(), "Ready"));
    await button.click();
    await page.locator("#ask button[value=yes]").click();
    await eventually(async () => assert.equal(await stateOf(), "up"));
    await rowOf(page, id).getByText("Up", { exact: true }).waitFor();
  },

  // The close event of the first comes when the second is open.
  async a_question_right_after_another_gets_its_own_answer() {
    const page = await browser.dashboard();
    const answers = await page.evaluate(async (given) => {
      const { ask } = await import("/dashboard/page.js");
      const dialog = document.getElementById("ask");
      const asked = given.map((answer) => {
        const question = ask({ title: answer, text: "", action: "Yes", number: 7 });
        dialog.close(answer);
        return question;
      });
      asked.push(ask({ title: "last", text: "", action: "Yes", number: 8 }));
      await asked[0];
      await new Promise((resolve) => setTimeout(resolve));
      dialog.querySelector("[value=yes]").click();
      return Promise.all(asked);
    }, ["no", "yes", ""]);
    assert.deepEqual(answers, [null, 7, null, 8]);
  },

  async a_weight_is_changed() {
    const page = await browser.dashboard();
    const { id } = (await api("/overview")).backends[0];
    const button = rowOf(page, id).locator("[data-column=weight] button");
    await button.click();
    await page.locator("#ask input").fill("0");
    await page.locator("#ask button[value=yes]").click();
    assert.ok(await page.locator("#ask[open]").count() === 1, "0 is no weight");
    await page.locator("#ask input").fill("3");
    await page.locator("#ask button[value=yes]").click();
    await eventually(async () => assert.equal((await api("/overview")).backends.find((one) => one.id === id).weight, 3));
    await eventually(async () => assert.equal(await button.innerText(), "× 3"));
    assert.match(await textOf(page, "#notice"), /weight 3/);
  },

  async a_refused_action_says_why() {
    const page = await browser.dashboard();
    const { id } = (await api("/overview")).backends[0];
    await page.route(`**/backends/${id}/drain`, (route) => route.fulfill({ status: 409, contentType: "application/json",
      body: JSON.stringify({ error: { message: "It is somebody else's." } }) }));
    await rowOf(page, id).locator("[data-column=action] button").click();
    await page.locator("#ask button[value=yes]").click();
    await page.locator("#notice.shown[data-kind=bad]").waitFor();
    assert.equal(await textOf(page, "#notice"), "It is somebody else's.");
    await eventually(async () => assert.ok(await rowOf(page, id).locator("[data-column=action] button").isEnabled()));
    browser.errors = browser.errors.filter((text) => !text.includes("409"));
  },

  async the_token_is_asked_for_and_stays_in_the_tab() {
    const page = await browser.open();
    await page.goto(`${base}/`);
    assert.equal(new URL(page.url()).pathname, "/dashboard");
    await page.locator("#login").waitFor();
    assert.equal(await textOf(page, "#connection"), "Token needed");
    assert.equal(await page.evaluate(() => document.activeElement.id), "token");
    assert.ok(!browser.urls.some((url) => url.endsWith("/stream")), "nothing is asked for without one");
    await page.keyboard.type("wrong");
    await page.keyboard.press("Enter");
    await page.getByText("This is not the token of this router.").waitFor();
    assert.ok(browser.errors.every((text) => text.includes("401")), browser.errors.join());
    browser.errors = [];
    await page.keyboard.type(token);
    await page.keyboard.press("Enter");
    await page.locator("#connection[data-kind=live]").waitFor();
    await page.reload();
    await page.locator("#connection[data-kind=live]").waitFor();
    assert.ok(!page.url().includes(token));
    assert.ok(!(await page.evaluate(() => JSON.stringify(localStorage))).includes(token));
    await page.locator("#leave").click();
    await page.locator("#login").waitFor();
    assert.equal(await page.evaluate(() => JSON.stringify(sessionStorage)), "{}");
  },

  async a_link_brings_the_token_and_does_not_show_it() {
    const page = await browser.dashboard();
    assert.equal(page.url(), `${base}/dashboard`);
    assert.ok(browser.urls.every((url) => !url.includes(token)));
  },

  async nothing_comes_from_another_host() {
    const page = await browser.dashboard();
    await page.locator("#decision-list button").first().click();
    await page.locator("#help").click();
    await page.goto(`${base}/dashboard/uplot-LICENSE`);
    assert.match(await page.locator("body").innerText(), /Permission is hereby granted/);
    const hosts = new Set(browser.urls.map((url) => new URL(url).host));
    assert.deepEqual([...hosts], [new URL(base).host]);
  },

  async it_fits_a_phone_and_a_desk_in_dark_and_light() {
    for (const [viewport, colorScheme] of [[PHONE, "light"], [PHONE, "dark"], [DESK, "light"], [DESK, "dark"]]) {
      const page = await browser.dashboard({ viewport, colorScheme, hasTouch: viewport === PHONE });
      const where = `${viewport.width} px, ${colorScheme}`;
      await page.locator("#decision-list button").first().click();
      await page.locator("#decision-list .why").waitFor();
      assert.ok(await page.evaluate(overflow) <= 0, `${where}: nothing is wider than the window`);
      for (const x of [5, 120, 200]) {
        await page.locator("#chart-ttft .u-over").hover({ position: { x, y: 60 } });
        assert.ok(await page.evaluate(overflow) <= 0, `${where}: nor what a chart tells`);
      }
      await page.locator("#backends [data-column=action] button").first().click();
      assert.ok(await page.evaluate(overflow) <= 0, `${where}: nor a question`);
      await page.keyboard.press("Escape");
    }
  },

  async fingers_can_hit_what_they_should_on_a_phone() {
    const page = await browser.dashboard({ viewport: PHONE, hasTouch: true });
    const small = await page.evaluate(() => [...document.querySelectorAll("button, input, select")]
      .filter((node) => node.checkVisibility()).map((node) => [node.outerHTML.slice(0, 80), node.getBoundingClientRect()])
      .filter(([, { width, height }]) => width < 40 || height < 40).map(([html, { width, height }]) => `${html} ${width}×${height}`));
    assert.deepEqual(small, []);
  },

  async text_is_easy_to_read_in_dark_and_light() {
    for (const colorScheme of ["light", "dark"]) {
      const page = await browser.dashboard({ colorScheme, reducedMotion: "reduce" });
      await page.locator("#decision-list button").first().click();
      await page.locator("#decision-list .why").waitFor();
      assert.deepEqual(await page.evaluate(faintTexts), [], colorScheme);
    }
  },

  async colours_follow_the_system_or_the_reader() {
    const page = await browser.dashboard({ colorScheme: "dark" });
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const dark = await ground();
    await page.keyboard.press("t");
    assert.equal(await textOf(page, "#theme"), "Light");
    const light = await ground();
    assert.notEqual(light, dark);
    await page.reload();
    await page.locator("main:not(.loading)").waitFor();
    assert.equal(await ground(), light, "it is remembered");
    await page.locator("#theme").click();
    assert.equal(await ground(), dark);
  },

  async nothing_moves_for_those_who_asked_for_that() {
    const page = await browser.dashboard({ reducedMotion: "reduce" });
    assert.equal(await page.evaluate(() => document.getAnimations().length), 0);
  },

  async it_is_used_with_the_keyboard_alone() {
    const page = await browser.dashboard();
    const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.className);
    const rows = () => page.locator("#backends tbody tr").count();
    const [first] = (await api("/overview")).backends;
    await page.keyboard.press("/");
    assert.equal(await focused(), "fleet-filter");
    assert.notEqual(await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle), "none");
    await page.keyboard.type(first.url.replace("http://", ""));
    assert.equal(await rows(), 1);
    // From the filter through the headings to the row: its weight, then its action.
    for (let i = 0; i < 40 && !(await page.evaluate(() => document.activeElement.closest("[data-column=action]"))); i++) {
      await page.keyboard.press("Tab");
    }
    await page.keyboard.press("Enter");
    await page.locator("#ask[open]").waitFor();
    await page.keyboard.press("Escape");
    assert.equal(await page.locator("#ask[open]").count(), 0);
    await page.keyboard.press("Space");
    await page.locator("#ask[open]").waitFor();
    await page.keyboard.press("Enter");
    await eventually(async () => assert.equal((await api("/overview")).backends[0].state, "draining"));
    await page.keyboard.press("/");
    await page.keyboard.press("Escape");
    await eventually(async () => assert.ok(await rows() > 1, "the filter is cleared"));
    await page.keyboard.press("?");
    await page.locator("#keys[open]").waitFor();
    await page.keyboard.press("Escape");
    assert.equal(await page.locator("#keys[open]").count(), 0);
    await page.keyboard.press("d");
    assert.equal(await focused(), "decision-filter");
    await page.keyboard.press("Tab");
    assert.equal(await focused(), "summary");
    await page.keyboard.press("Enter");
    await page.locator("#decision-list .why").waitFor();
    await page.keyboard.press("Space");
    assert.equal(await page.locator("#decision-list .why").count(), 0);
    await page.keyboard.press("1");
    assert.equal(await page.locator("#range [data-minutes='5']").getAttribute("aria-pressed"), "true");
    await page.keyboard.press("p");
    assert.match(await textOf(page, "#pause"), /^Resume/);
  },

  async without_requests_it_says_so() {
    const page = await browser.dashboard();
    assert.match(await textOf(page, "#decisions-empty"), /^No request yet/);
    assert.match(await textOf(page, "#prefixes-empty"), /^No request yet/);
    assert.match(await textOf(page, "#chart-hits .empty"), /^No request yet/);
    assert.equal(await textOf(page, "#tile-hits .value"), "–");
    assert.equal(await textOf(page, "#tile-hits .verdict"), "nothing to compare yet");
    assert.ok(await page.evaluate(overflow) <= 0);
  },

  async a_fleet_of_nobody_says_how_to_begin() {
    const page = await browser.dashboard({ viewport: PHONE });
    assert.match(await textOf(page, "#fleet-empty"), /^No backend yet: .*POST \/backends/);
    assert.ok(await page.locator("#backends").isHidden());
    assert.ok(await page.evaluate(overflow) <= 0);
  },

  async what_is_awaited_is_drawn_as_such() {
    const page = await browser.open();
    let let_go;
    const gate = new Promise((resolve) => (let_go = resolve));
    await page.route("**/stream", async (route) => {
      await gate;
      await route.continue();
    });
    await page.goto(`${base}/dashboard#token=${token}`);
    await page.locator("main[aria-busy=true]").waitFor();
    assert.equal(await textOf(page, "#connection"), "Connecting");
    assert.ok((await page.locator("#tile-hits .value").boundingBox()).height > 20, "a place for the figure");
    let_go();
    await page.locator("main:not(.loading)").waitFor();
    assert.equal(await page.locator("main[aria-busy]").count(), 0);
  },

  async a_router_that_is_gone_is_missed_and_found_again() {
    const page = await browser.dashboard();
    await tell("stop");
    await page.locator("#connection[data-kind=lost]").waitFor();
    await eventually(async () => assert.match(await textOf(page, "#lost"), /^The router does not answer. Figures are .* s old. Next try in \d+ s./));
    assert.ok(await page.locator("#backends tbody tr").count() > 0, "what was known stays");
    assert.ok(await page.evaluate(overflow) <= 0);
    // The button is used while the router is gone: once it is back, the page may find it first and
    // hide the button.
    const tried = page.waitForRequest((request) => /\/(stream|overview)/.test(request.url()));
    await page.locator("#lost button").click();
    await tried;
    await tell("start");
    await page.locator("#connection[data-kind=live]").waitFor();
    assert.ok(await page.locator("#lost").isHidden());
    browser.errors = browser.errors.filter((text) => !text.includes("net::ERR_"));
  },

  async a_decision_tells_why() {
    const page = await browser.dashboard();
    const summary = page.locator("#decision-list button").first();
    await summary.click();
    const why = page.locator("#decision-list .why");
    const id = await why.locator("dl dd").first().innerText();
    const one = await api(`/decisions/${encodeURIComponent(id)}`);
    assert.equal(await why.locator(".sentence").innerText(), one.why);
    assert.equal(await why.locator(".rivals tbody tr").count(), 1 + one.rivals.length);
    assert.ok((await why.locator(".rivals .chosen").innerText()).startsWith(one.backend.url.replace("http://", "")));
    assert.match(await why.locator(".alternative").innerText(), /[Rr]ound-robin/);
    assert.equal(await why.locator(".stages i").count(), 5);
    assert.match(await why.innerText(), /The router took .*parse .*tokenize .*match .*decide .*queue /);
    await summary.click();
    assert.equal(await why.count(), 0);
  },

  async a_decision_is_found_by_its_request_id() {
    const page = await browser.dashboard();
    const { decisions } = await api("/decisions?limit=100");
    const one = decisions.at(-1);
    await page.keyboard.press("d");
    await page.keyboard.type(one.id);
    await page.keyboard.press("Enter");
    await page.locator("#found .sentence").waitFor();
    assert.equal(await textOf(page, "#found .sentence"), one.why);
    await page.locator("#decision-filter").fill("no-such-request");
    await page.keyboard.press("Enter");
    await page.locator("#found").getByText("No decision of request no-such-request").waitFor();
    browser.errors = browser.errors.filter((text) => !text.includes("404"));
  },

  async decisions_are_filtered_and_held() {
    const page = await browser.dashboard();
    await page.locator("#decision-list li").first().waitFor();
    const list = () => page.locator("#decision-list li").allInnerTexts();
    const { decisions } = await api("/decisions?limit=100");
    const name = decisions[0].backend.url.replace("http://", "");
    await page.locator("#decision-filter").fill(name);
    assert.ok((await list()).every((text) => text.includes(name)));
    await page.locator("#decision-filter").fill("");
    await page.locator("#outcome").selectOption("refused");
    assert.match(await textOf(page, "#decisions-empty"), /Nothing here matches/);
    await page.locator("#outcome").selectOption("");
    await page.locator("#pause").click();
    const before = await list();
    await tell("request");
    // All three: a late one would move the list below.
    await page.locator("#held").getByText("3 new").waitFor();
    assert.equal(await textOf(page, "#pause"), "Resume");
    assert.deepEqual(await list(), before, "the list stands still");
    await page.locator("#pause").click();
    await eventually(async () => assert.notDeepEqual(await list(), before));
    await page.locator("#decision-list li").nth(2).hover();
    const pointedAt = await list();
    await tell("request");
    await page.locator("#held").getByText(/\d+ new/).waitFor();
    assert.deepEqual(await list(), pointedAt, "nor does it run away from a mouse");
    await page.mouse.move(1, 1);
    await eventually(async () => assert.notDeepEqual(await list(), pointedAt));
  },

  async lines_are_drawn_and_tell_their_figures() {
    const page = await browser.dashboard();
    const hasInk = (name) => page.evaluate((name) => {
      const swatch = document.body.appendChild(document.createElement("i"));
      swatch.style.color = `var(${name})`;
      const probe = document.createElement("canvas").getContext("2d");
      probe.fillStyle = getComputedStyle(swatch).color;
      swatch.remove();
      probe.fillRect(0, 0, 1, 1);
      const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
      return [...document.querySelectorAll(".plot canvas")].map((canvas) => {
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        let count = 0;
        const isNear = (a, b) => Math.abs(a - b) < 16; // edges are mixed with what is behind
        for (let i = 0; i < data.length; i += 4) {
          count += data[i + 3] > 200 && isNear(data[i], r) && isNear(data[i + 1], g) && isNear(data[i + 2], b);
        }
        return count;
      });
    }, name);
    await page.locator("#range [data-minutes='5']").click();
    await eventually(async () => {
      await tell("request"); // two steps of the line with something in them make a line
      await page.waitForTimeout(500);
      for (const line of ["--ours", "--theirs"]) assert.ok((await hasInk(line)).every((count) => count > 20), line);
    }, 25);
    await page.locator("#chart-ttft .u-over").hover();
    const { series } = await api("/overview");
    const last = await page.locator("#chart-ttft .u-over").boundingBox();
    await page.mouse.move(last.x + last.width - 10, last.y + 50);
    const tip = await textOf(page, "#chart-ttft .tip");
    assert.match(tip, /warmpath p95\s*\d.* m?s\s*warmpath p50[\s\S]*round-robin p50 \(estimate\)\s*\d.* m?s/);
    const hits = await textOf(page, "#chart-hits .tip");
    assert.ok(series.hit_rate.some((share) => hits.includes(percent(share, 1))), hits);
    await page.mouse.move(5, 5);
    await page.locator("#chart-hits .plot").focus();
    await page.keyboard.press("ArrowLeft");
    assert.match(await textOf(page, "#chart-hits .tip"), /warmpath\s*\d/);
  },

  // Full memory is a warning, many hits are none.
  async only_memory_that_is_full_looks_bad() {
    const page = await browser.dashboard();
    await eventually(async () => {
      const full = page.locator("#backends .meter[data-kind=full]");
      assert.ok(await full.count() > 0, "there is such a backend");
      for (const text of await full.allInnerTexts()) assert.ok(Number.parseInt(text, 10) >= 90, text);
      assert.equal(await page.locator("#backends .ours .meter[data-kind=full]").count(), 0);
      const hits = (await page.locator("#backends .ours .meter").allInnerTexts()).map((text) => Number.parseInt(text, 10));
      assert.ok(hits.some((percent) => percent > 90), "many hits somewhere");
    });
  },

  // The mock's: a router with so many backends would be a test of its own.
  async a_thousand_backends_are_shown_without_delay() {
    const page = await browser.open();
    await page.addInitScript(() => {
      const parse = JSON.parse;
      window.delays = [];
      JSON.parse = (text, ...rest) => {
        if (text.length > 100000) {
          const begun = performance.now();
          requestAnimationFrame(() => setTimeout(() => window.delays.push(performance.now() - begun)));
        }
        return parse(text, ...rest);
      };
    });
    await page.goto(`${base}/dashboard#token=${token}`);
    await page.locator("#connection[data-kind=live]").waitFor();
    assert.match(await textOf(page, "#fleet .pages"), /1–50 of 1,000/);
    assert.equal(await page.locator("#backends tbody tr").count(), 50);
    await eventually(async () => assert.ok((await page.evaluate(() => window.delays.length)) >= 5), 15);
    assert.ok(median("event to paint", await page.evaluate(() => window.delays)) < 300 * SLOW);
    const type = (text) => page.evaluate((text) => new Promise((resolve) => {
      const box = document.querySelector("#fleet-filter");
      const begun = performance.now();
      box.value = text;
      box.dispatchEvent(new Event("input"));
      requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - begun)));
    }), text);
    const typed = [];
    for (const text of ["10.0.1.", "10.0.2.", "10.0.3.", "10.0.0.", "10.0.4."]) typed.push(await type(text));
    assert.ok(median("filter to paint", typed) < 300 * SLOW);
    assert.match(await textOf(page, "#fleet .pages"), /1–50 of 200/);
    await page.locator("#fleet .pages [data-step='1']").click();
    assert.match(await textOf(page, "#fleet .pages"), /51–100 of 200/);
    await page.locator("#states [data-state=down]").click();
    await page.locator("#fleet-filter").fill("");
    await eventually(async () => assert.ok((await page.locator("#backends tbody tr").allInnerTexts()).every((text) => text.includes("Down"))));
    await page.setViewportSize(PHONE);
    assert.ok(await page.evaluate(overflow) <= 0);
  },

  // For docs/images: needs SCREENSHOTS.
  async screenshots() {
    const shoot = async (page, name) => {
      await page.waitForTimeout(1500); // charts have come to rest
      await page.screenshot({ path: join(process.env.SCREENSHOTS, `dashboard-${name}.png`) });
    };
    for (const colorScheme of ["light", "dark"]) {
      const page = await browser.dashboard({ viewport: { width: 1440, height: 1180 }, colorScheme, reducedMotion: "reduce" });
      await page.locator("#decision-list li").nth(5).waitFor();
      await page.mouse.move(0, 0);
      if (colorScheme === "dark") {
        await page.locator("#outcome").selectOption("ok");
        await page.locator("#pause").click();
        await page.locator("#decision-list button").nth(1).click();
        await page.locator("#fleet").evaluate((node) => scrollTo(0, node.offsetTop - 70));
      }
      await shoot(page, colorScheme);
    }
    const page = await browser.dashboard({ viewport: { width: 375, height: 812 }, colorScheme: "dark", reducedMotion: "reduce" });
    await shoot(page, "phone");
  },
};

let failed = 0;
try {
  assert.ok(Object.hasOwn(claims, claimName), `no such claim: ${claimName}`);
  await claims[claimName]();
  assert.deepEqual(browser.errors, [], "the console is clean");
} catch (error) {
  console.log(error.stack ?? String(error));
  failed = 1;
} finally {
  await browser.close();
}
process.exit(failed);
