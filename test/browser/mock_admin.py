#!/usr/bin/env python3
"""An admin listener with made-up figures, for the dashboard alone: no router, no engines.

    test/browser/mock_admin.py --port 9090 --backends 8
    then open http://127.0.0.1:9090/dashboard#token=demo

docs/admin-api.md describes the real one.  This one serves states that are hard to bring about
there: no backend at all, a thousand of them, no request yet, a refused stream.  Files come from
src/web as they are, so that a reload of the page shows an edit.
"""
import argparse
import http.server
import json
import math
import pathlib
import random
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import web  # noqa: E402

STEP_S = 5
MODELS = ["codellama-13b", "llama-3-8b"]


class Figures:
    """A fleet that moves by itself."""

    def __init__(self, options):
        self.options = options
        self.rng = random.Random(7)
        self.begun = time.time() - 7300
        self.serial = 1000
        self.decisions = []
        self.backends = [self.make_backend(number) for number in range(options.backends)]
        count = 0 if options.idle else 720
        now = time.time()
        self.points = [self.make_point(now - STEP_S * (count - at)) for at in range(count)]

    def make_backend(self, number):
        state = "up"
        if self.options.backends >= 6:
            state = {2: "draining", 4: "down", 5: "half_open"}.get(number % 97, "up")
        return {"id": number + 1, "url": f"http://10.0.{number // 200}.{number % 200 + 11}:8000", "pool": "default",
                "state": state, "weight": 1, "draining": state == "draining", "in_flight": 0, "queued_tokens": 0,
                "requests": 0, "failures": 3 if state == "down" else 0, "refused_kinds": 0,
                "requests_per_s": 0.0, "hit_rate": None,
                "ttft_p50_ms": None, "ttft_p95_ms": None, "kv_usage": None, "prefill_tokens_per_s": None,
                "events": "live" if number % 3 else "none", "models": MODELS[:1 + number % 2]}

    def make_point(self, at):
        wave = math.sin(at / 90) * 0.05 + self.rng.uniform(-0.03, 0.03)
        hits, other = 0.74 + wave, 0.33 + wave / 2
        p50, p95 = 180 * (1 - wave), 420 * (1 - wave * 2)
        return {"time_ms": int(at // STEP_S * STEP_S * 1000), "requests_per_s": 38 + 90 * wave,
                "failures_per_s": 0.2 if self.rng.random() < 0.02 else 0, "hit_rate": hits, "round_robin_hit_rate": other,
                "ttft_p50_ms": p50, "ttft_p95_ms": p95, "round_robin_ttft_p50_ms": p50 * 1.9,
                "round_robin_ttft_p95_ms": p95 * 2.4 * (1 + self.rng.uniform(-0.05, 0.05)), "saved_s": 2.1,
                "round_robin_saved_s": 0.9}

    def move(self):
        """A second passes."""
        if self.options.idle:
            return
        if not self.points or time.time() - self.points[-1]["time_ms"] / 1000 >= 2 * STEP_S:
            self.points = (self.points + [self.make_point(time.time() - STEP_S)])[-720:]
        for row in self.backends:
            if row["state"] not in ("up", "half_open"):
                row.update(in_flight=0, queued_tokens=0, requests_per_s=0.0)
                continue
            row["in_flight"] = max(0, row["in_flight"] + self.rng.randint(-2, 2)) or 3
            row["queued_tokens"] = self.rng.randint(0, 9000)
            row["requests"] += 5
            row["requests_per_s"] = self.rng.uniform(3, 6)
            row["hit_rate"] = self.rng.uniform(0.6, 0.99)
            row["ttft_p50_ms"] = self.rng.uniform(150, 220)
            row["ttft_p95_ms"] = row["ttft_p50_ms"] * self.rng.uniform(2, 3)
            row["kv_usage"] = 0.95 if row["id"] % 7 == 0 else self.rng.uniform(0.4, 0.7)
        for _ in range(6):
            self.decide()

    def decide(self):
        usable = [row for row in self.backends if row["state"] == "up"]
        if not usable:
            return
        rng = self.rng
        chosen, other = rng.choice(usable), rng.choice(usable)
        prompt = rng.randint(300, 9000)
        cached = int(prompt * rng.uniform(0.4, 0.95)) // 16 * 16
        outcome = rng.choices(["ok", "failed", "gone", "running"], [90, 3, 3, 4])[0]
        self.serial += 1
        name = lambda row: {"id": row["id"], "url": row["url"]}
        self.decisions.insert(0, {
            "serial": self.serial, "id": f"req-{self.serial:08x}", "time_ms": int(time.time() * 1000),
            "model": rng.choice(MODELS), "path": "/v1/chat/completions", "policy": "warm", "backend": name(chosen),
            "outcome": outcome, "status": {"ok": 200, "failed": 502}.get(outcome), "problem": None, "attempts": 1,
            "streamed": True, "prompt_tokens": prompt, "expected_tokens": cached,
            "cached_tokens": cached if outcome == "ok" else None, "output_tokens": 180, "by_events": True,
            "candidates": len(usable), "running_requests": 5, "queued_tokens": 2048, "predicted_ms": 180.5, "cost": 1.92,
            "ttft_ms": 191.2 if outcome == "ok" else None, "tpot_ms": 14.2, "total_ms": 2750.0, "saved_ms": 320.0,
            "stages_us": {"parse": 12.1, "tokenize": 220.4, "match": 8.2, "decide": 3.1, "queue": 40.0},
            "round_robin": {"backend": name(other), "cached_tokens": 512, "ttft_ms": 612.0},
            "rivals": [{**name(row), "expected_tokens": 512, "queued_tokens": 4096, "running_requests": 8,
                        "predicted_ms": 410.0, "cost": 4.4} for row in usable[:6]],
            "why": f"{chosen['url']} had {cached} of the prompt's {prompt} tokens cached, and no other backend would "
                   "have begun to answer sooner."})
        del self.decisions[500:]

    def cluster(self):
        """The first of the others is there, the second catches up, the third is away, and so on."""
        peers = [{"router": f"{number:016x}", "name": f"host-{number}/4711", "address": f"10.0.1.{number}:7946",
                  "there": number % 3 != 0, "why": "Connection refused" if number % 3 == 0 else None, "heard_ms": 10 * number,
                  "bytes_in": 1 << 20, "bytes_out": 1 << 20, "frames_dropped": 0, "in_flight": 5 * number, "batches": 900,
                  "records": 4000, "gaps": 1, "complete": number % 3 != 2} for number in range(1, self.options.routers + 1)]
        is_up = not self.options.no_store
        return {"router": "f" * 16, "name": "host-0/4711", "kind": "redis" if self.options.no_store else "mesh", "up": is_up,
                "why": None if is_up else "no reply in time", "joining": False, "peers": peers}

    def overview(self, since_ms):
        points = [point for point in self.points if point["time_ms"] > since_ms]
        last = self.points[-1] if self.points else None
        nothing = {"p50": None, "p95": None, "p99": None}
        requests = 0 if self.options.idle else 45120 + int(time.time() - self.begun) * 5
        saved, other = (0, 0) if self.options.idle else (19800.5, 8600.2)
        price = self.options.price
        return {
            "version": "0.1.0", "now_ms": int(time.time() * 1000), "uptime_s": int(time.time() - self.begun),
            "policy": "warm", "price": {"gpu_hour": price, "currency": "$", "gpus": 1},
            "totals": {"requests": requests, "failures": 0 if self.options.idle else 17,
                       "retries": 0 if self.options.idle else 41,
                       "in_flight": sum(row["in_flight"] for row in self.backends), "connections": 64,
                       "queued_tokens": sum(row["queued_tokens"] for row in self.backends), "prompt_tokens": 1 << 30,
                       "cached_tokens": 1 << 29, "told_prompt_tokens": 1 << 30, "output_tokens": 1 << 28,
                       "saved_s": saved, "round_robin_saved_s": other,
                       "saved_money": None if price is None else saved / 3600 * price,
                       "over_round_robin_money": None if price is None else (saved - other) / 3600 * price,
                       "lost_receipts": 0},
            "recent": {"window_s": 60, "requests_per_s": last["requests_per_s"] if last else 0,
                       "failures_per_s": last["failures_per_s"] if last else 0,
                       "output_tokens_per_s": 6840 if last else 0, "prompt_tokens_per_s": 151200 if last else 0,
                       "hit_rate": last and last["hit_rate"], "round_robin_hit_rate": last and last["round_robin_hit_rate"],
                       "ttft_ms": {"p50": last["ttft_p50_ms"], "p95": last["ttft_p95_ms"], "p99": 900.0} if last else nothing,
                       "round_robin_ttft_ms": {"p50": last["round_robin_ttft_p50_ms"],
                                               "p95": last["round_robin_ttft_p95_ms"], "p99": 1900.0} if last else nothing},
            **({"cluster": self.cluster()} if self.options.routers else {}),
            "backends": self.backends,
            "series": {"step_s": STEP_S, **{key: [point[key] for point in points] for key in self.make_point(0)}},
            "hottest": [] if self.options.idle else [
                {"prefix": f"{number * 0x9e3779b97f4a7c15 % (1 << 64):016x}", "tokens": 9000 // number, "requests": 900 / number,
                 "share": 0.31 / number, "holder_count": min(number + 1, len(self.backends)),
                 "holders": [{"id": row["id"], "url": row["url"]} for row in self.backends[:number + 1]]}
                for number in range(1, 13)]}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, content, kind="application/json", **headers):
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.send_header("connection", "close")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def problem(self, status, message):
        self.answer(status, {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}})

    def is_allowed(self):
        return self.headers.get("authorization") == f"Bearer {self.server.options.token}"

    def do_GET(self):
        path, _, query = self.path.partition("?")
        asset = next((one for one in web.read_table() if one.path == path), None)
        if path == "/":
            self.answer(302, b"", location="/dashboard")
        elif asset:
            self.answer(200, asset.source.read_bytes(), asset.type)
        elif not self.is_allowed():
            self.problem(401, "A valid bearer token is needed")
        else:
            self.answer_figures(path, dict(pair.split("=") for pair in query.split("&") if pair))

    def answer_figures(self, path, query):
        figures = self.server.figures
        with self.server.lock:
            if path == "/overview":
                self.answer(200, figures.overview(int(query.get("since", 0))))
            elif path == "/decisions":
                new = [one for one in figures.decisions if one["serial"] > int(query.get("since", 0))]
                self.answer(200, {"serial": figures.serial, "decisions": new[:int(query.get("limit", 100))]})
            elif path.startswith("/decisions/"):
                one = next((one for one in figures.decisions if one["id"] == path.rpartition("/")[2]), None)
                self.answer(200, one) if one else self.problem(404, "There is nothing at this path: no such decision is kept")
            elif path != "/stream":
                self.problem(404, "There is nothing at this path")
        if path == "/stream":
            self.problem(503, "The router is at one of its limits") if self.server.options.no_stream else self.stream()

    def stream(self):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        figures, since, serial = self.server.figures, 0, 0
        while not self.server.ended.is_set():
            with self.server.lock:
                overview = figures.overview(since)
                new = [one for one in figures.decisions if one["serial"] > serial][:50]
                since = figures.points[-1]["time_ms"] if figures.points else 0
                serial = figures.serial
            text = f"event: overview\ndata: {json.dumps(overview)}\n\n"
            if new:
                text += f"event: decisions\ndata: {json.dumps({'serial': serial, 'decisions': new})}\n\n"
            try:
                self.wfile.write(text.encode())
                self.wfile.flush()
            except OSError:
                return
            self.server.ended.wait(1)

    def change(self, body):
        words = self.path.strip("/").split("/")
        row = next((row for row in self.server.figures.backends if words[1:2] == [str(row["id"])]), None)
        if not self.is_allowed():
            self.problem(401, "A valid bearer token is needed")
        elif row is None:
            self.problem(404, "There is nothing at this path: no such backend")
        elif self.command == "PATCH":
            row["weight"] = body["weight"]
            self.answer(200, row)
        else:
            row["draining"] = words[2] == "drain"
            row["state"] = "draining" if row["draining"] else "up"
            self.answer(200, row)

    def do_POST(self):
        size = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(size) or b"{}")
        with self.server.lock:
            self.change(body)

    do_PATCH = do_POST


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, options):
        super().__init__(("127.0.0.1", options.port), Handler)
        self.options = options
        self.lock = threading.Lock()
        self.ended = threading.Event()
        self.figures = Figures(options)
        threading.Thread(target=self.run_clock, daemon=True).start()

    def handle_error(self, *_):
        pass  # browsers leave when they like

    def run_clock(self):
        while not self.ended.is_set():
            with self.lock:
                self.figures.move()
            self.ended.wait(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=9090)
    parser.add_argument("--backends", type=int, default=8)
    parser.add_argument("--routers", type=int, default=0, help="others of a cluster")
    parser.add_argument("--no-store", action="store_true", help="the store of the cluster does not obey")
    parser.add_argument("--token", default="demo")
    parser.add_argument("--price", type=float, help="of a GPU hour")
    parser.add_argument("--idle", action="store_true", help="no request yet")
    parser.add_argument("--no-stream", action="store_true", help="GET /stream is refused")
    options = parser.parse_args()
    server = Server(options)
    print(f"ready http://127.0.0.1:{server.server_port}/dashboard#token={options.token}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
