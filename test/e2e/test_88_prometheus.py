"""Prometheus and Grafana: the rules, the dashboard, and a real Prometheus beside the load
generator.
"""
import contextlib
import itertools
import json
import math
import random
import re
import subprocess
import sys
import time

import harness
import predictions
import pytest
from prometheus import (GRAFANA, ROOT, Prometheus, documented_metrics, documented_values, metrics_in, panels_of,
                        rules_text)

ENGINES = 4
REQUESTS = 400
TIMED_REQUESTS = 1500  # enough for a 99th percentile
MODEL = "llama-3.1-8b"
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}

# Queries that are empty in a healthy fleet: by the title of the panel and the name of the series.
MAY_BE_EMPTY = {
    # This fleet has no tokenizers.
    ("Prompts by token ids", "by token ids"), ("Prompts by token ids", "counted otherwise"), ("Remembered text", "remembered"),
    ("Faults and retries", "{{backend}}"), ("Messages", "strays"), ("Problems", "{{code}}"),
    ("Starts over", "restart {{backend}}"), ("Starts over", "purge {{backend}}"), ("Starts over", "malformed {{backend}}"),
    ("Router starts", None), ("Backend ejected", None),
}


@pytest.fixture
def dashboard():
    return json.loads((GRAFANA / "warmpath-dashboard.json").read_text(encoding="utf-8"))


def promtool(*words, text=None):
    run = subprocess.run(["promtool", *map(str, words)], input=text, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout + run.stderr


def queries_of(dashboard):
    """[(title, name of the series, expression)], those of annotations included."""
    panels = [(panel["title"], target.get("legendFormat", "table"), target["expr"])
              for panel in panels_of(dashboard) for target in panel["targets"]]
    return panels + [(one["name"], None, one["expr"]) for one in dashboard["annotations"]["list"]]


# The files by themselves.


@pytest.mark.timeout(60)
def test_promtool_accepts_the_rules_and_they_fire_as_tested():
    assert "SUCCESS" in promtool("check", "rules", GRAFANA / "alerts.yaml")
    promtool("test", "rules", GRAFANA / "alerts_test.yaml")


def test_every_alert_has_fired_in_a_scene():
    scenes = (GRAFANA / "alerts_test.yaml").read_text(encoding="utf-8")
    for alert in re.findall(r"alert: (\w+)", rules_text()):
        assert f'alertname="{alert}"' in scenes, alert


def test_every_alert_has_summary_description_severity_and_runbook():
    rules = re.split(r"^      - (?:alert|record): ", rules_text(), flags=re.M)[1:]
    for rule in (rule for rule in rules if rule.startswith("Warmpath")):
        assert re.search(r"severity: (critical|warning)\b", rule), rule
        assert "summary: " in rule and "description: " in rule, rule
        path, _, anchor = re.search(r"runbook: (\S+)", rule)[1].partition("#")
        headings = re.findall(r"^#+ (.*)$", (ROOT / path).read_text(encoding="utf-8"), re.M)
        anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert anchor in anchors, f"{path} has no #{anchor}"


def test_the_dashboard_is_what_its_program_writes():
    run = subprocess.run([sys.executable, str(GRAFANA / "dashboard.py"), "--check"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_dashboard_and_rules_use_metrics_labels_and_values_that_exist(dashboard):
    metrics, values = {**documented_metrics(), "up": {"job", "instance"}}, documented_values()
    expressions = [expression for *_, expression in queries_of(dashboard)]
    expressions += [variable["definition"] for variable in dashboard["templating"]["list"] if variable["type"] == "query"]
    # The rules without their annotations.
    expressions.append(re.sub(r"^ +(summary|description|runbook): .*(\n {12,}.*)*|^ *#.*", "", rules_text(), flags=re.M))
    used = [metric for expression in expressions for metric in metrics_in(expression)]
    assert len(used) > 200
    for name, matchers in used:
        assert name in metrics, name
        for label, operator, value in matchers:
            assert label in metrics[name], f"{name} has no label {label}"
            if label in values:
                for word in value.split("|"):
                    assert any(re.fullmatch(word, one) for one in values[label]), f"{label} is never {word}"


def test_every_metric_is_on_the_dashboard_or_left_out_on_purpose(dashboard):
    """A new metric is on the dashboard, or in this list."""
    shown = {name for *_, expression in queries_of(dashboard) for name, _ in metrics_in(expression)}
    histograms = {"warmpath_time_per_output_token_seconds", "warmpath_time_to_first_token_seconds",
                  "warmpath_request_duration_seconds", "warmpath_routing_stage_seconds"}
    elsewhere = {f"{name}{suffix}" for name in histograms for suffix in ("_sum", "_count")}
    elsewhere |= {  # of one backend, in the admin API and its page
        "warmpath_backend_probe_up", "warmpath_backend_weight", "warmpath_backend_decoding_requests",
        "warmpath_backend_context_tokens", "warmpath_backend_cache_tokens", "warmpath_backend_attempts_total",
        "warmpath_backend_info", "warmpath_prompt_tokens_total", "warmpath_ledger_runs", "warmpath_events_orphans_waiting",
        "warmpath_events_orphans_total", "warmpath_tokenizer_certified_features", "warmpath_tokenizer_revoked_features",
        "process_virtual_memory_bytes",
        "warmpath_poison_requests_total"}  # rare, and the log names each
    assert set(documented_metrics()) - shown - elsewhere == set()


def test_panels_are_numbered_placed_and_explained(dashboard):
    rows = [panel for panel in dashboard["panels"] if panel["type"] == "row"]
    panels = list(panels_of(dashboard))
    numbers = [panel["id"] for panel in rows + panels]
    assert len(set(numbers)) == len(numbers)
    for panel in panels:
        assert panel["description"] and panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}, panel["title"]
        letters = [target["refId"] for target in panel["targets"]]
        assert letters and len(set(letters)) == len(letters), panel["title"]
    # Panels that are visible together: the page with its folded rows, and each of those alone.
    for together in [dashboard["panels"]] + [row["panels"] for row in rows]:
        cells = [(panel["gridPos"]["x"] + dx, panel["gridPos"]["y"] + dy) for panel in together
                 for dx, dy in itertools.product(range(panel["gridPos"]["w"]), range(panel["gridPos"]["h"]))]
        assert len(set(cells)) == len(cells), "panels overlap"
        assert all(x < 24 for x, _ in cells), "a panel is too wide"


def test_the_dashboard_has_a_source_and_all_its_variables(dashboard):
    assert [(one["name"], one["pluginId"]) for one in dashboard["__inputs"]] == [("DS_PROMETHEUS", "prometheus")]
    variables = {one["name"] for one in dashboard["templating"]["list"]}
    assert variables == {"datasource", "job", "instance", "model", "backend"}
    for title, _, expression in queries_of(dashboard):
        assert set(re.findall(r"\$\{?(\w+)", expression)) <= variables | {"__rate_interval"}, title
        # process_* of other programs must not be included.
        assert expression.count('job=~"$job", instance=~"$instance"') == len(metrics_in(expression)), title


# A real Prometheus.


def write_trace(path, count):
    """Prompts of 24 groups with 1,024 tokens in common and a tail of their own, at random times.

    The engines are half loaded, so that waits have all lengths and quantiles are not on an edge.
    """
    rng, now_ms = random.Random(7), 0
    with open(path, "w", encoding="utf-8") as file:
        for number in range(count):
            now_ms += rng.expovariate(85) * 1000
            group = 10 * rng.randrange(24)
            length = 1024 + min(3000, int(rng.lognormvariate(6.4, 0.7)))
            own = [100_000 + 10 * number + block for block in range(-(-length // 512) - 2)]
            file.write(json.dumps({"timestamp": now_ms, "input_length": length, "output_length": rng.randint(4, 12),
                                   "hash_ids": [group + 1, group + 2, *own]}) + "\n")


def prometheus_config(site, metrics_port, directory):
    """The one in the README, with our addresses and every second."""
    token = directory / "token"
    token.write_text(harness.TOKEN)
    blocks = re.findall(r"```yaml\n(.*?)```", (GRAFANA / "README.md").read_text(encoding="utf-8"), re.S)
    config = next(block for block in blocks if block.startswith("# prometheus.yml"))
    for theirs, ours in (("15s", "1s"), ("/etc/prometheus/warmpath/alerts.yaml", str(GRAFANA / "alerts.yaml")),
                         ("/etc/prometheus/warmpath/token", str(token)), ("router:9090", f"127.0.0.1:{site.router.admin_port}"),
                         ("router:9091", f"127.0.0.1:{metrics_port}")):
        assert theirs in config, theirs
        config = config.replace(theirs, ours)
    return config


def check_counts(prometheus, requests, count):
    """All of them, by both ways to scrape; only the request for the models may have another
    outcome.
    """
    assert requests["succeeded"] == requests["sent"] == count, requests
    for job in ("warmpath", "warmpath-open"):
        def is_whole(job=job):
            return prometheus.number(f'sum(warmpath_requests_total{{job="{job}", outcome="ok"}})') == count
        harness.eventually(is_whole, lambda job=job: prometheus.query(f'warmpath_requests_total{{job="{job}"}}'), 10)
        ended = prometheus.by("outcome", f'sum by (outcome) (warmpath_requests_total{{job="{job}"}})')
        assert {outcome for outcome, count in ended.items() if count} <= {"ok", "local"}, ended
    assert prometheus.number('sum(warmpath_backend_attempts_total{job="warmpath"})') == count
    assert prometheus.number('sum(warmpath_time_to_first_token_seconds_count{job="warmpath"})') == count
    assert prometheus.number('sum(warmpath_request_duration_seconds_count{job="warmpath"})') == count


def first_tokens(lines):
    """Milliseconds from sending to the first token, ascending.  (The log counts from the due time.)
    """
    return sorted(line["first_ms"] - (line["sent_ms"] - line["due_ms"]) for line in lines)


def since_sent(lines):
    times = first_tokens(lines)
    return {name: times[math.ceil(share * len(times)) - 1] for name, share in QUANTILES.items()}


def check_first_tokens(prometheus, report):
    """The router's clock runs from the first byte that it reads.

    The generator's clock runs from the due time, and so do its figures.  They are compared if it
    sent in time; otherwise they would measure the machine.  Times from sending are always compared.
    """
    clients = [since_sent(report.responses)]
    if not report.summary["generator"]["doubt"]:
        clients.append(report.summary["ttft_ms"])
    routers = {name: 1000 * prometheus.number(f"histogram_quantile({share}, sum by (le) "
                                              '(warmpath_time_to_first_token_seconds_bucket{job="warmpath"}))')
               for name, share in QUANTILES.items()}
    for name, client in itertools.product(QUANTILES, clients):
        assert routers[name] == pytest.approx(client[name], rel=0.05), f"{name}: {routers}, {clients}"
    sum_ms = 1000 * prometheus.number('sum(warmpath_backend_time_to_first_token_seconds_sum{job="warmpath"})')
    assert sum_ms == pytest.approx(sum(first_tokens(report.responses)), rel=0.05)


def check_tokens(prometheus, site, backends):
    """For each backend: counts of the router, of the engine, and of the generator."""
    counters = {name: prometheus.by("backend", f'{name}{{job="warmpath"}}') for name in (
        "warmpath_prompt_tokens_total", "warmpath_cached_tokens_total", "warmpath_output_tokens_total",
        "warmpath_cache_reported_prompt_tokens_total", "warmpath_requests_total")}
    assert len(backends) == ENGINES
    for index in range(ENGINES):
        told = next(backend for backend in backends if backend["name"] == site.fleet.url(index))
        counted = [counters[name][site.fleet.url(index)] for name in (
            "warmpath_prompt_tokens_total", "warmpath_cached_tokens_total", "warmpath_output_tokens_total")]
        assert counted == [site.fleet.metric(name, index) for name in (
            "vllm:prompt_tokens_total", "vllm:prefix_cache_hits_total", "vllm:generation_tokens_total")]
        assert counted == [told["prompt_tokens"], told["cached_tokens"], told["output_tokens"]]
        assert counters["warmpath_cache_reported_prompt_tokens_total"][site.fleet.url(index)] == told["prompt_tokens"]
    assert sum(backend["cached_tokens"] for backend in backends) > 0.4 * sum(backend["prompt_tokens"] for backend in backends)
    assert prometheus.number('sum(warmpath_saved_prefill_seconds_total{job="warmpath"})') > 1


def check_rules(prometheus):
    """All rules are evaluated, and none fires in a healthy fleet."""
    harness.eventually(lambda: all(rule["health"] != "unknown" for rule in prometheus.rules()), "all rules are evaluated")
    rules = prometheus.rules()
    assert len(rules) == len(re.findall(r"^      - (?:alert|record): ", rules_text(), re.M))
    assert [rule for rule in rules if rule["health"] != "ok" or rule.get("lastError")] == []
    assert [rule["name"] for rule in rules if rule.get("state") == "firing"] == []
    # A bucket bound that an expression names exists.
    for name, matchers in metrics_in(rules_text()):
        for label, _, value in matchers:
            if label == "le":
                assert prometheus.query(f'{name}{{le="{value}"}}'), f"{name} has no bound {value}"


def check_dashboard(prometheus, dashboard, moment):
    """Every query is valid and has data under load, except for those about faults."""
    replacements = {"$job": "warmpath", "$instance": ".+", "$model": ".*", "$backend": ".*", "$__rate_interval": "10s"}
    empty = set()
    for title, legend, expression in queries_of(dashboard):
        for variable, value in replacements.items():
            expression = expression.replace(variable, value)
        rows = prometheus.query(expression, moment)
        # This fleet has one router.
        if all(math.isnan(value) for _, value in rows) and "warmpath_cluster_" not in expression:
            empty.add((title, legend))
    assert empty <= MAY_BE_EMPTY, sorted(empty - MAY_BE_EMPTY, key=str)
    for variable in dashboard["templating"]["list"][1:]:
        selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"]).groups()
        for name, value in replacements.items():
            selector = selector.replace(name, value)
        assert prometheus.ask(f"label/{label}/values", **{"match[]": selector}), variable["name"]


@contextlib.contextmanager
def scene(binary, directory):
    """A router before four engines with KV events, and a Prometheus that scrapes it in both ways.
    """
    port = harness.free_port()
    keys = {"metrics_listen": f"127.0.0.1:{port}", "access_log_file": directory / "access.log",
            "record": directory / "record.jsonl"}
    with predictions.Site(binary, directory, ENGINES, model=MODEL, speed=0.5, router_keys=keys) as site:
        with Prometheus(directory, prometheus_config(site, port, directory)) as prometheus:
            harness.eventually(lambda: len(prometheus.query("up == 1")) == 2, lambda: prometheus.query("up"), 10)
            yield site, prometheus


@contextlib.contextmanager
def measured(binary, directory, count):
    """A scene and the report of a load of so many requests on it."""
    write_trace(directory / "trace.jsonl", count)
    with scene(binary, directory) as (site, prometheus):
        yield site, prometheus, site.measure(trace=directory / "trace.jsonl", model=MODEL)


@pytest.mark.quiet
@pytest.mark.timeout(180)
def test_a_real_prometheus_has_the_times_of_the_load_generator(binary, tmp_path):
    """Again if the generator doubts its own figures."""
    for attempt in range(3):
        place = tmp_path / str(attempt)
        place.mkdir()
        with measured(binary, place, TIMED_REQUESTS) as (_, prometheus, report):
            if not report.summary["generator"]["doubt"] or attempt == 2:
                check_counts(prometheus, report.summary["requests"], TIMED_REQUESTS)
                check_first_tokens(prometheus, report)
                return


@pytest.mark.timeout(180)
def test_a_real_prometheus_has_the_figures_of_the_load_generator(binary, tmp_path, dashboard):
    with measured(binary, tmp_path, REQUESTS) as (site, prometheus, report):
        moment = time.time()
        check_counts(prometheus, report.summary["requests"], REQUESTS)
        check_tokens(prometheus, site, report.summary["backends"])
        check_rules(prometheus)
        check_dashboard(prometheus, dashboard, moment)
        promtool("check", "metrics", text=site.router.admin("GET", "/metrics").body.decode())
