// SPDX-License-Identifier: Apache-2.0
//
// The fleet: a row for each backend, some of them at a time, and what an operator does to one.

import { arrange, ask, find, make, mark, notify, stretch, write } from "./page.js";
import * as words from "./words.js";

const PAGE_ROWS = 50;

// How a state looks: never by colour alone.
const STATES = {
  up: { sign: "●", word: "Up", kind: "good" },
  draining: { sign: "◐", word: "Draining", kind: "note" },
  half_open: { sign: "◑", word: "On trial", kind: "note" },
  unknown: { sign: "○", word: "Not seen yet", kind: "none" },
  ejected: { sign: "▲", word: "Ejected", kind: "bad" },
  stalled: { sign: "■", word: "Stalled", kind: "bad" },
  down: { sign: "✕", word: "Down", kind: "bad" },
};
const stateOf = ({ state }) => STATES[state] ?? { sign: "○", word: state, kind: "none" };

const meter = () => make("span.meter", {}, make("span.track", {}, make("i", {})), make("b", {}));

function showMeter(cell, share, isBad = false) {
  stretch(find("i", cell), share);
  write(find("b", cell), words.percent(share));
  mark(cell.firstChild, "data-kind", isBad ? "full" : "");
}

const text = (say) => (cell, backend) => write(cell, say(backend));

// A column: its heading, what it is sorted by, how its cell is begun and shown.
const COLUMNS = [
  {
    id: "url", name: "Backend", of: ({ url }) => url,
    begin: () => [make("strong", {}), make("small", {})],
    show(cell, { url, pool, models }) {
      write(cell.firstChild, words.host(url));
      mark(cell.firstChild, "title", url);
      write(cell.lastChild, [pool, ...(models ?? [])].filter(Boolean).join(" · "));
      mark(cell.lastChild, "title", cell.lastChild.textContent);
    },
  },
  {
    id: "state", name: "State", of: (backend) => stateOf(backend).word,
    begin: () => [make("span.sign", { "aria-hidden": "true" }), make("span", {})],
    show(cell, backend) {
      const { sign, word, kind } = stateOf(backend);
      mark(cell, "data-kind", kind);
      write(cell.firstChild, sign);
      write(cell.lastChild, word);
    },
  },
  { id: "in_flight", name: "In flight", isNumber: true, of: (b) => b.in_flight, show: text((b) => words.count(b.in_flight)) },
  { id: "queued_tokens", name: "Queued", unit: "tokens", isNumber: true, of: (b) => b.queued_tokens,
    show: text((b) => words.tokens(b.queued_tokens)) },
  { id: "kv_usage", name: "KV memory", of: (b) => b.kv_usage, begin: () => [meter()],
    show: (cell, b) => showMeter(cell, b.kv_usage, b.kv_usage > 0.9) },
  { id: "hit_rate", name: "Cache hits", of: (b) => b.hit_rate, begin: () => [meter()], isOurs: true,
    show: (cell, b) => showMeter(cell, b.hit_rate) },
  { id: "ttft_p50_ms", name: "TTFT p50", isNumber: true, of: (b) => b.ttft_p50_ms, show: text((b) => words.ms(b.ttft_p50_ms)) },
  { id: "ttft_p95_ms", name: "TTFT p95", isNumber: true, of: (b) => b.ttft_p95_ms, show: text((b) => words.ms(b.ttft_p95_ms)) },
  { id: "requests_per_s", name: "Requests", unit: "/s", isNumber: true, of: (b) => b.requests_per_s,
    show: text((b) => words.rate(b.requests_per_s)) },
  { id: "failures", name: "Failures", isNumber: true, of: (b) => b.failures,
    show(cell, { failures }) {
      write(cell, words.count(failures));
      mark(cell, "data-kind", failures > 0 ? "bad" : "");
    } },
  { id: "events", name: "Events", of: (b) => b.events, show: text((b) => (b.events === "none" ? words.NOTHING : b.events)) },
  { id: "weight", name: "Weight", isNumber: true, of: (b) => b.weight, begin: () => [make("button.quiet", { type: "button" })],
    show(cell, { weight, url }) {
      write(cell.firstChild, `× ${weight}`);
      mark(cell.firstChild, "aria-label", `Weight ${weight} of ${words.host(url)}: change`);
    } },
  { id: "action", name: "", begin: () => [make("button", { type: "button" })],
    show(cell, { draining, url }) {
      write(cell.firstChild, draining ? "Ready" : "Drain");
      mark(cell.firstChild, "aria-label", `${draining ? "Ready" : "Drain"} ${words.host(url)}`);
    } },
];

class Row {
  constructor(actions) {
    this.node = make("tr", { role: "row" });
    for (const column of COLUMNS) {
      const cell = make("td", { role: "cell", "data-label": column.name, "data-column": column.id });
      if (column.isNumber) cell.classList.add("number");
      if (column.isOurs) cell.classList.add("ours");
      cell.append(...(column.begin?.() ?? []));
      this.node.append(cell);
    }
    this.button("weight").addEventListener("click", () => actions.weigh(this.backend));
    this.button("action").addEventListener("click", () => actions.turn(this.backend));
  }

  button(column) {
    return find(`[data-column=${column}] button`, this.node);
  }

  show(backend, isBusy) {
    this.backend = backend;
    this.node.dataset.id = backend.id;
    COLUMNS.forEach((column, at) => column.show(this.node.children[at], backend));
    for (const name of ["weight", "action"]) this.button(name).disabled = isBusy;
  }
}

// 10.0.0.9 before 10.0.0.10.  One for all: localeCompare would make one for each pair.
const collator = new Intl.Collator("en", { numeric: true });

// Unknown values come last, in either direction.
function byColumn({ of }, direction) {
  return (a, b) => {
    const [x, y] = [of(a) ?? null, of(b) ?? null];
    if (x === null || y === null) return (x === null) - (y === null) || a.id - b.id;
    const order = typeof x === "string" ? collator.compare(x, y) : x - y;
    return order * direction || a.id - b.id;
  };
}

const describe = ({ url, pool, state, models }) => [url, pool, state, ...(models ?? [])].join(" ").toLowerCase();

export function makeFleet(router) {
  const body = find("#backends tbody");
  const filter = find("#fleet-filter");
  const rows = new Map(); // by id
  const busy = new Set(); // an action is under way
  let backends = [];
  let sort = { column: COLUMNS[0], direction: 1 };
  let only = ""; // this state
  let page = 0;

  async function act(backend, change, done) {
    busy.add(backend.id);
    show();
    try {
      await change();
      notify(done);
    } catch (error) {
      notify(error.message, "bad");
    }
    busy.delete(backend.id);
    show();
  }

  const actions = {
    async turn(backend) {
      const { id, draining, url, in_flight } = backend;
      const name = words.host(url);
      const running = in_flight === 1 ? "The one request that runs there ends" : `The ${words.count(in_flight)} requests that run there end`;
      const yes = await ask(draining
        ? { title: `Ready ${name}?`, text: "It gets requests again from now on.", action: "Ready" }
        : { title: `Drain ${name}?`, text: `Nothing new goes there. ${running} as they would. You can undo this.`, action: "Drain" });
      if (yes !== null) {
        act(backend, () => router.call("POST", `/backends/${id}/${draining ? "ready" : "drain"}`),
          draining ? `${name} is ready.` : `${name} drains.`);
      }
    },
    async weigh(backend) {
      const name = words.host(backend.url);
      const weight = await ask({ title: `Weight of ${name}`, number: backend.weight, action: "Change",
        text: "How much it can take beside the others: 2 is twice the load of 1." });
      if (weight !== null && weight !== backend.weight) {
        act(backend, () => router.call("PATCH", `/backends/${backend.id}`, { weight }), `${name} has weight ${weight}.`);
      }
    },
  };

  function setSort(column, direction) {
    sort = { column, direction };
    for (const head of find("#backends thead tr").children) {
      const isIt = head.dataset.column === column.id;
      if (isIt) head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    }
    find("#sort").value = column.id;
    show();
  }

  function makeHeads() {
    for (const column of COLUMNS) {
      const head = make("th", { role: "columnheader", scope: "col", "data-column": column.id });
      if (column.isNumber) head.classList.add("number");
      if (column.of) {
        const button = make("button", { type: "button" }, column.name, make("small", {}, column.unit ?? ""));
        // Figures begin with the largest: that is where one looks first.
        const first = column.isNumber || column.begin && column.id !== "url" && column.id !== "state" ? -1 : 1;
        button.addEventListener("click", () => setSort(column, sort.column === column ? -sort.direction : first));
        head.append(button);
        find("#sort").append(make("option", { value: column.id }, column.name));
      } else {
        head.append(make("span.hidden", {}, "Action"));
      }
      find("#backends thead tr").append(head);
    }
    find("#sort").addEventListener("change", (event) => {
      const column = COLUMNS.find(({ id }) => id === event.target.value);
      setSort(column, typeof column.of(backends[0] ?? {}) === "number" ? -1 : 1);
    });
  }

  const chips = new Map();

  function showChips() {
    const counts = new Map(Object.keys(STATES).map((state) => [state, 0]));
    for (const { state } of backends) counts.set(state, (counts.get(state) ?? 0) + 1);
    if (only !== "" && !counts.get(only)) only = "";
    for (const [state, number] of counts) {
      if (number > 0 && !chips.has(state)) {
        const { sign, word, kind } = stateOf({ state });
        const chip = make("button", { type: "button", "data-kind": kind, "data-state": state },
          make("span.sign", { "aria-hidden": "true" }, sign), make("span", {}), ` ${word.toLowerCase()}`);
        chip.addEventListener("click", () => {
          only = only === state ? "" : state;
          page = 0;
          show();
        });
        chips.set(state, chip);
      }
      const chip = chips.get(state);
      if (chip) {
        write(chip.children[1], words.count(number));
        mark(chip, "aria-pressed", String(only === state));
      }
    }
    arrange(find("#states"), [...counts].filter(([, number]) => number > 0).map(([state]) => chips.get(state)));
  }

  function showPages(matching) {
    const pages = Math.max(1, Math.ceil(matching / PAGE_ROWS));
    page = Math.min(page, pages - 1);
    const nav = find("#fleet .pages");
    nav.hidden = pages === 1;
    const first = page * PAGE_ROWS + 1;
    write(find("span", nav), `${first}–${Math.min(matching, first + PAGE_ROWS - 1)} of ${words.count(matching)}`);
    find("[data-step='-1']", nav).disabled = page === 0;
    find("[data-step='1']", nav).disabled = page === pages - 1;
  }

  function showEmpty(matching) {
    const note = find("#fleet-empty");
    note.hidden = matching > 0;
    find("#fleet .scroll").hidden = matching === 0;
    write(note, backends.length > 0 ? "No backend matches the filter."
      : "No backend yet: name some under backends: in the configuration, start with --backend URL, or POST /backends {\"url\": …} here.");
  }

  function show() {
    const wanted = filter.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    showChips();
    const matching = backends.filter((backend) => (only === "" || backend.state === only)
      && (wanted.length === 0 || wanted.every((word) => describe(backend).includes(word))));
    showEmpty(matching.length);
    showPages(matching.length);
    matching.sort(byColumn(sort.column, sort.direction));
    const shown = matching.slice(page * PAGE_ROWS, (page + 1) * PAGE_ROWS);
    const nodes = shown.map((backend) => {
      if (!rows.has(backend.id)) rows.set(backend.id, new Row(actions));
      const row = rows.get(backend.id);
      row.show(backend, busy.has(backend.id));
      return row.node;
    });
    arrange(body, nodes);
    const kept = new Set(shown.map(({ id }) => id));
    for (const id of rows.keys()) if (!kept.has(id)) rows.delete(id);
  }

  makeHeads();
  setSort(sort.column, sort.direction);
  filter.addEventListener("input", () => {
    page = 0;
    show();
  });
  find("#fleet .pages").addEventListener("click", ({ target }) => {
    page += Number(target.dataset.step ?? 0);
    show();
  });
  return {
    show(overview) {
      backends = overview.backends;
      show();
    },
    seek(url) {
      filter.value = words.host(url);
      only = "";
      page = 0;
      show();
      filter.scrollIntoView({ block: "center" });
      filter.focus();
    },
  };
}
