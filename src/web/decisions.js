// SPDX-License-Identifier: Apache-2.0
//
// The stream of decisions, newest first, and why each was made.

import { arrange, find, make, mark, stretch, write } from "./page.js";
import * as words from "./words.js";

const KEPT_MAX = 400;
const SHOWN_STEP = 25; // at first, and more each time that more are asked for

const OUTCOMES = {
  running: { sign: "…", kind: "none" },
  ok: { sign: "✓", kind: "good" },
  local: { sign: "✓", kind: "none" },
  rejected: { sign: "!", kind: "note" },
  gone: { sign: "⤺", kind: "note" },
  busy: { sign: "✕", kind: "bad" },
  failed: { sign: "✕", kind: "bad" },
  broken: { sign: "✕", kind: "bad" },
  refused: { sign: "✕", kind: "bad" },
};
const lookOf = (outcome) => OUTCOMES[outcome] ?? { sign: "?", kind: "none" };
const STAGES = ["parse", "tokenize", "match", "decide", "queue"];

// An id may be a client's and come twice; with its time it is one request.
const keyOf = ({ id, time_ms }) => `${time_ms} ${id}`;
const cachedOf = ({ cached_tokens, expected_tokens }) => cached_tokens ?? expected_tokens;
const nameOf = (backend) => (backend === null || backend === undefined ? words.NOTHING
  : backend.url ? words.host(backend.url) : `backend ${backend.id}`);

function fact(name, value) {
  return make("div", {}, make("dt", {}, name), make("dd", {}, value));
}

function facts(one) {
  const told = one.cached_tokens === null ? "not told" : words.count(one.cached_tokens);
  return make("dl.facts", {},
    fact("request id", one.id || words.NOTHING),
    fact("path", one.path || words.NOTHING),
    fact("policy", one.policy ?? "none asked"),
    fact("status", one.status === null ? words.NOTHING : `${one.status}${one.problem ? ` ${one.problem}` : ""}`),
    fact("attempts", words.count(one.attempts)),
    fact("prompt", `${words.count(one.prompt_tokens)} tokens`),
    fact(one.by_events ? "cached, known" : "cached, expected", words.count(one.expected_tokens)),
    fact("cached, by engine", told),
    fact("output", `${words.count(one.output_tokens)} tokens${one.streamed ? ", streamed" : ""}`),
    fact("TTFT predicted", words.ms(one.predicted_ms)),
    fact("TTFT seen", words.ms(one.ttft_ms)),
    fact("per output token", words.ms(one.tpot_ms)),
    fact("whole request", words.ms(one.total_ms)));
}

const RIVAL_COLUMNS = [
  ["Backend", (rival) => nameOf(rival)],
  ["Cached", (rival) => words.count(rival.expected_tokens), "tokens"],
  ["Queued", (rival) => words.tokens(rival.queued_tokens), "tokens"],
  ["Running", (rival) => words.count(rival.running_requests), "requests"],
  ["Predicted", (rival) => words.ms(rival.predicted_ms), "TTFT"],
  ["Cost", (rival) => (rival.cost === null ? words.NOTHING : words.rate(rival.cost)), ""],
];

// The chosen one first, then the best of the others.
function rivals(one) {
  if (one.backend === null) return "";
  const { backend, expected_tokens, queued_tokens, running_requests, predicted_ms, cost } = one;
  const chosen = { ...backend, expected_tokens, queued_tokens, running_requests, predicted_ms, cost };
  const head = make("tr", {}, ...RIVAL_COLUMNS.map(([name, , unit]) => make("th", { scope: "col" }, name, make("small", {}, unit ?? ""))));
  const rows = [chosen, ...one.rivals].map((rival, at) => {
    const row = make(at === 0 ? "tr.chosen" : "tr", {});
    row.append(...RIVAL_COLUMNS.map(([name, say]) => make("td", { "data-label": name }, say(rival))));
    if (at === 0) row.firstChild.append(make("small", {}, " chosen"));
    return row;
  });
  const others = one.candidates - rows.length;
  return make("div.rivals", {},
    make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)),
    others > 0 ? make("p.note", {}, `and ${words.plural(others, "backend")} more that could have served it`) : "");
}

function stages({ stages_us }) {
  const total = STAGES.reduce((sum, name) => sum + (stages_us?.[name] ?? 0), 0);
  if (total === 0) return "";
  const bar = make("div.stages", { role: "img", "aria-label": `The router took ${words.us(total)}` });
  const legend = make("p.note", {}, `The router took ${words.us(total)}: `);
  STAGES.forEach((name, at) => {
    const part = make("i", { "data-stage": at, title: `${name} ${words.us(stages_us[name])}` });
    stretch(part, (stages_us[name] ?? 0) / total);
    bar.append(part);
    legend.append(make("span.key", { "data-stage": at }, `${name} ${words.us(stages_us[name] ?? null)}`), " ");
  });
  return make("div", {}, bar, legend);
}

function alternative({ round_robin, ttft_ms, saved_ms }) {
  const line = make("p.alternative", {});
  if (round_robin === null) {
    line.append("What round-robin would have done is not known.");
    return line;
  }
  const compared = words.comparedTime(ttft_ms, round_robin.ttft_ms);
  line.append(make("span.theirs", {}, "Round-robin (estimate)"),
    ` would have sent it to ${nameOf(round_robin.backend)}, with ${words.count(round_robin.cached_tokens)} tokens cached there`,
    round_robin.ttft_ms === null ? "." : ` and the first token after ${words.ms(round_robin.ttft_ms)}.`,
    compared && round_robin.ttft_ms !== null ? ` Here it came ${compared} that.` : "",
    saved_ms > 0 ? ` The cache saved ${words.ms(saved_ms)} of prefill.` : "");
  return line;
}

function explanation(one) {
  return make("div.why", {}, make("p.sentence", {}, one.why), alternative(one), rivals(one), stages(one), facts(one));
}

class Row {
  constructor(onToggle) {
    this.time = make("time", {});
    this.outcome = make("span.outcome", {});
    this.backend = make("strong", {});
    this.model = make("span.model", {});
    this.bar = make("i", {});
    this.share = make("b", {});
    this.ttft = make("span.ttft", {});
    this.button = make("button.summary", { type: "button", "aria-expanded": "false" },
      this.time, this.outcome, this.backend, this.model,
      make("span.meter.ours", {}, make("span.track", {}, this.bar), this.share), this.ttft);
    this.button.addEventListener("click", () => {
      this.open(!this.isOpen);
      onToggle();
    });
    this.node = make("li", {}, this.button);
  }

  get isOpen() {
    return this.button.getAttribute("aria-expanded") === "true";
  }

  open(isOpen) {
    mark(this.button, "aria-expanded", String(isOpen));
    find(".why", this.node)?.remove();
    if (isOpen) this.node.append(explanation(this.one));
  }

  show(one) {
    if (this.one?.serial === one.serial) return;
    this.one = one;
    const { sign, kind } = lookOf(one.outcome);
    write(this.time, words.clock(one.time_ms));
    this.outcome.dataset.kind = kind;
    write(this.outcome, `${sign} ${one.outcome}`);
    write(this.backend, nameOf(one.backend));
    write(this.model, one.model ?? "");
    stretch(this.bar, one.prompt_tokens > 0 ? cachedOf(one) / one.prompt_tokens : 0);
    write(this.share, `${words.tokens(cachedOf(one))} of ${words.tokens(one.prompt_tokens)} cached`);
    write(this.ttft, one.ttft_ms === null ? words.ms(one.total_ms) : words.ms(one.ttft_ms));
    mark(this.ttft, "title", one.ttft_ms === null ? "whole request" : "time to first token");
    if (this.isOpen) this.open(true);
  }
}

export function makeDecisions(router) {
  const kept = new Map(); // by key
  const rows = new Map();
  const filter = find("#decision-filter");
  const outcome = find("#outcome");
  const pause = find("#pause");
  const list = find("#decision-list");
  let isHeld = false; // by the button
  let isPointed = false; // a mouse is over the list
  let waiting = new Map(); // what came while the list was held
  let requests = 0;
  let shownMax = SHOWN_STEP;

  for (const name of Object.keys(OUTCOMES)) outcome.append(make("option", { value: name }, name));

  // Nobody can click what moves, or read it.
  const isPaused = () => isHeld || [...rows.values()].some((row) => row.isOpen);
  const isStill = () => isPaused() || isPointed || find(":focus-visible", list) !== null;

  function matches(one) {
    if (outcome.value === "!" && lookOf(one.outcome).kind !== "bad") return false;
    if (outcome.value.length > 1 && one.outcome !== outcome.value) return false;
    const wanted = filter.value.trim().toLowerCase();
    return wanted === "" || [one.backend?.url, one.model, one.id].join(" ").toLowerCase().includes(wanted);
  }

  function showPause() {
    mark(pause, "aria-pressed", String(isPaused()));
    write(pause, isPaused() ? "Resume" : "Pause");
    write(find("#held"), isStill() && waiting.size > 0 ? `${words.count(waiting.size)} new, held back while you look` : "");
  }

  function showEmpty(number) {
    const note = find("#decisions-empty");
    note.hidden = number > 0;
    write(note, kept.size > 0 ? "Nothing here matches. Enter looks for a request of that id among all that are kept."
      : requests > 0 ? "No decision is kept: decisions.keep is 0, metrics.enabled is false, or nothing was decided yet."
        : "No request yet: send one to the router, and it appears here with the reasons for its backend.");
  }

  function show() {
    const newest = [...kept.values()].sort((a, b) => b.time_ms - a.time_ms || b.serial - a.serial);
    for (const old of newest.splice(KEPT_MAX)) kept.delete(keyOf(old));
    const matching = newest.filter(matches);
    const shown = matching.slice(0, shownMax);
    find("#more").hidden = matching.length <= shownMax;
    arrange(list, shown.map((one) => {
      const key = keyOf(one);
      if (!rows.has(key)) rows.set(key, new Row(settle));
      rows.get(key).show(one);
      return rows.get(key).node;
    }));
    const keys = new Set(shown.map(keyOf));
    for (const key of rows.keys()) if (!keys.has(key)) rows.delete(key);
    showEmpty(shown.length);
    showPause();
  }

  // New rows wait while the list is paused, pointed at or focused; then they come in.
  function settle() {
    if (!isStill()) {
      for (const [key, one] of waiting) kept.set(key, one);
      waiting = new Map();
    }
    show();
  }

  function toggle() {
    const was = isPaused();
    if (was) for (const row of rows.values()) row.open(false);
    isHeld = !was;
    settle();
  }

  async function look(id) {
    const place = find("#found");
    const close = make("button.quiet", { type: "button" }, "Close");
    close.addEventListener("click", () => (place.hidden = true));
    let content = "";
    try {
      const one = await router.call("GET", `/decisions/${encodeURIComponent(id)}`);
      const { sign, kind } = lookOf(one.outcome);
      content = [make("p", {}, make("span.outcome", { "data-kind": kind }, `${sign} ${one.outcome}`),
        ` ${words.clock(one.time_ms)} · ${one.model ?? ""} · ${nameOf(one.backend)}`), explanation(one)];
    } catch (error) {
      content = [make("p", {}, `No decision of request ${id}: ${error.message}`)];
    }
    place.replaceChildren(close, ...content);
    place.hidden = false;
  }

  pause.addEventListener("click", toggle);
  for (const [name, isOver] of [["pointerenter", true], ["pointerleave", false]]) {
    list.addEventListener(name, ({ pointerType }) => {
      isPointed = isOver && pointerType === "mouse";
      settle();
    });
  }
  list.addEventListener("focusout", () => setTimeout(settle));
  find("#more").addEventListener("click", () => {
    shownMax += SHOWN_STEP;
    show();
  });
  outcome.addEventListener("change", show);
  filter.addEventListener("input", show);
  filter.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && filter.value.trim() !== "") look(filter.value.trim());
  });

  return {
    toggle,
    // Rows that are shown are updated at once; new ones may have to wait.
    take(decisions) {
      const into = isStill() ? waiting : kept;
      for (const one of decisions) (kept.has(keyOf(one)) ? kept : into).set(keyOf(one), one);
      if (waiting.size > KEPT_MAX) waiting = new Map([...waiting].slice(-KEPT_MAX));
    },
    show(overview) {
      requests = overview.totals.requests;
      show();
    },
    forget() {
      kept.clear();
      waiting.clear();
    },
  };
}
