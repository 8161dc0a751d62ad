// SPDX-License-Identifier: Apache-2.0
//
// The router behind the page: its token, its API, and the stream of its figures.
//
//     connecting -> live            GET /stream
//                -> polling         GET /overview and /decisions, if /stream is refused
//                -> lost            no response; tried again, at longer and longer intervals
//                -> token           missing or wrong
//
// An EventSource cannot send a token, so the stream is read by hand.

const TOKEN_KEY = "warmpath.token";
const SILENCE_MS_MAX = 10000; // the stream says something every second
const POLL_MS = 2000;
const STREAM_AGAIN_MS = 30000;
const PATIENCE_MS = [1000, 2000, 4000, 8000, 15000];

class Refused extends Error {}
class NotStreamed extends Error {}

// Takes the bytes of an event stream and gives each event on.
export class EventReader {
  #rest = "";
  #name = "";
  #data = [];

  constructor(take) {
    this.take = take;
  }

  feed(text) {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop();
    for (const line of lines) this.#line(line.endsWith("\r") ? line.slice(0, -1) : line);
  }

  #line(line) {
    if (line === "") {
      if (this.#data.length > 0) this.take(this.#name, this.#data.join("\n"));
      this.#name = "";
      this.#data = [];
    } else if (line.startsWith("event:")) {
      this.#name = line.slice(6).trim();
    } else if (line.startsWith("data:")) {
      this.#data.push(line.slice(line[5] === " " ? 6 : 5));
    }
  }
}

export class Router {
  #life = null; // of the present connection
  #wake = null; // ends a pause
  #serial = 0; // of the newest decision, for polling
  #documents = 0;
  #uptime = 0;

  // listener: overview(document, isWhole), decisions(document), state({kind, …})
  constructor(listener) {
    this.listener = listener;
  }

  get token() {
    return sessionStorage.getItem(TOKEN_KEY) ?? "";
  }

  start(token = this.token) {
    this.stop();
    if (token === "") {
      this.listener.state({ kind: "token", isWrong: false });
      return;
    }
    sessionStorage.setItem(TOKEN_KEY, token);
    this.#life = new AbortController();
    this.#run(this.#life.signal);
  }

  stop() {
    this.#life?.abort();
    this.#life = null;
  }

  forget() {
    this.stop();
    sessionStorage.removeItem(TOKEN_KEY);
    this.listener.state({ kind: "token", isWrong: false });
  }

  retryNow() {
    this.#wake?.();
  }

  // The answer's document; an Error that says what the router said.
  async call(method, path, body) {
    const answer = await this.#fetch(method, path, { body: body && JSON.stringify(body) });
    const text = await answer.text();
    let document = null;
    try {
      document = text === "" ? null : JSON.parse(text);
    } catch {
      throw new Error(`The router said ${answer.status} and something that is not JSON.`);
    }
    if (!answer.ok) throw new Error(document?.error?.message ?? `The router said ${answer.status}.`);
    return document;
  }

  async #fetch(method, path, { body, signal } = {}) {
    const headers = { authorization: `Bearer ${this.token}` };
    const answer = await fetch(path, { method, body, signal, headers, cache: "no-store" });
    if (answer.status !== 401) return answer;
    this.stop();
    sessionStorage.removeItem(TOKEN_KEY);
    this.listener.state({ kind: "token", isWrong: true });
    throw new Refused("The token is not the one that this router has.");
  }

  async #run(signal) {
    this.listener.state({ kind: "connecting" });
    for (let failures = 0; !signal.aborted; ) {
      const before = this.#documents;
      try {
        await this.#stream(signal);
      } catch (error) {
        if (error instanceof Refused) return;
        if (error instanceof NotStreamed) await this.#poll(signal).catch(() => {});
      }
      if (signal.aborted) return;
      failures = this.#documents > before ? 0 : failures + 1;
      const wait = PATIENCE_MS[Math.min(failures, PATIENCE_MS.length - 1)];
      this.listener.state({ kind: "lost", retryAt: Date.now() + wait });
      await this.#pause(wait);
    }
  }

  async #stream(signal) {
    const silence = new AbortController();
    const either = AbortSignal.any([signal, silence.signal]);
    let timer = setTimeout(() => silence.abort(), SILENCE_MS_MAX);
    try {
      const answer = await this.#fetch("GET", "/stream", { signal: either });
      if (!answer.ok || !answer.headers.get("content-type")?.startsWith("text/event-stream")) {
        throw new NotStreamed();
      }
      let isFirst = true;
      const events = new EventReader((name, data) => {
        if (name === "overview") {
          this.#overview(JSON.parse(data), isFirst);
          if (isFirst) this.listener.state({ kind: "live" });
          isFirst = false;
        } else if (name === "decisions") {
          this.#decisions(JSON.parse(data));
        }
      });
      const text = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { value, done } = await text.read();
        if (done) return;
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), SILENCE_MS_MAX);
        events.feed(value);
      }
    } finally {
      clearTimeout(timer);
      silence.abort();
    }
  }

  async #poll(signal) {
    const until = Date.now() + STREAM_AGAIN_MS;
    while (!signal.aborted && Date.now() < until) {
      this.#overview(await this.call("GET", "/overview"), true);
      this.#decisions(await this.call("GET", `/decisions?limit=50&since=${this.#serial}`));
      if (signal.aborted) return;
      this.listener.state({ kind: "polling" });
      await this.#pause(POLL_MS);
    }
  }

  #overview(document, isWhole) {
    if (document.uptime_s < this.#uptime) this.#serial = 0; // another process: it counts anew
    this.#uptime = document.uptime_s;
    this.#documents++;
    this.listener.overview(document, isWhole);
  }

  #decisions(document) {
    this.#serial = document.serial;
    if (document.decisions.length > 0) this.listener.decisions(document);
  }

  #pause(waitMs) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, waitMs);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
