#!/usr/bin/python3
"""Writes warmpath-dashboard.json: the dashboard as Grafana imports it.

    deploy/grafana/dashboard.py            writes the file
    deploy/grafana/dashboard.py --check    says whether it is what would be written

Below are the panels, row by row, each with its title, its description and its queries; Grafana's
form of them is at the end.  In a query @router stands for the routers that are chosen at the top of
the page, @backend and @model for those and the chosen backends or models, @request for all three.
"""
import json
import pathlib
import sys

FILE = pathlib.Path(__file__).with_name("warmpath-dashboard.json")

FAULTS = 'outcome=~"busy|failed|broken|refused"'
QUANTILES = ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"))


def rate(metric, by=None):
    """The rate of a counter, summed."""
    word = f"sum by ({by}) " if by else "sum"
    return f"{word}(rate({metric}[$__rate_interval]))"


def quantile(share, metric, by=None):
    labels = f"{by}, le" if by else "le"
    name, selector = metric.split("{")
    return f"histogram_quantile({share}, sum by ({labels}) (rate({name}_bucket{{{selector}[$__rate_interval])))"


def ratio(part, whole):
    return f"{part} / {whole}"


def share_of(part, other):
    """Of two counters of a router that are apart, the share of the first."""
    part, other = rate(part + "{@router}"), rate(other + "{@router}")
    return f"{part} / ({part} + {other})"


def quantiles(metric, by=None, only=("p50", "p95", "p99")):
    name = f" {{{{{by}}}}}" if by else ""
    return [(quantile(share, metric, by), word + name) for share, word in QUANTILES if word in only]


TTFT = "warmpath_time_to_first_token_seconds{@model}"
TPOT = "warmpath_time_per_output_token_seconds{@model}"
DURATION = "warmpath_request_duration_seconds{@model}"
STAGE = "warmpath_routing_stage_seconds{@router}"
REQUESTS = "warmpath_requests_total{@request}"
FAILED = "warmpath_requests_total{@request, " + FAULTS + "}"
CACHED = "warmpath_cached_tokens_total{@backend}"
TOLD = "warmpath_cache_reported_prompt_tokens_total{@backend}"
PREDICTED = "warmpath_predicted_cached_tokens_total{@backend}"
WRONG = "warmpath_prediction_error_tokens_total{@backend}"
SAVED = "warmpath_saved_prefill_seconds_total{@backend}"
BACKEND_TTFT = "rate(warmpath_backend_time_to_first_token_seconds_{0}{{@backend}}[$__rate_interval])"
MEAN_TTFT = ratio(f"sum by (backend) ({BACKEND_TTFT.format('sum')})", f"sum by (backend) ({BACKEND_TTFT.format('count')})")
USABLE = "warmpath_backend_up{@backend} == 1 unless warmpath_backend_draining{@backend} == 1"
WAIT = ("sum by (backend) (warmpath_backend_queued_tokens{@backend})"
        " / max by (backend) (warmpath_backend_prefill_tokens_per_second{@backend})")

# The worst that any of the routers says of a backend.
STATE = ("max by (backend) ((warmpath_backend_ejected{@backend} == 1) * 4"
         " or (warmpath_backend_half_open{@backend} == 1) * 3"
         " or (warmpath_backend_up{@backend} == 0) + 5"
         " or (warmpath_backend_draining{@backend} == 1) * 2"
         " or warmpath_backend_busy{@backend} == 1"
         " or warmpath_backend_up{@backend} * 0)")
STATES = (("up", "green"), ("busy", "yellow"), ("draining", "blue"), ("on trial", "orange"), ("ejected", "red"),
          ("down", "dark-red"))
EVENTS = ("min by (backend) (warmpath_events_live{@backend} == 1 or warmpath_events_connected{@backend} - 1"
          " or warmpath_events_live{@backend})")
EVENT_STATES = {-1: ("no connection", "red"), 0: ("learning", "yellow"), 1: ("live", "green")}


# Kinds of panels.


def stat(title, text, targets, unit="short", **more):
    return {"type": "stat", "title": title, "text": text, "targets": targets, "unit": unit, "size": (4, 4), **more}


def lines(title, text, targets, unit="short", **more):
    return {"type": "timeseries", "title": title, "text": text, "targets": targets, "unit": unit, "size": (8, 8), **more}


def heat(title, text, metric, **more):
    name, selector = metric.split("{")
    query = f"sum by (le) (increase({name}_bucket{{{selector}[$__rate_interval]))"
    return {"type": "heatmap", "title": title, "text": text, "targets": [(query, "{{le}}")], "unit": "s", "size": (12, 9), **more}


def states(title, text, targets, mapping, **more):
    return {"type": "state-timeline", "title": title, "text": text, "targets": targets, "unit": "short", "size": (12, 8),
            "mapping": mapping, **more}


ROWS = [
    ("At a glance", False, [
        stat("Requests", "Requests that ended, per second. The line covers the chosen time range.", [(rate(REQUESTS), "requests")], "reqps"),
        stat("Hit rate", "Share of prompt tokens that engines had cached, over requests whose engine reports it. Covers all "
             "models.",
             [(ratio(rate(CACHED), rate(TOLD)), "hit rate")], "percentunit"),
        stat("Time to first token", "From the first byte of a request to the first token of its response, for streams. Includes "
             "the time in the router and in the engine's queue.",
             quantiles(TTFT), "s", size=(6, 4), spark=False),
        stat("GPU seconds saved", "Seconds of prefill that caches save each second: 3.2 means that 3.2 more accelerators would "
             "be busy without them.",
             [(rate(SAVED), "saved")], "none", decimals=2),
        stat("Failures", "Share of requests that ended as busy, failed, broken or refused. Refused includes invalid requests "
             "of clients; requests that clients cancelled do not count.",
             [(f"({rate(FAILED)} or vector(0)) / {rate(REQUESTS)}", "failures")], "percentunit", size=(3, 4),
             thresholds=((None, "green"), (0.01, "orange"), (0.05, "red"))),
        stat("Usable backends", "Backends that may get new requests: up and not draining. With several routers, the lowest "
             "count of them.",
             [(f"min(count by (instance) ({USABLE})) or vector(0)", "usable")],
             size=(3, 4), thresholds=((None, "red"), (1, "green"))),
        lines("Requests by outcome", "Ended requests per second, by outcome. Refused: an error of the router itself, see Problems "
              "below. Gone: the client left.",
              [(rate(REQUESTS, "outcome"), "{{outcome}}")], "reqps", size=(12, 8), stack=True,
              colors={"ok": "green", "rejected": "yellow", "busy": "orange", "failed": "red", "broken": "dark-red",
                      "refused": "purple", "local": "blue", "gone": "text"}),
        lines("Time to first token", "50%, 95% and 99% of streams start within this time.",
              quantiles(TTFT), "s", size=(12, 8)),
    ]),
    ("Latency", False, [
        heat("First tokens", "Streams by time to first token. Two bands are two kinds of requests: cache hits "
             "and misses.", TTFT),
        heat("Whole responses", "Requests with outcome ok, by their duration.", DURATION),
        lines("Time to first token by model", "The 50th and 95th percentile of each model.",
              quantiles(TTFT, "model", ("p50", "p95")), "s"),
        lines("Time per output token by model", "Time between tokens of a stream after the first, as the mean of each "
              "request: how fast text appears.",
              quantiles(TPOT, "model", ("p50", "p95")), "s"),
        lines("Whole response by model", "From the first byte of a request to the last of its response. It grows with the length "
              "of responses.",
              quantiles(DURATION, "model", ("p50", "p95")), "s"),
        lines("Mean time to first token by backend", "A backend far above the others is slow or overloaded. A mean, since histograms "
              "by backend do not exist.",
              [(MEAN_TTFT, "{{backend}}")], "s", size=(12, 8)),
        lines("Output tokens by backend", "Output tokens per second.",
              [(rate("warmpath_output_tokens_total{@backend}", "backend"), "{{backend}}")], "si:tok/s", size=(12, 8), stack=True),
    ]),
    ("Caches", False, [
        lines("Hit rate", "Share of prompt tokens that engines had cached: the whole fleet, and each backend.",
              [(ratio(rate(CACHED), rate(TOLD)), "all"), (ratio(rate(CACHED, "backend"), rate(TOLD, "backend")), "{{backend}}")],
              "percentunit", size=(12, 8), bounds=(0, 1)),
        lines("Prompt tokens: all, predicted, cached", "Prompt tokens per second; those that the router predicted as cached; those that "
              "engines reported as cached. "
              "The last two curves coincide while the router knows the caches.",
              [(rate(TOLD), "in prompts"), (rate(PREDICTED), "predicted as cached"), (rate(CACHED), "cached")], "si:tok/s",
              size=(12, 8)),
        lines("Prediction error", "Mean absolute difference of predicted and reported cached tokens, as a share of "
              "prompt tokens. "
              "High: caches are evicted, emptied or used by other clients, or block sizes differ.",
              [(ratio(rate(WRONG), rate(TOLD)), "all"), (ratio(rate(WRONG, "backend"), rate(TOLD, "backend")), "{{backend}}")],
              "percentunit"),
        lines("Too much or too little", "Predicted minus reported cached tokens, as a share of prompt tokens. Above zero "
              "the router predicts too much: an engine evicts more or was restarted. "
              "Below zero engines hold more than the router knows.",
              [(f"({rate(PREDICTED, 'backend')} - {rate(CACHED, 'backend')}) / {rate(TOLD, 'backend')}", "{{backend}}")],
              "percentunit"),
        lines("Saved prefill by backend", "Prefill seconds saved per second: the time that computing the cached tokens would take, at "
              "the learned speed of each backend.",
              [(rate(SAVED, "backend"), "{{backend}}")], "none", stack=True),
        lines("Requests with reported cache hits", "Share of successful requests whose engine reported its cached tokens. Zero: "
              "reporting is off in the engine, see docs/routing.md.",
              [(ratio(rate("warmpath_cache_reports_total{@backend}"), rate('warmpath_requests_total{@backend, outcome="ok"}')),
                "reported")],
              "percentunit", bounds=(0, 1)),
        lines("Prompts by token ids", "For models with tokenizers: share of requests matched by token ids, and share of "
              "those whose token count differs from the engine's, which should be zero.",
              [(share_of("warmpath_tokenizer_token_id_requests_total", "warmpath_tokenizer_text_requests_total"), "by token ids"),
               (share_of("warmpath_tokenizer_drifted_requests_total", "warmpath_tokenizer_confirmed_requests_total"),
                "counted otherwise")],
              "percentunit", bounds=(0, 1)),
        lines("Remembered text", "Share of prompt text whose token ids were remembered.",
              [(ratio(rate("warmpath_tokenizer_remembered_bytes_total{@router}"),
                      rate("warmpath_tokenizer_text_bytes_total{@router}")), "remembered")],
              "percentunit", bounds=(0, 1)),
    ]),
    ("Fleet", False, [
        states("State of each backend", "The worst state that any router reports. Down: probes fail. Ejected: requests failed "
               "there. On trial: one request is let through. "
               "Busy: it responded 429 or 503. Draining: set by the operator.",
               [(STATE, "{{backend}}")], dict(enumerate(STATES)), size=(24, 7)),
        {"type": "table", "title": "Backends now",
         "text": "Each backend over all chosen routers, at the end of the time range.", "unit": "short", "size": (24, 8),
         "targets": [("State", STATE, "state"),
                     ("Requests/s", rate("warmpath_requests_total{@backend}", "backend"), "reqps"),
                     ("In flight", "sum by (backend) (warmpath_backend_requests_in_flight{@backend})", "short"),
                     ("Queued tokens", "sum by (backend) (warmpath_backend_queued_tokens{@backend})", "short"),
                     ("Hit rate", ratio(rate(CACHED, "backend"), rate(TOLD, "backend")), "percentunit"),
                     ("First token", MEAN_TTFT, "s"),
                     ("Prefill tokens/s", "avg by (backend) (warmpath_backend_prefill_tokens_per_second{@backend})", "short"),
                     ("KV memory", "max by (backend) (warmpath_backend_kv_usage_ratio{@backend})", "percentunit"),
                     ("Faults/s", rate("warmpath_backend_faults_total{@backend}", "backend"), "reqps")]},
        lines("In flight", "Requests in flight to each backend.",
              [("sum by (backend) (warmpath_backend_requests_in_flight{@backend})", "{{backend}}")], stack=True),
        lines("Queued tokens",
              "Uncached prompt tokens that each backend still has to compute for these routers, by their estimate.",
              [("sum by (backend) (warmpath_backend_queued_tokens{@backend})", "{{backend}}")]),
        lines("Wait for prefill", "Queued tokens over learned speed: the wait of a new request before its own prompt is "
              "computed.",
              [(WAIT, "{{backend}}")], "s"),
        lines("Prefill rate", "Uncached tokens per second that each backend computes, learned from times to first token.",
              [("avg by (backend) (warmpath_backend_prefill_tokens_per_second{@backend})", "{{backend}}")]),
        lines("Decode step", "Learned time between two tokens of one response. It grows with the batch and its contexts.",
              [("avg by (backend) (warmpath_backend_decode_step_seconds{@backend})", "{{backend}}")], "s"),
        lines("KV memory in use", "By the engine's own metrics. At 100% the engine evicts cached blocks or preempts requests.",
              [("max by (backend) (warmpath_backend_kv_usage_ratio{@backend})", "{{backend}}")], "percentunit", bounds=(0, 1)),
        lines("Requests by backend", "Ended requests per second, by the backend of the last attempt.",
              [(rate('warmpath_requests_total{@request, backend!="none"}', "backend"), "{{backend}}")], "reqps", stack=True),
        lines("Faults and retries", "Failed attempts per second that count against a backend's health, and retries.",
              [(rate("warmpath_backend_faults_total{@backend}", "backend") + " > 0", "{{backend}}"),
               (rate("warmpath_retries_total{@router}"), "retries")], "reqps"),
        lines("Requests of others", "Requests on each engine that did not come through the routers, by its metrics. The router "
              "cannot plan for them.",
              [("max by (backend) (warmpath_backend_foreign_requests{@backend})", "{{backend}}")]),
    ]),
    ("Routing cost", True, [
        lines("p50 by stage", "Median time in the router, by stage: finding the prompt (parse), ids and "
              "hashes (tokenize), holders of its prefix (match), the choice (decide), waiting (queue).",
              [(quantile(0.5, STAGE, "stage"), "{{stage}}")], "s"),
        lines("p99 by stage", "99% of requests take less. Long prompts take longer to parse and to tokenize.",
              [(quantile(0.99, STAGE, "stage"), "{{stage}}")], "s"),
        lines("Mean of a request", "Mean time of all stages of a request, stacked.",
              [(rate("warmpath_routing_stage_seconds_sum{@router}", "stage") + " / on () group_left () "
                + rate("warmpath_requests_total{@router}"), "{{stage}}")], "s", stack=True),
    ]),
    ("KV events", True, [
        states("Events of each backend", "Live: the router knows all cached blocks of the engine. Learning: the engine may hold more. The "
               "worst state that any router reports.",
               [(EVENTS, "{{backend}}")], EVENT_STATES),
        lines("Silence", "Time since the last message of each backend. An idle engine sends nothing; a busy one that is silent "
              "has stopped publishing.",
              [("max by (backend) (warmpath_events_silence_seconds{@backend})", "{{backend}}")], "s", size=(12, 8)),
        lines("Lag", "Age of the last message of each backend on arrival, by the clocks of engine and router.",
              [("max by (backend) (warmpath_events_lag_seconds{@backend})", "{{backend}}")], "s"),
        lines("Messages", "Messages per second. Strays came on a shared socket and belong to no backend.",
              [(rate("warmpath_events_messages_total{@backend}", "backend"), "{{backend}}"),
               (rate("warmpath_events_stray_messages_total{@router}") + " > 0", "strays")], "cps"),
        lines("Gaps", "Gaps, missed messages, replays, and replays that did not bring the missed messages, in each "
              "interval.",
              [("sum(increase(warmpath_events_gaps_total{@backend}[$__rate_interval]))", "gaps"),
               ("sum(increase(warmpath_events_missed_messages_total{@backend}[$__rate_interval]))", "messages missed at first"),
               ("sum(increase(warmpath_events_replays_total{@backend}[$__rate_interval]))", "replays"),
               ("sum(increase(warmpath_events_failed_replays_total{@backend}[$__rate_interval]))", "failed replays")]),
        lines("Starts over", "Restarts of a record: sequence numbers or connections started again, records were "
              "discarded, messages were malformed.",
              [("sum by (backend) (increase(warmpath_events_restarts_total{@backend}[$__rate_interval])) > 0",
                "restart {{backend}}"),
               ("sum by (backend) (increase(warmpath_events_purges_total{@backend}[$__rate_interval])) > 0", "purge {{backend}}"),
               ("sum by (backend) (increase(warmpath_events_malformed_messages_total{@backend}[$__rate_interval])) > 0",
                "malformed {{backend}}")]),
        lines("Blocks held", "Blocks that each backend holds, by its KV events.",
              [("max by (backend) (warmpath_events_blocks{@backend})", "{{backend}}")]),
        lines("Blocks stored and removed", "Blocks stored and removed per second, by KV events. Equal rates: "
              "the caches are full.",
              [(rate("warmpath_events_stored_blocks_total{@backend}"), "stored"),
               (rate("warmpath_events_removed_blocks_total{@backend}"), "removed")], "cps"),
        lines("Memory of the ledger", "Memory of the record of KV events, at most events.memory, and blocks refused per second for lack of it.",
              [("max(warmpath_ledger_memory_bytes{@router})", "in use"),
               ("max(warmpath_ledger_memory_limit_bytes{@router})", "limit"),
               (rate("warmpath_ledger_refused_blocks_total{@router}"), "blocks refused")], "bytes",
              units={"blocks refused": "cps"}),
    ]),
    ("Cluster", True, [
        lines("Peers", "Other routers that each router sees, and how many of them have missing batches. Every router should see all "
              "others.",
              [("min by (instance) (warmpath_cluster_peers{@router})", "{{instance}}"),
               ("sum(warmpath_cluster_incomplete_peers{@router}) > 0", "incomplete"),
               ("count(warmpath_cluster_up{@router} == 0)", "without a store")]),
        lines("Lag and silence of peers", "Longest way of batches from another router to each one, and longest time since it heard one "
              "of the others. They say that they are there four times a second, and have left after 2 s.",
              [("max by (instance) (warmpath_cluster_lag_seconds{@router})", "{{instance}} lag"),
               ("max by (instance) (warmpath_cluster_peer_silence_seconds{@router})", "{{instance}} silence")], "s"),
        lines("Requests at other routers", "Requests in flight that each router knows of at the others.",
              [("max by (instance) (warmpath_cluster_others_requests_in_flight{@router})", "{{instance}}")]),
        lines("Bytes", "Bytes to other routers or to the store, and back, per second, snapshots included.",
              [(rate("warmpath_cluster_bytes_sent_total{@router}"), "sent"),
               (rate("warmpath_cluster_bytes_received_total{@router}"), "received")], "Bps"),
        lines("Batches and notes", "Batches sent and received per second, and notes: things that workers learned.",
              [(rate("warmpath_cluster_batches_sent_total{@router}"), "sent"),
               (rate("warmpath_cluster_batches_received_total{@router}"), "received"),
               (rate("warmpath_cluster_notes_total{@router}"), "notes")], "cps"),
        lines("Lost", "Per second: batches and notes dropped because a queue was full, runs of missing batches (gaps), cut chains "
              "(orphans), frames of other versions (malformed), and of routers with another block size or cluster name (foreign).",
              [(rate("warmpath_cluster_batches_dropped_total{@router}"), "batches dropped"),
               (rate("warmpath_cluster_notes_dropped_total{@router}"), "notes dropped"),
               (rate("warmpath_cluster_gaps_total{@router}"), "gaps"),
               (rate("warmpath_cluster_orphans_total{@router}"), "orphans"),
               (rate("warmpath_cluster_malformed_frames_total{@router}"), "malformed"),
               (rate("warmpath_cluster_foreign_frames_total{@router}"), "foreign")], "cps"),
        lines("Snapshots", "Snapshots asked for, taken whole and given in each interval, and ended lives: restarts and emptied caches "
              "of backends.",
              [("sum(increase(warmpath_cluster_snapshots_asked_total{@router}[$__rate_interval]))", "asked"),
               ("sum(increase(warmpath_cluster_snapshots_taken_total{@router}[$__rate_interval]))", "taken"),
               ("sum(increase(warmpath_cluster_snapshots_given_total{@router}[$__rate_interval]))", "given"),
               ("max(increase(warmpath_cluster_ended_lives_total{@router}[$__rate_interval]))", "lives ended")]),
        lines("Last snapshot", "How long the last snapshot took each router, and the time since then.",
              [("max by (instance) (warmpath_cluster_snapshot_seconds{@router})", "took, {{instance}}"),
               ("min by (instance) (warmpath_cluster_snapshot_age_seconds{@router})", "age, {{instance}}")], "s"),
        lines("State of others", "Memory for the state of other routers, and open predictions: prompts that were sent and not yet "
              "confirmed.",
              [("sum by (instance) (warmpath_cluster_memory_bytes{@router})", "{{instance}}"),
               ("max(warmpath_cluster_open_predictions{@router})", "open predictions")], "bytes",
              units={"open predictions": "short"}),
    ]),
    ("Router", True, [
        lines("Processor", "Cores that each router uses. The line of workers is the most that it can use: close to that line the "
              "router is the bottleneck.",
              [("sum by (instance) (rate(process_cpu_seconds_total{@router}[$__rate_interval]))", "{{instance}}"),
               ("max(warmpath_workers{@router})", "workers")], "none"),
        lines("Memory", "Resident memory of each router, and memory of request bodies over all routers.",
              [("sum by (instance) (process_resident_memory_bytes{@router})", "{{instance}}"),
               ("sum(warmpath_body_memory_bytes{@router})", "bodies of requests")], "bytes"),
        lines("Descriptors", "Open descriptors of each router as a share of its limit. At the limit new connections wait.",
              [("max by (instance) (process_open_fds{@router} / process_max_fds{@router})", "{{instance}}")], "percentunit",
              bounds=(0, None)),
        lines("Connections", "Client connections, requests in flight and buffers in use.",
              [("sum(warmpath_client_connections{@router})", "connections"),
               ("sum(warmpath_requests_in_flight{@router})", "requests in flight"),
               ("sum(warmpath_buffers_in_use{@router})", "buffers in use")]),
        lines("Requests begun and retried", "Requests received per second, and retries.",
              [(rate("warmpath_requests_received_total{@router}"), "begun"),
               (rate("warmpath_retries_total{@router}"), "retries")], "reqps"),
        lines("Problems",
              "Error responses of the router itself per second, by code; docs/errors.md explains each.",
              [(rate("warmpath_problems_total{@router}", "code") + " > 0", "{{code}}")], "reqps", stack=True),
        lines("Connections to backends", "Idle connections kept for the next request, connections opened per second, and the share "
              "of attempts that reused a connection.",
              [("sum(warmpath_upstream_idle_connections{@router})", "kept"),
               (rate("warmpath_upstream_connections_opened_total{@router}"), "opened/s"),
               (share_of("warmpath_upstream_connections_reused_total", "warmpath_upstream_connections_opened_total"), "reused")],
              units={"reused": "percentunit"}),
        lines("Index size", "Memory of the prefix index, at most prefix.memory, and the runs of blocks in it.",
              [("sum by (instance) (warmpath_index_memory_bytes{@router})", "{{instance}}"),
               ("sum(warmpath_index_runs{@router})", "runs")], "bytes",
              units={"runs": "short"}),
        lines("Index evictions", "Runs per second dropped because the index was full, or because of their age. Lost: "
              "updates dropped because a queue was full.",
              [(rate("warmpath_index_evictions_total{@router}"), "evicted"),
               (rate("warmpath_index_expiries_total{@router}"), "expired"),
               (rate("warmpath_index_letters_lost_total{@router}"), "lost")], "cps"),
        lines("Dropped records", "Records per second dropped instead of delaying requests: log lines (disk), "
              "spans (collector), "
              "receipts (the scribe was too slow), requests missing from a recording.",
              [(rate("warmpath_access_log_dropped_lines_total{@router}"), "log lines"),
               (rate("warmpath_spans_dropped_total{@router}"), "spans"),
               (rate("warmpath_receipts_lost_total{@router}"), "receipts"),
               (rate("warmpath_recording_dropped_requests_total{@router}"), "recorded requests")], "cps",
              size=(12, 8)),
        lines("Written records", "Log lines, exported spans and recorded requests per second.",
              [(rate("warmpath_access_log_lines_total{@router}"), "log lines"),
               (rate("warmpath_spans_exported_total{@router}"), "spans"),
               (rate("warmpath_recorded_requests_total{@router}"), "recorded requests")], "cps", size=(12, 8)),
        stat("Versions", "Routers by version.",
             [("count by (version) (warmpath_build_info{@router})", "{{version}}")], size=(12, 4), spark=False),
        stat("Running since", "Start time of each router.", [("process_start_time_seconds{@router} * 1000", "{{instance}}")],
             "dateTimeFromNow", size=(12, 4), spark=False),
    ]),
]

ANNOTATIONS = [
    ("Router starts", "changes(process_start_time_seconds{@router}[$__rate_interval]) > 0", "{{instance}} was started", "blue"),
    ("Backend ejected",
     "changes(warmpath_backend_ejected{@backend}[$__rate_interval]) > 0 and warmpath_backend_ejected{@backend} == 1",
     "{{backend}} was ejected", "red"),
]

VARIABLES = [
    # Jobs and routers are named one by one: process_* of other programs must not match "all".
    ("job", "Job", "label_values(warmpath_build_info, job)", None),
    ("instance", "Router", 'label_values(warmpath_build_info{job=~"$job"}, instance)', None),
    ("model", "Model", 'label_values(warmpath_requests_total{job=~"$job", instance=~"$instance"}, model)', ".*"),
    ("backend", "Backend", 'label_values(warmpath_backend_info{job=~"$job", instance=~"$instance"}, backend)', ".*"),
]

# As Grafana wants it.

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
SELECTORS = {
    "@request": 'job=~"$job", instance=~"$instance", model=~"$model", backend=~"$backend"',
    "@backend": 'job=~"$job", instance=~"$instance", backend=~"$backend"',
    "@model": 'job=~"$job", instance=~"$instance", model=~"$model"',
    "@router": 'job=~"$job", instance=~"$instance"',
}


def full(query):
    for word, selector in SELECTORS.items():
        query = query.replace(word, selector)
    return query


def fixed_color(name, color):
    return {"matcher": {"id": "byName", "options": name},
            "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": color}}]}


def other_unit(name, unit):
    return {"matcher": {"id": "byName", "options": name},
            "properties": [{"id": "unit", "value": unit}, {"id": "custom.axisPlacement", "value": "right"}]}


def mappings(mapping):
    return [{"type": "value", "options": {str(value): {"index": index, "text": text, "color": color}
                                          for index, (value, (text, color)) in enumerate(mapping.items())}}]


def thresholds(steps):
    return {"mode": "absolute", "steps": [{"value": value, "color": color} for value, color in steps]}


def stat_shape(panel):
    steps = panel.get("thresholds", ((None, "blue"),))
    defaults = {"color": {"mode": "thresholds"}, "thresholds": thresholds(steps)}
    options = {"colorMode": "value", "graphMode": "area" if panel.get("spark", True) else "none", "justifyMode": "auto",
               "orientation": "auto", "textMode": "auto",
               "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}}
    return defaults, [], options


def lines_shape(panel):
    stacked = panel.get("stack", False)
    custom = {"drawStyle": "line", "lineInterpolation": "linear", "lineWidth": 1, "fillOpacity": 25 if stacked else 5,
              "showPoints": "never",
              "spanNulls": False, "stacking": {"mode": "normal" if stacked else "none", "group": "A"}, "axisSoftMin": 0}
    overrides = [fixed_color(name, color) for name, color in panel.get("colors", {}).items()]
    overrides += [other_unit(name, unit) for name, unit in panel.get("units", {}).items()]
    options = {"legend": {"displayMode": "table", "placement": "bottom", "showLegend": True, "calcs": ["mean", "max"]},
               "tooltip": {"mode": "multi", "sort": "desc"}}
    return {"color": {"mode": "palette-classic"}, "custom": custom}, overrides, options


def heat_shape(panel):
    options = {"calculate": False, "cellGap": 0, "color": {"mode": "scheme", "scheme": "Blues", "steps": 64, "reverse": False},
               "yAxis": {"unit": panel["unit"], "axisPlacement": "left", "decimals": 2}, "rowsFrame": {"layout": "auto"},
               "filterValues": {"le": 1e-9},
               "tooltip": {"mode": "single", "yHistogram": True}, "legend": {"show": False}}
    return {}, [], options


def states_shape(panel):
    defaults = {"color": {"mode": "thresholds"}, "mappings": mappings(panel["mapping"]),
                "custom": {"fillOpacity": 70, "lineWidth": 0}}
    options = {"mergeValues": True, "showValue": "never", "rowHeight": 0.8,
               "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
               "tooltip": {"mode": "single"}}
    return defaults, [], options


def table_shape(panel):
    columns = [(f"Value #{letter(index)}", title, unit) for index, (title, _, unit) in enumerate(panel["targets"])]
    overrides = []
    for _, title, unit in columns:
        properties = [{"id": "unit", "value": "short" if unit == "state" else unit}]
        if unit == "state":
            properties += [{"id": "mappings", "value": mappings(dict(enumerate(STATES)))},
                           {"id": "custom.cellOptions", "value": {"type": "color-text"}}]
        overrides.append({"matcher": {"id": "byName", "options": title}, "properties": properties})
    defaults = {"custom": {"align": "auto", "filterable": False}, "noValue": "–"}
    return defaults, overrides, {"showHeader": True, "cellHeight": "sm", "sortBy": [{"displayName": "Backend", "desc": False}]}


SHAPES = {"stat": stat_shape, "timeseries": lines_shape, "heatmap": heat_shape, "state-timeline": states_shape,
          "table": table_shape}


def letter(index):
    return chr(ord("A") + index)


def targets(panel):
    if panel["type"] == "table":
        return [{"refId": letter(index), "datasource": SOURCE, "expr": full(query), "format": "table", "instant": True,
                 "range": False}
                for index, (_, query, _) in enumerate(panel["targets"])]
    form = {"heatmap": "heatmap"}.get(panel["type"], "time_series")
    return [{"refId": letter(index), "datasource": SOURCE, "expr": full(query), "legendFormat": legend, "format": form,
             "instant": False, "range": True}
            for index, (query, legend) in enumerate(panel["targets"])]


def table_transformations(panel):
    names = {f"Value #{letter(index)}": title for index, (title, _, _) in enumerate(panel["targets"])}
    order = {"backend": 0, **{name: index + 1 for index, name in enumerate(names)}}
    return [{"id": "merge", "options": {}},
            {"id": "organize", "options": {"excludeByName": {"Time": True}, "indexByName": order,
                                           "renameByName": {"backend": "Backend", **names}}}]


def grafana_panel(panel, number, x, y):
    defaults, overrides, options = SHAPES[panel["type"]](panel)
    defaults["unit"] = panel["unit"]
    if "decimals" in panel:
        defaults["decimals"] = panel["decimals"]
    for key, bound in zip(("min", "max"), panel.get("bounds", ())):
        if bound is not None:
            defaults[key] = bound
    width, height = panel["size"]
    result = {"id": number, "type": panel["type"], "title": panel["title"], "description": panel["text"], "datasource": SOURCE,
              "gridPos": {"x": x, "y": y, "w": width, "h": height}, "fieldConfig": {"defaults": defaults, "overrides": overrides},
              "options": options, "targets": targets(panel)}
    if panel["type"] == "table":
        result["transformations"] = table_transformations(panel)
    return result


def place(panels, top):
    """Left to right, then down: (panel, x, y) of each, and where the next row begins."""
    placed, x, y, height = [], 0, top, 0
    for panel in panels:
        width = panel["size"][0]
        if x + width > 24:
            x, y, height = 0, y + height, 0
        placed.append((panel, x, y))
        x, height = x + width, max(height, panel["size"][1])
    return placed, y + height


def grafana_rows():
    result, number, y = [], 1, 0
    for title, collapsed, panels in ROWS:
        row = {"id": number, "type": "row", "title": title, "collapsed": collapsed, "gridPos": {"x": 0, "y": y, "w": 24, "h": 1},
               "panels": []}
        placed, end = place(panels, y + 1)
        made = [grafana_panel(panel, number + 1 + index, *where) for index, (panel, *where) in enumerate(placed)]
        number += 1 + len(made)
        result.append(row)
        if collapsed:
            row["panels"] = made
            y += 1
        else:
            result += made
            y = end
    return result


def grafana_variable(name, label, query, all_value):
    result = {"name": name, "label": label, "type": "query", "datasource": SOURCE, "query": {"query": query, "refId": name},
              "definition": query,
              "refresh": 2, "sort": 1, "multi": True, "includeAll": True, "hide": 0, "skipUrlSync": False,
              "current": {"selected": True, "text": ["All"], "value": ["$__all"]}, "options": [], "regex": ""}
    if all_value is not None:
        result["allValue"] = all_value
    return result


def dashboard():
    # The source chosen on import becomes the first choice of the variable.  A provisioned file has
    # no import: Grafana then takes its default source.
    source = {"name": "datasource", "label": "Source", "type": "datasource", "query": "prometheus", "refresh": 1, "hide": 0,
              "regex": "",
              "multi": False, "includeAll": False,
              "current": {"selected": True, "text": "${DS_PROMETHEUS}", "value": "${DS_PROMETHEUS}"}, "options": []}
    plugins = sorted({panel["type"] for _, _, panels in ROWS for panel in panels})
    return {
        "__inputs": [{"name": "DS_PROMETHEUS", "label": "Prometheus", "description": "The Prometheus that scrapes warmpath.",
                      "type": "datasource",
                      "pluginId": "prometheus", "pluginName": "Prometheus"}],
        "__requires": [{"type": "grafana", "id": "grafana", "name": "Grafana", "version": "10.0.0"},
                       {"type": "datasource", "id": "prometheus", "name": "Prometheus", "version": "1.0.0"},
                       *({"type": "panel", "id": plugin, "name": plugin, "version": ""} for plugin in plugins)],
        "id": None, "uid": "warmpath", "title": "warmpath", "tags": ["warmpath", "llm", "inference"], "schemaVersion": 38,
        "version": 1,
        "description": "Requests, caches, backends and routers of warmpath. Made by deploy/grafana/dashboard.py.",
        "editable": True, "graphTooltip": 1, "refresh": "30s", "time": {"from": "now-1h", "to": "now"}, "timezone": "",
        "weekStart": "",
        "fiscalYearStartMonth": 0, "liveNow": False, "links": [], "timepicker": {},
        "templating": {"list": [source, *(grafana_variable(*row) for row in VARIABLES)]},
        "annotations": {"list": [{"name": name, "enable": True, "hide": False, "iconColor": color, "datasource": SOURCE,
                                  "expr": full(query),
                                  "titleFormat": title, "step": "60s"} for name, query, title, color in ANNOTATIONS]},
        "panels": grafana_rows(),
    }


def main():
    text = json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"
    if "--check" in sys.argv[1:]:
        if not FILE.exists() or FILE.read_text(encoding="utf-8") != text:
            print(f"{FILE.name} is stale: run deploy/grafana/dashboard.py")
            return 1
        return 0
    FILE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
