"""Probes, ejection, and the way back."""
import signal
import time

import pytest
from client import request
from harness import EngineProcess, eventually, within
from standin import RESET, STALL, Gate, json_response, plain_response

PROBES = {"health_interval": "50ms", "health_timeout": "2s", "health_rise": 2, "health_fall": 2,
          "policy": "round_robin"}
SHORT_PROBES = {**PROBES, "health_timeout": "500ms"}  # for engines that do not respond
EJECTS = {"health_interval": 0, "health_eject_failures": 3, "health_eject_time": "30s",
          "policy": "round_robin", "workers": 1}
SHORT_EJECTS = {**EJECTS, "health_eject_time": "300ms"}


def engines_of(router, count, target="/x"):
    """The engines that serve the next requests."""
    return [router.get(target).json()["engine"] for _ in range(count)]


def health_probes(engine):
    return sum(probe.path == "/health" for probe in engine.probes)


# Probes.


def test_a_backend_that_reports_unhealthy_is_left_out_and_comes_back(standin, warmpath):
    a, b = standin("a"), standin("b")
    router = warmpath(a, b, **PROBES)
    assert set(engines_of(router, 8)) == {"a", "b"}
    a.health_status = 503
    router.wait_state(a, "down")
    assert set(engines_of(router, 8)) == {"b"}
    a.health_status = 200
    router.wait_state(a, "up")
    assert set(engines_of(router, 8)) == {"a", "b"}


@pytest.mark.parametrize("ill", [(STALL,), (RESET,), (b"garbage\r\n\r\n", RESET), (json_response(503, {}),),
                                 (json_response(500, {}),)], ids=["stall", "reset", "garbage", "503", "500"])
def test_every_kind_of_failed_probe_is_noticed(standin, warmpath, ill):
    a, b = standin("a"), standin("b")
    router = warmpath(a, b, **(SHORT_PROBES if ill == (STALL,) else PROBES))
    a.respond("/health", *ill)
    router.wait_state(a, "down")
    del a.scripts["/health"]
    router.wait_state(a, "up")


def test_an_engine_without_the_health_path_is_alive(standin, warmpath):
    a = standin("a")
    a.respond("/health", json_response(404, {}))
    router = warmpath(a, **PROBES)
    probed = health_probes(a)
    eventually(lambda: health_probes(a) >= probed + 4, "it is asked again and again")
    assert router.backend(a)["state"] == "up" and router.get("/x").status == 200


def test_a_backend_that_is_gone_is_down_and_comes_back(standin, warmpath):
    a, b = standin("a"), standin("b")
    router = warmpath(a, b, **PROBES)
    a.stop()
    router.wait_state(a, "down", "ejected")
    assert set(engines_of(router, 6)) == {"b"}
    a.start()
    router.wait_state(a, "up")
    assert set(engines_of(router, 6)) == {"a", "b"}


def test_one_bad_probe_is_not_enough(standin, warmpath):
    a = standin("a")
    a.respond("/health", plain_response(200, b""))
    router = warmpath(a, **PROBES)
    for _ in range(3):
        seen = health_probes(a)
        a.respond_once("/health", plain_response(503, b""))
        eventually(lambda: health_probes(a) >= seen + 3, "three more probes")
        assert router.backend(a)["state"] == "up"


def test_rise_counts_good_probes(standin, warmpath):
    a = standin("a")
    router = warmpath(a, **{**PROBES, "health_rise": 4})
    a.health_status = 503
    router.wait_state(a, "down")
    seen = health_probes(a)
    a.health_status = 200
    router.wait_state(a, "up")
    assert health_probes(a) - seen >= 4


def test_the_path_of_the_probe_is_configured(standin, warmpath):
    a = standin("a")
    a.respond("/well", plain_response(200, b""))
    warmpath(a, **PROBES, health_path="/well?deep=1")
    eventually(lambda: sum(seen.target == "/well?deep=1" for seen in a.requests) >= 3, "probes come")
    assert [seen.target for seen in a.probes if seen.path == "/health"] == []


def test_with_interval_zero_no_backend_is_probed(standin, warmpath):
    a = standin("a")
    router = warmpath(a, health_interval=0, models_learn=False)
    time.sleep(0.3)
    assert router.get("/x").status == 200
    assert a.probes == []


def test_with_every_backend_down_requests_are_tried_anyway(standin, warmpath):
    a = standin("a")
    router = warmpath(a, **PROBES)
    a.health_status = 503
    router.wait_state(a, "down")
    # An unhealthy engine may still work; refusing surely does not.
    assert router.get("/x").status == 200
    a.stop()
    response = router.get("/x")
    assert response.status == 503 and response.error()
    assert int(response.header("retry-after")) >= 1


def test_a_router_that_starts_before_its_backends_finds_them(standin, warmpath):
    a = standin("a", start=False)
    router = warmpath(a, **PROBES)
    assert router.get("/x").status in (502, 503)
    a.start()
    router.wait_state(a, "up")
    assert router.get("/x").status == 200


def test_running_responses_survive_a_failed_probe(standin, warmpath):
    a = standin("a")
    gate = Gate()
    a.respond("/slow", gate, plain_response(200, b"done"))
    router = warmpath(a, **PROBES)
    with router.connect() as client:
        client.send(request("GET", "/slow"))
        eventually(lambda: a.requests, "it runs")
        a.health_status = 503
        router.wait_state(a, "down")
        gate.open()
        assert client.read_response().body == b"done"


def test_an_engine_that_froze_is_left_out_and_comes_back_when_it_thaws(standin, warmpath):
    frozen, other = EngineProcess("frozen"), standin("other")
    frozen.start()
    try:
        router = warmpath(frozen.url, other, **SHORT_PROBES)
        assert set(engines_of(router, 6)) == {"frozen", "other"}
        frozen.process.send_signal(signal.SIGSTOP)
        router.wait_state(frozen, "down")
        assert set(engines_of(router, 6)) == {"other"}
        frozen.process.send_signal(signal.SIGCONT)
        router.wait_state(frozen, "up")
        assert set(engines_of(router, 6)) == {"frozen", "other"}
    finally:
        frozen.kill()


# Ejection.


@pytest.mark.parametrize("steps, statuses", [
    ((json_response(500, {}),), {500}), ((json_response(502, {}),), {502}), ((json_response(504, {}),), {504}),
    ((RESET,), {200})], ids=["500", "502", "504", "reset"])
def test_failures_in_a_row_eject_a_backend(standin, warmpath, steps, statuses):
    a, b = standin("a"), standin("b")
    a.respond("/x", *steps)
    router = warmpath(a, b, **EJECTS)
    eventually(lambda: router.get("/x") and router.backend(a)["state"] == "ejected", "a is ejected")
    assert len(a.requests) == 3
    assert set(engines_of(router, 6)) == {"b"}
    assert router.backend(a)["failures"] >= 3


def test_a_backend_that_is_gone_is_ejected(standin, warmpath):
    a, b = standin("a"), standin("b")
    router = warmpath(a, b, **EJECTS)
    a.stop()
    for _ in range(6):
        assert router.get("/x").status == 200
    assert router.backend(a)["state"] == "ejected"


def test_timeouts_eject_a_backend(standin, warmpath):
    a, b = standin("a"), standin("b")
    a.respond("/x", STALL)
    router = warmpath(a, b, timeouts_first_byte="150ms", **EJECTS)
    eventually(lambda: router.get("/x") and router.backend(a)["state"] == "ejected", "a is ejected")
    assert len(a.requests) == 3


@pytest.mark.parametrize("status", [400, 401, 404, 422, 429, 503])
def test_busy_and_client_error_responses_do_not_eject(standin, warmpath, status):
    a = standin("a")
    a.respond("/x", json_response(status, {}))
    router = warmpath(a, **EJECTS)
    for _ in range(10):
        assert router.get("/x").status == status
    assert router.backend(a)["state"] == "up"


def test_a_client_that_leaves_does_not_count_against_the_backend(standin, warmpath):
    a = standin("a")
    a.respond("/x", STALL)
    router = warmpath(a, **EJECTS)
    for number in range(5):
        client = router.connect()
        client.send(request("GET", "/x"))
        eventually(lambda: len(a.requests) == number + 1, "the request arrives")
        client.reset()
    eventually(lambda: router.in_flight() == 0, "nothing in flight")
    assert router.backend(a)["state"] == "up"
    assert router.backend(a)["failures"] == 0


def test_a_success_between_failures_forgives_them(standin, warmpath):
    a = standin("a")
    router = warmpath(a, **EJECTS)
    for _ in range(4):
        for _ in range(2):
            a.respond_once("/x", json_response(500, {}))
            assert router.get("/x").status == 500
        assert router.get("/x").status == 200
    assert router.backend(a)["state"] == "up"


def test_an_ejected_backend_gets_one_trial_and_is_back(standin, warmpath):
    a, b = standin("a"), standin("b")
    for _ in range(3):
        a.respond_once("/x", json_response(500, {}))
    gate = Gate()
    a.respond("/x", gate, json_response(200, {"engine": "a"}))
    router = warmpath(a, b, **SHORT_EJECTS)
    eventually(lambda: router.get("/x") and len(a.requests) == 3, "a is ejected")
    time.sleep(0.35)
    before = len(a.requests) + len(b.requests)
    clients = [router.connect() for _ in range(8)]
    for client in clients:
        client.send(request("GET", "/x"))
    eventually(lambda: len(a.requests) + len(b.requests) == before + 8, "all are sent")
    assert len(a.requests) == 4, "one trial runs"
    time.sleep(0.1)
    assert len(a.requests) == 4
    assert router.backend(a)["state"] == "half_open"
    gate.open()
    assert all(client.read_response().status == 200 for client in clients)
    router.wait_state(a, "up")
    assert set(engines_of(router, 6)) == {"a", "b"}


def test_a_failed_trial_ejects_for_longer(standin, warmpath):
    a, b = standin("a"), standin("b")
    a.respond("/x", json_response(500, {}))
    router = warmpath(a, b, **SHORT_EJECTS)
    eventually(lambda: router.get("/x") and router.backend(a)["state"] == "ejected", "a is ejected")
    eventually(lambda: router.get("/x") and len(a.requests) == 4, "the trial", 3)
    eventually(lambda: router.get("/x") and len(a.requests) == 5, "the next trial", 3)
    trial, next_trial = a.requests[3:]
    assert next_trial.arrived_at - trial.arrived_at > 0.55  # 300 ms twice


def test_probes_do_not_end_an_ejection_that_responses_caused(standin, warmpath):
    a, b = standin("a"), standin("b")
    a.respond("/x", json_response(500, {}))
    router = warmpath(a, b, **{**SHORT_EJECTS, "health_interval": "50ms"})
    eventually(lambda: router.get("/x") and router.backend(a)["state"] == "ejected", "a is ejected")
    eventually(lambda: router.get("/x") and len(a.requests) == 6, "three trials", 5)
    times = [request.arrived_at for request in a.requests[2:]]
    pauses = [later - earlier for earlier, later in zip(times, times[1:], strict=False)]
    assert [pause > due for pause, due in zip(pauses, (0.28, 0.58, 1.18), strict=True)] == [True] * 3, pauses


def test_a_good_probe_ends_an_ejection_for_want_of_a_connection(standin, warmpath):
    a, b = standin("a"), standin("b")
    router = warmpath(a, b, **{**EJECTS, "health_interval": "200ms", "health_fall": 10})
    a.stop()
    eventually(lambda: router.get("/x") and router.backend(a)["state"] == "ejected", "a is ejected")
    a.start()
    eventually(lambda: router.get("/x") and router.backend(a)["state"] == "up", "a is back before its 30 s are over")


def test_the_time_of_ejection_has_a_maximum(standin, warmpath):
    a, b = standin("a"), standin("b")
    a.respond("/x", json_response(500, {}))
    router = warmpath(a, b, **{**EJECTS, "health_eject_time": "100ms", "health_eject_time_max": "100ms"})
    begun = time.monotonic()
    eventually(lambda: router.get("/x") and len(a.requests) >= 10, "seven trials after three failures", 10)
    assert time.monotonic() - begun < within(3)  # seven times 100 ms; doubling would take 12 s


def test_when_all_backends_are_ejected_ejection_is_ignored(standin, warmpath):
    a, b = standin("a"), standin("b")
    for engine in (a, b):
        engine.respond("/x", json_response(500, {}))
    router = warmpath(a, b, **EJECTS)
    for _ in range(10):
        assert router.get("/x").status == 500
    assert {backend["state"] for backend in router.backends().values()} <= {"ejected", "half_open"}
    for engine in (a, b):
        del engine.scripts["/x"]
    begun = time.monotonic()
    assert router.get("/x").status == 200
    assert time.monotonic() - begun < within(2)


def test_ejection_can_be_turned_off(standin, warmpath):
    a = standin("a")
    a.respond("/x", json_response(500, {}))
    router = warmpath(a, **{**EJECTS, "health_eject_failures": 0})
    for _ in range(10):
        assert router.get("/x").status == 500
    assert router.backend(a)["state"] == "up"
