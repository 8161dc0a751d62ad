// SPDX-License-Identifier: Apache-2.0
//
// The headline: five figures, each beside what round-robin would have given, in plain words.

import { find, make, picture, stretch, write } from "./page.js";
import * as words from "./words.js";

// Two bars on one scale: ours, theirs.
function twins(tile) {
  const place = find(".twins", tile);
  const rows = ["ours", "theirs"].map((kind) => {
    const bar = make("i", {});
    const figure = make("b", {});
    place.append(make(`div.${kind}`, {}, make("span", {}, kind === "ours" ? "warmpath" : "round-robin (estimate)"), figure,
      make("span.track", {}, bar)));
    return { bar, figure };
  });
  return (values, longest, say) => values.forEach((value, at) => {
    stretch(rows[at].bar, longest > 0 ? value / longest : 0);
    write(rows[at].figure, say(value));
  });
}

function drawSpark(svg, values, longest) {
  const known = values.slice(-60);
  const step = 200 / Math.max(1, known.length - 1);
  const points = known.map((value, at) => `${(at * step).toFixed(1)},${(32 - 30 * ((value ?? 0) / longest)).toFixed(1)}`);
  if (svg.childElementCount === 0) svg.append(picture("path", { class: "area" }), picture("path", { class: "line" }));
  const line = points.length > 1 ? `M${points.join("L")}` : "";
  find(".area", svg).setAttribute("d", line && `${line}L200,34L0,34Z`);
  find(".line", svg).setAttribute("d", line);
}

export function makeTiles() {
  const tile = (name) => find(`#tile-${name}`);
  const [hits, ttft, saved, requests, failures] = ["hits", "ttft", "saved", "rate", "failures"].map(tile);
  const pairs = new Map([hits, ttft, saved].map((node) => [node, twins(node)]));
  const put = (node, { value, verdict, note }) => {
    write(find(".value", node), value);
    write(find(".verdict", node), verdict);
    if (note !== undefined) write(find(".note", node), note);
  };
  const against = (comparison) => (comparison ? `${comparison} round-robin` : "nothing to compare yet");

  function showHits(recent) {
    put(hits, {
      value: words.percent(recent.hit_rate, 1),
      verdict: recent.hit_rate === null && recent.requests_per_s > 0 ? "engines do not say what was cached"
        : against(words.comparedShare(recent.hit_rate, recent.round_robin_hit_rate)),
    });
    pairs.get(hits)([recent.hit_rate, recent.round_robin_hit_rate], 1, (share) => words.percent(share));
  }

  function showTtft(recent) {
    const [ours, theirs] = [recent.ttft_ms.p95, recent.round_robin_ttft_ms.p95];
    const half = recent.ttft_ms.p50 === null ? ""
      : `; half within ${words.ms(recent.ttft_ms.p50)}, round-robin: ${words.ms(recent.round_robin_ttft_ms.p50)}`;
    put(ttft, { value: words.ms(ours), verdict: against(words.comparedTime(ours, theirs)),
      note: `95% of streams begin within this${half}` });
    pairs.get(ttft)([ours, theirs], Math.max(ours ?? 0, theirs ?? 0), words.ms);
  }

  function showSaved(totals, price) {
    // A second of prefill is one on each GPU of the backend.
    const [ours, theirs] = [totals.saved_s, totals.round_robin_saved_s].map((s) => (s === null ? null : s * price.gpus));
    const isPriced = price.gpu_hour !== null;
    const more = isPriced ? totals.over_round_robin_money : ours - theirs;
    const say = isPriced ? (sum) => words.money(sum, price.currency) : words.duration;
    put(saved, {
      value: say(isPriced ? totals.saved_money : ours),
      verdict: ours ? `${say(Math.abs(more))} ${more < 0 ? "less" : "more"} than round-robin` : "nothing to compare yet",
      note: isPriced
        ? `for GPU time that caches made needless, at ${say(price.gpu_hour)} per GPU hour`
        : "of GPU time that caches made needless; set savings.gpu_hour_cents to see money",
    });
    pairs.get(saved)([ours, theirs], Math.max(ours, theirs), words.duration);
  }

  function showRate(recent, totals, series) {
    const longest = Math.max(1, ...series.requests_per_s.slice(-60));
    put(requests, {
      value: `${words.rate(recent.requests_per_s)} /s`,
      verdict: `${words.count(totals.in_flight)} in flight`,
      note: `${words.count(totals.requests)} since start; now ${words.tokens(Math.round(recent.prompt_tokens_per_s))} tokens/s in, `
        + `${words.tokens(Math.round(recent.output_tokens_per_s))} out`,
    });
    drawSpark(find(".spark", requests), series.requests_per_s, longest);
  }

  function showFailures(recent, totals, series) {
    const longest = Math.max(1, ...series.failures_per_s.slice(-60));
    const share = totals.requests > 0 ? totals.failures / totals.requests : 0;
    failures.dataset.kind = recent.failures_per_s > 0 ? "bad" : "good";
    put(failures, {
      value: words.count(totals.failures),
      verdict: recent.failures_per_s > 0 ? `${words.rate(recent.failures_per_s)} /s in the last minute` : "none in the last minute",
      note: `${words.percent(share, share > 0 && share < 0.1 ? 2 : 0)} of ${words.plural(totals.requests, "request")}; `
        + `${words.plural(totals.retries, "retry", "retries")} that clients did not notice`,
    });
    drawSpark(find(".spark", failures), series.failures_per_s, longest);
  }

  return {
    show({ recent, totals, price }, series) {
      showHits(recent);
      showTtft(recent);
      showSaved(totals, price);
      showRate(recent, totals, series);
      showFailures(recent, totals, series);
    },
  };
}
