// SPDX-License-Identifier: Apache-2.0
//
// Where backends publish, and what of it cannot be; each refusal points at a line.

#include "config/backend_events.h"

#include "outcome.h"

static struct config_events events(uint32_t index)
{
    return config_backend_events(config, &config->backends[index]);
}

TEST(engines_publish_only_if_the_configuration_says_so)
{
    CHECK_STR(outcome("backends: [http://a]\n"), "ok");
    CHECK(events(0).endpoint == NULL);
    CHECK(events(0).replay == NULL);
    CHECK(events(0).topic == NULL);
    CHECK_EQ(config->backends[0].ranks, 1);
}

TEST(a_backend_follows_the_defaults_unless_it_says_otherwise)
{
    CHECK_STR(
        outcome("events: {endpoint: 'tcp://*:5557', replay: 'tcp://*:5657', topic: kv}\n"
                "backends:\n"
                "  - http://a\n"
                "  - {url: http://b, events: none}\n"
                "  - {url: http://c, events: 'tcp://d:1', events_replay: none, events_topic: t}\n"
                "  - {url: http://e, events: 'ipc:///run/kv', events_replay: 'ipc:///run/re'}\n"),
        "ok");
    CHECK_STR(events(0).endpoint, "tcp://*:5557");
    CHECK_STR(events(0).replay, "tcp://*:5657");
    CHECK_STR(events(0).topic, "kv");
    CHECK(events(1).endpoint == NULL);
    CHECK(events(1).replay == NULL);
    CHECK_STR(events(2).endpoint, "tcp://d:1");
    CHECK(events(2).replay == NULL);
    CHECK_STR(events(2).topic, "t");
    CHECK_STR(events(3).endpoint, "ipc:///run/kv");
    CHECK_STR(events(3).replay, "ipc:///run/re");
}

TEST(a_polled_backend_has_neither_ports_nor_a_replay)
{
    CHECK_STR(outcome("events: {endpoint: 'tcp://*:5557', replay: 'tcp://*:5657'}\n"
                      "backends: [{url: http://a, ranks: 64, events: poll}]\n"),
              "ok");
    CHECK_STR(events(0).endpoint, "poll");
    CHECK(events(0).replay == NULL);
    CHECK_STR(outcome("events: {bind: ['tcp://*:5557'], replay: 'tcp://*:5657'}\n"
                      "backends: [{url: http://a, events: poll}]\n"),
              "ok");
    CHECK(events(0).replay == NULL);
    CHECK_STR(outcome("backends:\n  - url: http://a\n    events: poll\n    events_replay: poll\n"),
              "f:4:20: backends.events_replay: \"poll\": an endpoint starts with tcp:// or ipc://");
    CHECK_STR(outcome("backends:\n  - url: http://a\n    events: poll\n"
                      "    events_replay: tcp://*:1\n"),
              "f:4:20: backends.events_replay of \"http://a\": there is nothing to replay without "
              "events");
}

TEST(an_engine_that_connects_to_us_may_have_a_replay)
{
    CHECK_STR(outcome("events: {bind: ['tcp://*:5557'], replay: 'tcp://*:5657'}\n"
                      "backends: [{url: http://a, events_topic: a}]\n"),
              "ok");
    CHECK(events(0).endpoint == NULL);
    CHECK_STR(events(0).replay, "tcp://*:5657");
}

TEST(ports_of_ranks_do_not_overlap)
{
    CHECK_STR(
        outcome("backends:\n"
                "  - url: http://a\n"
                "    ranks: 8\n"
                "    events: tcp://*:5557\n"
                "    events_replay: tcp://*:5558\n"),
        "f:5:20: backends.events_replay of \"http://a\": with 8 ranks its ports, 5558 to 5565, "
        "overlap with those of events, 5557 to 5564");
    CHECK_STR(
        outcome("events: {endpoint: 'tcp://*:5557', replay: 'tcp://*:5558'}\n"
                "backends:\n"
                "  - http://a\n"
                "  - {url: http://b, ranks: 2}\n"),
        "f:4:28: backends.events_replay of \"http://b\": with 2 ranks its ports, 5558 to 5559, "
        "overlap with those of events, 5557 to 5558");
    CHECK_STR(
        outcome("events: {endpoint: 'tcp://*:5558', replay: 'tcp://*:5557'}\n"
                "backends: [{url: http://b, ranks: 2}]\n"),
        "f:2:35: backends.events_replay of \"http://b\": with 2 ranks its ports, 5557 to 5558, "
        "overlap with those of events, 5558 to 5559");
    // The last that fits, and other hosts.
    CHECK_STR(outcome("events: {endpoint: 'tcp://*:5557', replay: 'tcp://*:5565'}\n"
                      "backends: [{url: http://b, ranks: 8}]\n"),
              "ok");
    CHECK_STR(outcome("events: {endpoint: 'tcp://*:5557', replay: 'tcp://c:5558'}\n"
                      "backends: [{url: http://b, ranks: 8}]\n"),
              "ok");
    CHECK_STR(
        outcome("events: {endpoint: 'tcp://*:5557', replay: 'tcp://B:5558'}\n"
                "backends: [{url: http://b, ranks: 8}]\n"),
        "f:2:35: backends.events_replay of \"http://b\": with 8 ranks its ports, 5558 to 5565, "
        "overlap with those of events, 5557 to 5564");
}

TEST(events_and_their_replay_are_two_places)
{
    CHECK_STR(
        outcome("backends: [http://a]\n"
                "events:\n  endpoint: tcp://*:5557\n  replay: tcp://*:5557\n"),
        "f:4:11: backends.events_replay of \"http://a\": port 5557 is where events are published");
    CHECK_STR(outcome("backends: [http://a]\n"
                      "events:\n  endpoint: ipc:///kv\n  replay: ipc:///kv\n"),
              "f:4:11: backends.events_replay of \"http://a\": is where events are published");
    CHECK_STR(outcome("backends:\n  - {url: http://a, events_replay: 'tcp://*:1'}\n"),
              "f:2:36: backends.events_replay of \"http://a\": there is nothing to replay without "
              "events");
}

TEST(ranks_need_ports_and_there_must_be_enough)
{
    CHECK_STR(
        outcome("backends:\n  - {url: http://a, ranks: 2, events: 'ipc:///kv'}\n"),
        "f:2:39: backends.events of \"http://a\": ipc:// has no ports, and 2 ranks need one each: "
        "use tcp://");
    CHECK_STR(
        outcome("events: {endpoint: 'ipc:///kv'}\n"
                "backends:\n  - {url: http://a, ranks: 2}\n"),
        "f:3:28: backends.events of \"http://a\": ipc:// has no ports, and 2 ranks need one each: "
        "use tcp://");
    CHECK_STR(outcome("backends:\n  - {url: http://a, ranks: 2, events: 'tcp://*:65535'}\n"),
              "f:2:39: backends.events of \"http://a\": port 65535 and 2 ranks go beyond 65535");
    CHECK_STR(outcome("backends:\n  - {url: http://a, ranks: 2, events: 'tcp://*:65534'}\n"), "ok");
    CHECK_STR(
        outcome("backends:\n  - {url: http://a, ranks: 2, events: 'tcp://*:1', "
                "events_replay: 'tcp://*:65535'}\n"),
        "f:2:67: backends.events_replay of \"http://a\": port 65535 and 2 ranks go beyond 65535");
    CHECK_STR(outcome("backends:\n  - {url: http://a, ranks: 65}\n"),
              "f:2:28: backends.ranks: 65 is too large, the most is 64");
    CHECK_STR(outcome("backends:\n  - {url: http://a, ranks: 0}\n"),
              "f:2:28: backends.ranks: 0 is too small, the least is 1");
}

TEST(two_backends_do_not_publish_in_one_place)
{
    CHECK_STR(
        outcome("events: {endpoint: 'tcp://*:5557'}\n"
                "backends: [http://a:1, http://a:2]\n"),
        "f:1:20: backends.events of \"http://a:2\": \"http://a:1\" publishes there already, with "
        "the same topic");
    CHECK_STR(
        outcome("events: {endpoint: 'tcp://*:5557'}\n"
                "backends:\n  - {url: http://a:1, ranks: 4}\n"
                "  - {url: http://a:2, events: 'tcp://*:5560'}\n"),
        "f:4:31: backends.events of \"http://a:2\": \"http://a:1\" publishes there already, with "
        "the same topic");
    CHECK_STR(outcome("events: {endpoint: 'tcp://*:5557'}\n"
                      "backends:\n  - {url: http://a:1, ranks: 4}\n"
                      "  - {url: http://a:2, events: 'tcp://*:5561'}\n"),
              "ok");
    CHECK_STR(
        outcome("backends: [{url: http://a, events: 'ipc:///x'}, {url: http://b, events: "
                "'ipc:///x'}]\n"),
        "f:1:73: backends.events of \"http://b\": \"http://a\" publishes there already, with the "
        "same topic");
    // Topics tell them apart, and who does not publish is in nobody's way.
    CHECK_STR(outcome("events: {endpoint: 'tcp://*:5557'}\n"
                      "backends: [http://a:1, {url: http://a:2, events_topic: b}]\n"),
              "ok");
    CHECK_STR(outcome("backends: [http://a:1, http://a:2, http://b]\n"), "ok");
}

TEST(malformed_endpoints_are_refused_where_they_stand)
{
    CHECK_STR(outcome("backends: [{url: http://a, events: 5557}]\n"),
              "f:1:36: backends.events: \"5557\": an endpoint starts with tcp:// or ipc://");
    CHECK_STR(outcome("events:\n  bind: ['tcp://*:5557', 'tcp://*']\nbackends: [http://a]\n"),
              "f:2:26: events.bind: \"tcp://*\": the port is missing");
    CHECK_STR(outcome_with("backends: [http://a]\n", FLAGS("--events-replay", "tcp://:1")),
              "command line: --events-replay: \"tcp://:1\": the host is missing");
}

TEST(the_numbers_have_defaults_and_bounds)
{
    CHECK_STR(outcome("backends: [http://a]\n"), "ok");
    CHECK_EQ(config->events.memory, 512 << 20);
    CHECK_EQ(config->events.copies, CONFIG_COPIES_COUNT);
    CHECK_EQ(config->events.host_weight, 80);
    CHECK_EQ(config->events.disk_weight, 50);
    CHECK_EQ(config->events.bind.count, 0);
    CHECK_STR(outcome("backends: [http://a]\nevents: {copies: set, memory: 1g, host_weight: 100, "
                      "disk_weight: 0, bind: 'ipc:///kv'}\n"),
              "ok");
    CHECK_EQ(config->events.memory, 1 << 30);
    CHECK_EQ(config->events.copies, CONFIG_COPIES_SET);
    CHECK_EQ(config->events.host_weight, 100);
    CHECK_EQ(config->events.disk_weight, 0);
    CHECK_STR(config->events.bind.items[0], "ipc:///kv");
    CHECK_STR(outcome("backends: [http://a]\nevents: {host_weight: 101}\n"),
              "f:2:23: events.host_weight: 101 is too large, the most is 100");
}

TEST(memory_is_reserved_only_if_events_can_arrive)
{
    CHECK_STR(outcome("backends: [http://a]\n"), "ok");
    CHECK(!config_hears_events(config));
    CHECK_EQ(config_events_memory(config).ledger + config_events_memory(config).names, 0);
    CHECK_STR(outcome("backends: [http://a]\nevents: {bind: ['tcp://*:1'], memory: 100m}\n"), "ok");
    CHECK(config_hears_events(config));
    CHECK_EQ(config_events_memory(config).ledger + config_events_memory(config).names, 100 << 20);
    CHECK(config_events_memory(config).names > config_events_memory(config).ledger);
    CHECK_STR(outcome("backends: [http://a]\nadmin: {listen: ':1', token: t}\n"), "ok");
    CHECK(config_hears_events(config));
}
