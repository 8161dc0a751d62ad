// SPDX-License-Identifier: Apache-2.0
//
// Claims about the page's modules that need no page: node --test modules.mjs
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";

// As a browser takes them: they are modules because they are served as such, not by their name.
const load = (name) => import(`data:text/javascript,${encodeURIComponent(
  readFileSync(join(import.meta.dirname, "../../src/web", name), "utf8"))}`);
const words = await load("words.js");
const { EventReader } = await load("router.js");

test("what is not known is a dash, and no zero", () => {
  for (const say of [words.count, words.tokens, words.rate, words.percent, words.ms, words.us, words.duration, words.money]) {
    assert.equal(say(null), "–");
    assert.equal(say(undefined), "–");
    assert.equal(say(NaN), "–");
  }
});

test("figures have a unit and few digits", () => {
  const said = [
    [words.count, 0, "0"], [words.count, 45120.4, "45,120"], [words.count, 1.34e6, "1.3 M"], [words.count, 2e9, "2.0 G"],
    [words.tokens, 9999, "9,999"], [words.tokens, 18240, "18.2 k"], [words.tokens, 2.5e6, "2.5 M"],
    [words.rate, 0, "0"], [words.rate, 0.034, "0.03"], [words.rate, 12.34, "12.3"], [words.rate, 1234.5, "1,235"],
    [words.percent, 0.7349, "73%"], [words.percent, 1, "100%"],
    [words.ms, 0.04, "0.0 ms"], [words.ms, 8.25, "8.3 ms"], [words.ms, 999.4, "999 ms"], [words.ms, 999.6, "1.00 s"],
    [words.ms, 12340, "12.3 s"], [words.ms, 61000, "1 min 1 s"],
    [words.us, 0, "0 µs"], [words.us, 3.14, "3.1 µs"], [words.us, 220.4, "220 µs"], [words.us, 1500, "1.5 ms"],
    [words.duration, 0, "0 s"], [words.duration, 3.44, "3.4 s"], [words.duration, 59.6, "1 min"], [words.duration, 3725, "1 h 2 min"],
    [words.duration, 90061, "1 d 1 h"], [words.duration, -75, "−1 min 15 s"],
  ];
  for (const [say, value, text] of said) assert.equal(say(value), text);
});

test("money begins with its currency and is not rounded to nothing", () => {
  assert.equal(words.money(12.345, "$"), "$12.35");
  assert.equal(words.money(0.001, "€"), "< €0.01");
  assert.equal(words.money(0, "$"), "$0.00");
  assert.equal(words.money(-3, "$"), "−$3.00");
  assert.equal(words.money(12345.6, "$"), "$12,346");
});

test("a comparison says which way it goes, also when it is the wrong one", () => {
  assert.equal(words.comparedTime(400, 1000), "60% sooner than");
  assert.equal(words.comparedTime(1500, 1000), "50% later than");
  assert.equal(words.comparedTime(1000, 1001), "as soon as");
  assert.equal(words.comparedTime(400, null), "");
  assert.equal(words.comparedShare(0.74, 0.33), "41 points more than");
  assert.equal(words.comparedShare(0.3, 0.4), "10 points fewer than");
  assert.equal(words.comparedShare(null, 0.4), "");
});

test("events are the same however the bytes are cut", () => {
  const text = ": ping\n\nevent: overview\ndata: {\"a\":1}\n\nevent:decisions\r\ndata:x\r\ndata: y\r\n\r\ndata: nameless\n\nevent: empty\n\n";
  const wanted = [["overview", '{"a":1}'], ["decisions", "x\ny"], ["", "nameless"]];
  let state = 1;
  const below = (limit) => (state = (state * 48271) % 2147483647) % limit;
  for (let round = 0; round < 500; round++) {
    const seen = [];
    const reader = new EventReader((name, data) => seen.push([name, data]));
    for (let at = 0; at < text.length;) {
      const size = 1 + below(round % 2 ? 3 : text.length);
      reader.feed(text.slice(at, at + size));
      at += size;
    }
    assert.deepEqual(seen, wanted);
  }
});

test("an event that has not ended is not given on", () => {
  const seen = [];
  new EventReader((name) => seen.push(name)).feed("event: overview\ndata: {}\n");
  assert.deepEqual(seen, []);
});
