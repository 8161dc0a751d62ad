// SPDX-License-Identifier: Apache-2.0
//
// Time series: warmpath and the estimate for round-robin, in the two colours of the whole page.

import { find, make } from "./page.js";
import * as words from "./words.js";

const POINTS_MAX = 720;
const HEIGHT = 210;
const SPAN_MS_MIN = 120000;

const COLUMNS = ["time_ms", "requests_per_s", "failures_per_s", "hit_rate", "round_robin_hit_rate", "ttft_p50_ms",
  "ttft_p95_ms", "round_robin_ttft_p50_ms", "round_robin_ttft_p95_ms", "saved_s", "round_robin_saved_s"];

// The time series so far.  A stream brings only new points; a new connection brings all of them.
export class Series {
  constructor() {
    for (const name of COLUMNS) this[name] = [];
  }

  merge(part, isWhole) {
    const times = part?.time_ms ?? [];
    // A clock that was set back begins again: what is "later" would never come.
    if (times.length > 0 && times.at(-1) < (this.time_ms.at(-1) ?? 0)) isWhole = true;
    const from = isWhole ? 0 : times.findIndex((time) => time > (this.time_ms.at(-1) ?? 0));
    if (isWhole) for (const name of COLUMNS) this[name] = [];
    if (from < 0 || times.length === 0) return;
    for (const name of COLUMNS) {
      this[name] = this[name].concat(part[name]?.slice(from) ?? times.slice(from).map(() => null)).slice(-POINTS_MAX);
    }
  }
}

// A colour of the sheet as a canvas takes it: without the choice between light and dark.
const probe = make("i", { hidden: "" });
document.body.append(probe);

function colour(name) {
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

// A point without neighbours has no line: it is drawn as a dot.
function lonely(chart, at) {
  const values = chart.data[at];
  const known = (value) => value !== null && value !== undefined;
  return values.flatMap((value, i) => (known(value) && !known(values[i - 1]) && !known(values[i + 1]) ? [i] : []));
}

function line(label, of, { stroke, width, dash, fill }) {
  return {
    label, of, width, dash,
    stroke: () => colour(stroke),
    fill: fill && (() => colour(fill)),
    points: { show: true, size: 5, filter: lonely, fill: () => colour(stroke) },
  };
}

const CHARTS = {
  hits: {
    say: (value) => words.percent(value, 1),
    tick: (value) => words.percent(value),
    range: () => [0, 1],
    lines: [
      line("warmpath", "hit_rate", { stroke: "--ours", width: 2.5, fill: "--ours-soft" }),
      line("round-robin (estimate)", "round_robin_hit_rate", { stroke: "--theirs", width: 2, dash: [5, 4] }),
    ],
  },
  ttft: {
    say: words.ms,
    tick: (value) => (value === 0 ? "0" : words.ms(value).replace(/\.0+ /, " ")),
    range: (chart, low, high) => [0, (high > 0 ? high : 100) * 1.08],
    lines: [
      line("warmpath p95", "ttft_p95_ms", { stroke: "--ours", width: 2.5 }),
      line("warmpath p50", "ttft_p50_ms", { stroke: "--ours", width: 1 }),
      line("round-robin p95 (estimate)", "round_robin_ttft_p95_ms", { stroke: "--theirs", width: 2, dash: [5, 4] }),
      line("round-robin p50 (estimate)", "round_robin_ttft_p50_ms", { stroke: "--theirs", width: 1, dash: [5, 4] }),
    ],
  },
};

class Chart {
  #plot = null;

  constructor(name, span) {
    this.kind = CHARTS[name];
    this.place = find(`#chart-${name} .plot`);
    this.caption = find(`#chart-${name} figcaption`).firstChild.textContent.trim();
    this.span = span;
    this.tip = make("div.tip", { hidden: "" });
    this.note = make("p.empty", { hidden: "" }, "No request yet: once there are some, this line begins.");
    this.place.append(this.note);
    this.place.addEventListener("keydown", (event) => this.#walk(event));
    new ResizeObserver(() => this.#resize()).observe(this.place);
  }

  show(series) {
    const data = [series.time_ms.map((time) => time / 1000), ...this.kind.lines.map(({ of }) => series[of])];
    this.#plot ??= this.#create(data);
    this.#plot.setData(data);
    this.note.hidden = data.slice(1).some((values) => values.some((value) => value !== null));
    const last = this.kind.lines.map(({ label, of }) => `${label} ${this.kind.say(series[of].at(-1) ?? null)}`);
    this.place.setAttribute("aria-label", `${this.caption}, latest: ${last.join(", ")}`);
  }

  redraw() {
    this.#plot?.redraw(false, true);
  }

  #create(data) {
    const axis = (size) => ({
      size, gap: 4, font: "11px system-ui, sans-serif",
      stroke: () => colour("--muted"),
      grid: { stroke: () => colour("--line"), width: 1 },
      ticks: { show: false },
    });
    const options = {
      width: this.place.clientWidth, height: HEIGHT, padding: [10, 8, 0, 0],
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, sync: { key: "time" }, y: false, points: { size: 7 } },
      scales: { x: { range: () => this.span() }, y: { range: this.kind.range } },
      axes: [
        { ...axis(26), space: 76, incrs: [15, 30, 60, 120, 300, 600, 900],
          values: (chart, times, at, space, step) => times.map((time) => this.#sayTime(chart, time, step)) },
        { ...axis(52), values: (chart, values) => values.map(this.kind.tick), space: 38 },
      ],
      series: [{}, ...this.kind.lines],
      hooks: { setCursor: [() => this.#showTip()] },
    };
    const plot = new uPlot(options, data, this.place);
    plot.over.append(this.tip);
    return plot;
  }

  // Nothing where the other axis has its figures, nor where it would be cut off.
  #sayTime(chart, time, step) {
    const [left, width] = [chart.valToPos(time, "x"), chart.over.clientWidth];
    return left < 24 || left > width - 20 ? "" : words.clock(time * 1000).slice(0, step < 60 ? 8 : 5);
  }

  #resize() {
    if (this.#plot && this.place.clientWidth > 0) {
      this.#plot.setSize({ width: this.place.clientWidth, height: HEIGHT });
    }
  }

  #walk(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const plot = this.#plot;
    if (!step || !plot || plot.data[0].length === 0) return;
    event.preventDefault();
    const last = plot.data[0].length - 1;
    const at = Math.min(last, Math.max(0, (plot.cursor.idx ?? last + 1) + step));
    plot.setCursor({ left: plot.valToPos(plot.data[0][at], "x"), top: 0 });
  }

  #showTip() {
    const plot = this.#plot;
    const { idx, left } = plot?.cursor ?? {};
    this.tip.hidden = idx === null || idx === undefined || left < 0;
    if (this.tip.hidden) return;
    const rows = this.kind.lines.map(({ label }, at) => {
      const row = make(`div.${label.startsWith("warmpath") ? "ours" : "theirs"}`, {}, make("span", {}, label));
      row.append(make("b", {}, this.kind.say(plot.data[at + 1][idx])));
      return row;
    });
    this.tip.replaceChildren(make("time", {}, words.clock(plot.data[0][idx] * 1000)), ...rows);
    // Beside the cursor, where there is more room; never outside.
    const [room, width] = [plot.over.clientWidth, this.tip.offsetWidth];
    const beside = left > room / 2 ? left - width - 12 : left + 12;
    this.tip.style.left = `${Math.max(0, Math.min(beside, room - width))}px`;
  }
}

export function makeCharts() {
  let minutes = 15;
  let nowMs = Date.now();
  let shown = new Series();
  // A router that has only just begun gets its lines as wide as they can be.
  const span = () => {
    const firstMs = shown.time_ms[shown.requests_per_s.findIndex((rate) => rate > 0)] ?? 0;
    const fromMs = Math.max(nowMs - minutes * 60000, Math.min(firstMs - 5000, nowMs - SPAN_MS_MIN));
    return [fromMs / 1000, nowMs / 1000];
  };
  const charts = Object.keys(CHARTS).map((name) => new Chart(name, span));
  const buttons = [...find("#range").children];
  const choose = (button) => {
    minutes = Number(button.dataset.minutes);
    for (const one of buttons) one.setAttribute("aria-pressed", String(one === button));
    for (const chart of charts) chart.show(shown);
  };
  for (const button of buttons) button.addEventListener("click", () => choose(button));
  return {
    show(series, wallMs) {
      shown = series;
      nowMs = wallMs;
      for (const chart of charts) chart.show(series);
    },
    choose: (number) => choose(buttons[number]),
    redraw: () => charts.forEach((chart) => chart.redraw()),
  };
}
