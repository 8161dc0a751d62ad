// SPDX-License-Identifier: Apache-2.0
//
// The other routers of a cluster; without one nothing is shown.

import { arrange, find, make, mark, write } from "./page.js";
import * as words from "./words.js";

const STATES = {
  there: { sign: "●", word: "There", kind: "good" },
  behind: { sign: "◐", word: "Catching up", kind: "note" },
  away: { sign: "✕", word: "Away", kind: "bad" },
};
const stateOf = ({ there, complete }) => STATES[!there ? "away" : complete === false ? "behind" : "there"];

class Row {
  constructor() {
    this.sign = make("span.sign", { "aria-hidden": "true" });
    this.word = make("span", {});
    this.state = make("span", {}, this.sign, this.word);
    this.name = make("strong", {});
    this.load = make("span", {});
    this.heard = make("small", {});
    this.node = make("li", {}, this.state, this.name, this.load, this.heard);
  }

  show(peer) {
    const { sign, word, kind } = stateOf(peer);
    mark(this.state, "data-kind", kind);
    write(this.sign, sign);
    write(this.word, word);
    write(this.name, peer.name ?? peer.address ?? peer.router ?? words.NOTHING);
    mark(this.name, "title", peer.address ?? "");
    write(this.load, peer.there ? `${words.count(peer.in_flight)} in flight` : "");
    write(this.heard, peer.there ? `heard ${words.ms(peer.heard_ms)} ago` : peer.why ?? "");
    mark(this.heard, "title", this.heard.textContent);
  }
}

function noteOf({ kind, up, why, joining }) {
  if (!up) return `The store does not obey, nothing is shared: ${why ?? "not connected yet"}`;
  if (joining) return "This router waits for its first snapshot.";
  return kind === "mesh" ? "They tell each other directly what they learn." : "They tell each other through a store what they learn.";
}

export function makeRouters() {
  const rows = new Map(); // by id or address
  return {
    show({ cluster }) {
      find("#routers").hidden = !cluster;
      if (!cluster) return;
      const note = find("#routers .note");
      write(note, noteOf(cluster));
      mark(note, "data-kind", cluster.up ? "" : "bad");
      const peers = new Map(cluster.peers.map((peer) => [peer.router ?? peer.address, peer]));
      arrange(find("#router-list"), [...peers].map(([key, peer]) => {
        if (!rows.has(key)) rows.set(key, new Row());
        rows.get(key).show(peer);
        return rows.get(key).node;
      }));
      find("#routers-empty").hidden = peers.size > 0;
      for (const key of rows.keys()) if (!peers.has(key)) rows.delete(key);
    },
  };
}
