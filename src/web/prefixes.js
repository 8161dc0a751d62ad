// SPDX-License-Identifier: Apache-2.0
//
// The beginnings that most prompts share: by hash, never by text.

import { arrange, find, make, mark, stretch, write } from "./page.js";
import * as words from "./words.js";

const SHOWN_MAX = 12;

class Row {
  constructor() {
    this.hash = make("code", {});
    this.size = make("span", {});
    this.bar = make("i", {});
    this.share = make("b", {});
    this.holders = make("span.holders", {});
    this.node = make("li", {},
      make("div.line", {}, this.hash, this.size),
      make("div.line.ours", {}, make("span.track", {}, this.bar), this.share),
      this.holders);
  }

  show({ prefix, tokens, requests, share, holder_count, holders }, largest) {
    write(this.hash, prefix);
    write(this.size, `${words.tokens(tokens)} tokens`);
    stretch(this.bar, share / largest);
    write(this.share, `${words.percent(share, share < 0.1 ? 1 : 0)} of requests`);
    mark(this.share, "title", `about ${words.count(requests)} lately`);
    const names = holders.map(({ url, id }) => (url ? words.host(url) : `backend ${id}`));
    write(this.holders, holder_count === 0 ? "held by nobody now" : `${words.plural(holder_count, "holder")}: ${names.join(", ")}`);
    mark(this.holders, "title", names.join("\n"));
  }
}

export function makePrefixes() {
  const rows = new Map(); // by hash
  return {
    show({ hottest, totals }) {
      const shown = (hottest ?? []).slice(0, SHOWN_MAX);
      const note = find("#prefixes-empty");
      note.hidden = shown.length > 0;
      write(note, totals.requests === 0 ? "No request yet." : "No two prompts have begun alike yet.");
      const largest = Math.max(...shown.map(({ share }) => share), 0.001);
      arrange(find("#prefix-list"), shown.map((one) => {
        if (!rows.has(one.prefix)) rows.set(one.prefix, new Row());
        rows.get(one.prefix).show(one, largest);
        return rows.get(one.prefix).node;
      }));
      const kept = new Set(shown.map(({ prefix }) => prefix));
      for (const prefix of rows.keys()) if (!kept.has(prefix)) rows.delete(prefix);
    },
  };
}
