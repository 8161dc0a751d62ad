// SPDX-License-Identifier: Apache-2.0
//
// The page as a whole: what came from the router goes to the parts that show it, once per frame.

import { makeCharts, Series } from "./charts.js";
import { makeDecisions } from "./decisions.js";
import { makeFleet } from "./fleet.js";
import { find, notify, oncePerFrame, write } from "./page.js";
import { makePrefixes } from "./prefixes.js";
import { Router } from "./router.js";
import { makeRouters } from "./routers.js";
import { makeTiles } from "./tiles.js";
import * as words from "./words.js";

const HIDDEN_MS_MAX = 60000; // then a page that nobody sees lets its stream go

const series = new Series();
let overview = null;
let heardAt = 0; // when it came
let state = { kind: "connecting" };

const router = new Router({
  overview(document, isWhole) {
    if (overview && document.uptime_s < overview.uptime_s) decisions.forget(); // another process
    overview = document;
    heardAt = Date.now();
    series.merge(document.series, isWhole);
    draw();
  },
  decisions(document) {
    decisions.take(document.decisions);
    draw();
  },
  state(next) {
    state = next;
    showState();
  },
});

const tiles = makeTiles();
const charts = makeCharts();
const fleet = makeFleet(router);
const routers = makeRouters();
const prefixes = makePrefixes();
const decisions = makeDecisions(router);

function showHeader() {
  find("#facts").hidden = false;
  write(find("#version"), overview.version);
  write(find("#policy"), overview.policy);
  write(find("#uptime"), words.duration(Math.floor(overview.uptime_s)));
  document.title = overview.recent.hit_rate === null ? "warmpath" : `${words.percent(overview.recent.hit_rate)} hits · warmpath`;
}

const draw = oncePerFrame(() => {
  if (overview === null) return;
  const main = find("#main");
  main.classList.remove("loading");
  main.removeAttribute("aria-busy");
  showHeader();
  tiles.show(overview, series);
  charts.show(series, overview.now_ms);
  fleet.show(overview);
  routers.show(overview);
  prefixes.show(overview);
  decisions.show(overview);
});

const CONNECTIONS = {
  connecting: "Connecting",
  live: "Live",
  polling: "Live, every 2 s",
  lost: "Reconnecting",
  token: "Token needed",
  hidden: "Paused",
};

function showState() {
  const { kind } = state;
  find("#connection").dataset.kind = kind;
  write(find("#connection"), CONNECTIONS[kind]);
  find("#main").hidden = kind === "token";
  find("#main").classList.toggle("stale", kind === "lost");
  const login = find("#login");
  const isNew = login.hidden && kind === "token";
  login.hidden = kind !== "token";
  if (kind === "token") {
    find("#login-error").hidden = !state.isWrong;
    find("#facts").hidden = true;
    if (isNew || state.isWrong) find("#token").select();
  }
  showLost();
}

function showLost() {
  const bar = find("#lost");
  bar.hidden = state.kind !== "lost";
  if (bar.hidden) return;
  const left = Math.max(0, Math.ceil((state.retryAt - Date.now()) / 1000));
  const age = overview === null ? "" : ` Figures are ${words.duration(Math.floor((Date.now() - heardAt) / 1000))} old.`;
  write(find("span", bar), `The router does not answer.${age} Next try in ${left} s.`);
}

function showTheme() {
  write(find("#theme"), { auto: "Auto", light: "Light", dark: "Dark" }[currentTheme()]);
  charts.redraw();
}

function nextTheme() {
  applyTheme(THEMES[(THEMES.indexOf(currentTheme()) + 1) % THEMES.length]);
  showTheme();
}

function seek(selector) {
  find(selector).focus();
  find(selector).scrollIntoView({ block: "center" });
}

const KEYS = {
  "/": () => seek("#fleet-filter"),
  d: () => seek("#decision-filter"),
  p: () => decisions.toggle(),
  t: nextTheme,
  1: () => charts.choose(0),
  2: () => charts.choose(1),
  3: () => charts.choose(2),
  "?": () => find("#keys").showModal(),
};

function onKey(event) {
  const isTyping = event.target.matches("input, select, textarea");
  if (event.key === "Escape" && event.target.type === "search") {
    event.target.value = "";
    event.target.dispatchEvent(new Event("input"));
    event.target.blur();
    return;
  }
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || find("dialog[open]") || !find("#login").hidden) return;
  if (Object.hasOwn(KEYS, event.key)) {
    event.preventDefault();
    KEYS[event.key]();
  }
}

// Streams are few: who is not looking gives his back.
let hiddenTimer = 0;

function onVisibility() {
  clearTimeout(hiddenTimer);
  if (document.hidden) {
    hiddenTimer = setTimeout(() => {
      if (state.kind === "token") return;
      router.stop();
      state = { kind: "hidden" };
      showState();
    }, HIDDEN_MS_MAX);
  } else if (state.kind === "hidden") {
    router.start();
  }
}

// A link may bring the token behind its `#`, where no server sees it.
function tokenOfLink() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token !== null) history.replaceState(null, "", location.pathname);
  return token ?? undefined;
}

find("#login form").addEventListener("submit", (event) => {
  event.preventDefault();
  const field = find("#token");
  router.start(field.value.trim());
  field.value = "";
});
find("#lost button").addEventListener("click", () => router.retryNow());
find("#leave").addEventListener("click", () => {
  router.forget();
  notify("The token is forgotten.");
});
find("#theme").addEventListener("click", nextTheme);
find("#help").addEventListener("click", KEYS["?"]);
document.addEventListener("keydown", onKey);
document.addEventListener("visibilitychange", onVisibility);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.redraw());
setInterval(showLost, 1000);

showTheme();
router.start(tokenOfLink());
