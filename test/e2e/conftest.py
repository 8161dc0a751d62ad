"""Options and fixtures of the end-to-end tests.

    def test_something(standin, warmpath):
        engine = standin("a")                       # backends
        router = warmpath(engine, retry_attempts=1) # configuration
        response = router.get("/x")                 # client
        assert response.status == 200               # expectations

After every test the fixtures check that the router has no requests in flight, exits 0 on SIGTERM,
that no sanitizer reported, and that stand-ins received only valid HTTP/1.1.
"""
import contextlib
import os
import pathlib

import drive
import harness
import pytest
from pace import pace

# A test that hangs is cut off after this many times its limit.  The guard says nothing of speed:
# limits that do are `within`, which follows the machine.
GUARD_FACTOR = 10
ROUTERS = pytest.StashKey()


def pytest_addoption(parser):
    parser.addoption("--warmpath", default="build/debug/warmpath", help="the router to test")
    parser.addoption("--slow-factor", type=float,
                     help="multiplies every time limit (default: 1, and 5 for asan and tsan builds)")
    parser.addoption("--documents", type=int, default=5_000,
                     help="for each family of tokenizers in test_15_tokenizer.py")
    parser.addoption("--all-templates", action="store_true",
                     help="every template there is in test_16_templates.py, and more random ones")
    parser.addoption("--chaos-seconds", type=float, default=6, help="how long test_95_chaos.py runs")


def pytest_configure(config):
    path = pathlib.Path(config.getoption("--warmpath"))
    sanitized = any(word in str(path) for word in ("asan", "tsan"))
    harness.slow_factor = config.getoption("--slow-factor") or (5.0 if sanitized else 1.0)
    config.addinivalue_line("markers", "quiet: compares wall times; runs alone, after the others")
    pace.start()


def pytest_collection_modifyitems(items):
    for item in items:
        marker = item.get_closest_marker("timeout")
        limit = marker.args[0] if marker else 30
        item.add_marker(pytest.mark.timeout(limit * harness.slow_factor * GUARD_FACTOR), append=False)


@pytest.fixture(autouse=True)
def priority(request):
    """A test that compares wall times comes before other processes, where the system lets it.

    Processes and threads that the test starts inherit this.
    """
    if request.node.get_closest_marker("quiet"):
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    yield
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    """Test processes finish in any order; the report still begins with the most basic failure."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    for kind in ("failed", "error"):
        if reporter and kind in reporter.stats:
            reporter.stats[kind].sort(key=lambda report: report.nodeid)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for router in item.stash.get(ROUTERS, []):
            report.sections.append((f"router {router.url}", router.stderr()[-8000:]))


@pytest.fixture
def binary(request):
    path = pathlib.Path(request.config.getoption("--warmpath")).resolve()
    if not path.exists():
        pytest.exit(f"{path} does not exist: build it first", returncode=2)
    return path


@pytest.fixture
def standin():
    """Makes listening stand-ins."""
    engines = []

    def make(name="engine", start=True, **options):
        engine = harness.make_engine(name, **options)
        engines.append(engine)
        return engine.start() if start else engine

    yield make
    for engine in engines:
        engine.stop()
    for engine in engines:
        assert engine.misuse == [], f"{engine.name} received what is not HTTP/1.1"


@pytest.fixture
def caching():
    """Makes caching engines: caching(8, 1, cache_blocks=500) for nine of them in two processes."""
    hosts = []

    def make(*counts, **options):
        made = []
        for count in counts:
            names = [f"engine-{len(hosts)}-{number}" for number in range(count)]
            hosts.append(drive.EngineHost(names, **options))
            made += hosts[-1].engines
        return made

    yield make
    try:
        for host in hosts:
            host.check()
    finally:
        for host in hosts:
            host.kill()


@pytest.fixture
def warmpath(request, binary, tmp_path, standin):
    """Makes running routers: warmpath(engine, ..., key_of_the_configuration=value)."""
    routers = request.node.stash.setdefault(ROUTERS, [])

    def make(*backends, config=None, start=True, **keys):
        router = harness.Router(binary, tmp_path)
        routers.append(router)
        return router.start(backends, config, **keys) if start else router

    yield make
    try:
        for router in routers:
            if router.process:
                router.check_and_stop()
    finally:
        for router in routers:
            router.kill()
