// SPDX-License-Identifier: Apache-2.0
//
// Refusals and their places, through config_parse, which binds.

#include "config/option/bind_options.h"

#include "config/outcome.h"

#define BACKEND "backends: [http://a]\n"

TEST(binds_values_at_every_level)
{
    CHECK_STR(outcome("workers: 3\n"
                      "limits:\n  body_size: 8m\n"
                      "blocked_paths: [/a, /b]\n"
                      "backends:\n  - url: http://a:1\n    weight: 7\n    models: [m, n]\n"),
              "ok");
    CHECK_EQ(config->workers, 3);
    CHECK_EQ(config->limits.body_size, 8 << 20);
    CHECK_EQ(config->blocked_paths.count, 2);
    CHECK_STR(config->blocked_paths.items[1], "/b");
    CHECK_EQ(config->backend_count, 1);
    CHECK_EQ(config->backends[0].weight, 7);
    CHECK_STR(config->backends[0].models.items[1], "n");
}

TEST(refuses_unknown_keys_with_the_nearest_one)
{
    CHECK_STR(outcome("workes: 3\n"),
              "f:1:1: \"workes\" is not an option; did you mean \"workers\"?");
    CHECK_STR(outcome("a: 1\nworkers: 3\n"), "f:1:1: \"a\" is not an option");
    CHECK_STR(outcome("timeout:\n  body: 3\n"),
              "f:1:1: \"timeout\" is not an option; did you mean \"timeouts\"?");
    CHECK_STR(outcome("limits:\n  body_sise: 3\n"),
              "f:2:3: limits: \"body_sise\" is not an option; did you mean \"body_size\"?");
    CHECK_STR(outcome("backends:\n  - url: http://a\n    wieght: 3\n"),
              "f:3:5: backends: \"wieght\" is not an option; did you mean \"weight\"?");
    CHECK_STR(outcome("pools:\n  - nam: x\n"),
              "f:2:5: pools: \"nam\" is not an option; did you mean \"name\"?");
    CHECK_STR(outcome("'': 1\n"), "f:1:1: \"\" is not an option");
    CHECK_STR(outcome("<<: {}\n"), "f:1:1: \"<<\" is not an option");
}

TEST(says_where_a_key_belongs_when_it_is_elsewhere)
{
    CHECK_STR(outcome("body_size: 3m\n"),
              "f:1:1: \"body_size\" is not an option; write \"body_size\" under \"limits\"");
    CHECK_STR(outcome("limits.body_size: 3m\n"),
              "f:1:1: \"limits.body_size\" is not an option; write \"body_size\" under \"limits\"");
}

TEST(refuses_repeated_keys_and_names_the_first)
{
    CHECK_STR(outcome("workers: 3\nlisten: :80\nworkers: 4\n"),
              "f:3:1: workers: is here twice; the first is on line 1");
    CHECK_STR(outcome("limits:\n  requests: 1\n  requests: 2\n"),
              "f:3:3: limits.requests: is here twice; the first is on line 2");
    CHECK_STR(outcome("limits:\n  requests: 1\nlimits:\n  backends: 2\n"),
              "f:3:1: limits: is here twice; the first is on line 1");
    CHECK_STR(outcome("limits:\nlimits:\n"),
              "f:2:1: limits: is here twice; the first is on line 1");
    CHECK_STR(outcome("backends:\n  - url: http://a\n    url: http://b\n"),
              "f:3:5: backends.url: is here twice; the first is on line 2");
    CHECK_STR(outcome("blocked_paths: []\nblocked_paths: []\n"),
              "f:2:1: blocked_paths: is here twice; the first is on line 1");
    CHECK_STR(outcome("backends: []\nbackends: []\n"),
              "f:2:1: backends: is here twice; the first is on line 1");
}

TEST(refuses_values_of_the_wrong_shape)
{
    CHECK_STR(outcome("workers: [3]\n"), "f:1:10: workers: takes one value and not a list");
    CHECK_STR(outcome("workers: {a: 3}\n"), "f:1:10: workers: takes one value and not a map");
    CHECK_STR(outcome("listen: {a: b}\n"), "f:1:9: listen: takes a list and not a map");
    CHECK_STR(outcome("listen: [[a]]\n"), "f:1:10: listen: an item of the list is one value");
    CHECK_STR(outcome("backends: {url: http://a}\n"),
              "f:1:11: backends: takes a list and not a map");
    CHECK_STR(outcome("backends: [[http://a]]\n"),
              "f:1:12: backends.url: takes one value and not a list");
    CHECK_STR(outcome("limits: 3\n"), "f:1:9: limits takes options of its own, one \"name: value\" "
                                      "on a line");
    CHECK_STR(outcome("limits: [a]\n"), "f:1:9: limits takes options of its own, one \"name: "
                                        "value\" on a line");
    CHECK_STR(outcome("- a\n"), "f:1:1: a configuration is made of lines \"name: value\"");
    CHECK_STR(outcome("a\n"), "f:1:1: a configuration is made of lines \"name: value\"");
}

TEST(refuses_a_key_without_a_value)
{
    CHECK_STR(outcome("workers:\nlisten: :80\n"),
              "f:1:9: workers: has no value; leave the key out to keep the default");
    CHECK_STR(outcome("listen:\n"), "f:1:8: listen: has no value; write [] for an empty list");
    CHECK_STR(outcome("backends:\n"), "f:1:10: backends: has no value; write [] for an empty list");
    CHECK_STR(outcome("backends:\n  - url: http://a\n  -\n"),
              "f:3:4: backends.url: has no value; leave the key out to keep the default");
    CHECK_STR(outcome("tls: {key: ''}\n"), "f:1:12: tls.key: must not be empty");
}

TEST(a_group_whose_keys_are_all_commented_out_is_fine)
{
    CHECK_STR(outcome("limits:\n  # requests: 3\n" BACKEND), "ok");
    CHECK_STR(outcome("limits: {}\n" BACKEND), "ok");
}

TEST(a_list_may_be_the_one_value_that_it_has)
{
    CHECK_STR(outcome("listen: :80\nbackends: http://a\n"), "ok");
    CHECK_EQ(config->listen.count, 1);
    CHECK_STR(config->listen.items[0], ":80");
    CHECK_EQ(config->backend_count, 1);
}

TEST(lists_have_a_length_and_no_repetition)
{
    CHECK_STR(outcome("listen: []\n"), "f:1:9: listen: takes a list of 1 to 16 values, not of 0");
    CHECK_STR(outcome("pools: []\n"), "f:1:8: pools: takes a list of 1 to 64 values, not of 0");
    CHECK_STR(outcome("dns: {servers: [1.1.1.1,1.1.1.2,1.1.1.3,1.1.1.4,1.1.1.5,1.1.1.6,1.1.1.7,"
                      "1.1.1.8,1.1.1.9]}\n"),
              "f:1:16: dns.servers: takes a list of 0 to 8 values, not of 9");
    CHECK_STR(outcome("blocked_paths: [/a, /b, /a]\n"),
              "f:1:25: blocked_paths: \"/a\" is in the list twice");
    CHECK_STR(outcome("retry:\n  on: [502, 501]\n"),
              "f:2:13: retry.on: \"501\" is not a retryable status: write 429, 500, 502, 503 or "
              "504");
    CHECK_STR(outcome("session_headers: []\n" BACKEND), "ok");
    CHECK_EQ(config->session_headers.count, 0);
}

TEST(points_at_a_bad_value_in_a_list_and_in_an_item)
{
    CHECK_STR(outcome("listen:\n  - :80\n  - x\n"), "f:3:5: listen: \"x\": the port is missing");
    CHECK_STR(outcome("backends:\n  - http://a\n  - url: http://b\n    weight: 0\n"),
              "f:4:13: backends.weight: 0 is too small, the least is 1");
    CHECK_STR(outcome("backends:\n  - url: http://b\n    weight: 257\n"),
              "f:3:13: backends.weight: 257 is too large, the most is 256");
    CHECK_STR(outcome("pools:\n  - name: a b\n"),
              "f:2:11: pools.name: \"a b\" is not a name: write letters, digits, -, _ and .");
}

TEST(an_item_needs_its_first_row)
{
    CHECK_STR(outcome("backends:\n  - weight: 3\n"), "f:2:5: backends: an item needs its url");
    CHECK_STR(outcome("backends: [{}]\n"), "f:1:12: backends: an item needs its url");
    CHECK_STR(outcome("pools:\n  - policy: round_robin\n"), "f:2:5: pools: an item needs its name");
}

TEST(a_flag_wins_over_the_file)
{
    CHECK_STR(outcome_with("workers: 3\nlisten: [':1', ':2']\n" BACKEND,
                           FLAGS("--workers", "5", "listen", ":7")),
              "ok");
    CHECK_EQ(config->workers, 5);
    CHECK_EQ(config->listen.count, 1);
    CHECK_STR(config->listen.items[0], ":7");
}

TEST(a_list_flag_repeats_and_of_a_single_one_the_last_counts)
{
    CHECK_STR(outcome_with(BACKEND,
                           FLAGS("--listen", ":1", "--workers", "1", "--listen", ":2", "--workers",
                                 "2", "--backend", "http://x:1", "--backend", "http://y:2")),
              "ok");
    CHECK_EQ(config->workers, 2);
    CHECK_EQ(config->listen.count, 2);
    CHECK_STR(config->listen.items[1], ":2");
    CHECK_EQ(config->backend_count, 2);
    CHECK_STR(config->backends[0].host, "x");
    CHECK_STR(config->backends[1].host, "y");
    CHECK_EQ(config->backends[1].weight, 1);
}

TEST(an_error_in_a_flag_names_the_flag)
{
    CHECK_STR(
        outcome_with(BACKEND, FLAGS("--limits-body-size", "8x")),
        "command line: --limits-body-size: \"8x\" is not a size: write a number of bytes such "
        "as 4096, or 8k, 32m, 1g (8KiB, 32MiB, 1GiB are the same: k is 1024), from 1k to 1g");
    CHECK_STR(outcome_with(BACKEND, FLAGS("--limits-bdy-size", "8")),
              "command line: --limits-bdy-size: unknown option; did you mean "
              "--limits-body-size?");
    CHECK_STR(outcome_with(BACKEND, FLAGS("--frobnicate", "8")),
              "command line: --frobnicate: unknown option");
    CHECK_STR(outcome_with(BACKEND, FLAGS("--pools", "a")),
              "command line: --pools: unknown option");
    CHECK_STR(outcome_with(BACKEND, FLAGS("--backend", "b")),
              "command line: --backend: \"b\": a URL starts with http:// or https://");
    CHECK_STR(outcome_with(BACKEND, FLAGS("--listen", ":1", "--listen", ":1")),
              "command line: --listen: \":1\" is in the list twice");
    CHECK_STR(outcome_with(BACKEND, FLAGS("--tls-key", "k")),
              "command line: --tls-key: tls.key needs tls.certificate");
}

TEST(a_bad_value_in_the_file_is_refused_even_where_a_flag_replaces_it)
{
    CHECK_STR(outcome_with("workers: x\n" BACKEND, FLAGS("--workers", "5")),
              "f:1:10: workers: \"x\" is not a number: write a whole number in digits, from 0 to "
              "256");
}

TEST(flags_alone_are_a_configuration)
{
    CHECK_STR(outcome_with("", FLAGS("--backend", "http://a")), "ok");
}

TEST(a_flag_of_any_length_makes_a_message_of_bounded_length)
{
    char name[3000];
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    const char *message = outcome_with(BACKEND, FLAGS(name, "1"));
    CHECK(strlen(message) < 200);
    CHECK(strstr(message, "unknown option") != NULL);
}
