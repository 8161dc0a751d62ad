// SPDX-License-Identifier: Apache-2.0
//
// Values that are sound alone and do not fit together; each refusal points at one of them.

#include "config/cross_check.h"

#include "outcome.h"

#define BACKEND "backends: [http://a]\n"

TEST(certificate_and_key_go_together)
{
    CHECK_STR(outcome(BACKEND "tls:\n  certificate: c\n"), "f:3:16: tls.certificate needs tls.key");
    CHECK_STR(outcome(BACKEND "tls:\n  key: k\n"), "f:3:8: tls.key needs tls.certificate");
    CHECK_STR(outcome(BACKEND "tls: {certificate: c, key: k}\n"), "ok");
}

TEST(the_admin_api_needs_a_token_and_an_address_of_its_own)
{
    CHECK_STR(outcome(BACKEND "admin:\n  listen: :9\n"),
              "f:3:11: admin.listen needs admin.token or admin.token_file");
    CHECK_STR(outcome(BACKEND "admin: {listen: ':9', token: t}\n"), "ok");
    CHECK_STR(outcome(BACKEND "admin: {listen: ':9', token_file: /secret/t}\n"), "ok");
    CHECK_STR(config->admin.token, "t");
    CHECK_STR(outcome(BACKEND "listen: [':8', ':9']\nadmin: {listen: ':9', token: t}\n"),
              "f:3:17: admin.listen must not be an address of listen");
    CHECK_STR(outcome(BACKEND "admin: {token: t}\n"), "ok");
}

TEST(a_malformed_peer_is_refused_at_its_place)
{
    static const char head[] = BACKEND "cluster:\n  listen: :7\n  secret: 0123456789abcdef\n";
    char text[256];
    snprintf(text, sizeof(text), "%s  peers: [a:7, 'dns+srv://_warmpath._tcp.a', b]\n", head);
    CHECK_STR(outcome(text), "f:5:46: cluster.peers: \"b\": the port is missing");
    snprintf(text, sizeof(text), "%s  peers:\n  - dns+srv://a:7\n", head);
    CHECK_STR(outcome(text), "f:6:5: cluster.peers: \"dns+srv://a:7\": ports come from the SRV "
                             "records: leave it out");
    snprintf(text, sizeof(text), "%s  peers: [a:7, 'dns+srv://_warmpath._tcp.a']\n", head);
    CHECK_STR(outcome(text), "ok");
    CHECK_EQ(config->cluster.peers.count, 2);
}

TEST(a_part_is_not_larger_than_the_whole)
{
    CHECK_STR(outcome(BACKEND "limits: {uri_size: 64k}\n"),
              "f:2:20: limits.uri_size must not be more than limits.header_size");
    CHECK_STR(outcome(BACKEND "limits: {header_size: 4k}\n"),
              "f:2:23: limits.uri_size must not be more than limits.header_size");
    CHECK_STR(outcome(BACKEND "limits: {header_size: 4k, uri_size: 4k}\n"), "ok");
    CHECK_STR(outcome(BACKEND "limits: {body_memory: 16m}\n"),
              "f:2:23: limits.body_size must not be more than limits.body_memory");
    CHECK_STR(outcome(BACKEND "health: {eject_time: 31s}\n"),
              "f:2:22: health.eject_time must not be more than health.eject_time_max");
    CHECK_STR(outcome(BACKEND "dns: {ttl_max: 500ms}\n"),
              "f:2:16: dns.ttl_min must not be more than dns.ttl_max");
}

TEST(there_is_a_backend_unless_the_admin_api_can_add_one)
{
    CHECK_STR(outcome(""),
              "f: no backends: name at least one, or set admin.listen to add them later");
    CHECK_STR(outcome("backends: []\n"),
              "f:1:11: no backends: name at least one, or set admin.listen to add them later");
    CHECK_STR(outcome("admin: {listen: ':9', token: t}\n"), "ok");
    CHECK_EQ(config->backend_count, 0);
}

TEST(two_backends_are_not_the_same_server)
{
    CHECK_STR(outcome("backends: [http://a, http://b, http://a]\n"),
              "f:1:32: backends.url: \"http://a\" is there already, as \"http://a\"");
    CHECK_STR(outcome("backends:\n  - http://a\n  - url: http://A:80/\n"),
              "f:3:10: backends.url: \"http://A:80/\" is there already, as \"http://a\"");
    CHECK_STR(outcome("backends: [http://a, https://a, http://a:81]\n"), "ok");
    CHECK_STR(outcome_with("", FLAGS("--backend", "http://a", "--backend", "http://a")),
              "command line: --backend: backends.url: \"http://a\" is there already, as "
              "\"http://a\"");
}

TEST(a_url_becomes_host_port_and_scheme)
{
    CHECK_STR(outcome("backends: ['https://[::1]', http://gpu:8000/]\n"), "ok");
    CHECK_STR(config->backends[0].url, "https://[::1]");
    CHECK_STR(config->backends[0].host, "::1");
    CHECK_EQ(config->backends[0].port, 443);
    CHECK(config->backends[0].tls);
    CHECK_STR(config->backends[1].url, "http://gpu:8000/");
    CHECK_STR(config->backends[1].host, "gpu");
    CHECK_EQ(config->backends[1].port, 8000);
    CHECK(!config->backends[1].tls);
}

TEST(backends_fit_in_their_slots)
{
    CHECK_STR(outcome("limits: {backends: 2}\nbackends: [http://a, http://b]\n"), "ok");
    CHECK_STR(outcome("limits: {backends: 2}\nbackends:\n- http://a\n- http://b\n- http://c\n"),
              "f:5:3: 3 backends are more than limits.backends, which is 2");
    CHECK_STR(outcome_with("limits: {backends: 1}\n",
                           FLAGS("--backend", "http://a", "--backend", "http://b")),
              "command line: --backend: 2 backends are more than limits.backends, which is 1");
}

TEST(every_rank_takes_a_slot)
{
    CHECK_STR(outcome("limits: {backends: 5}\nbackends: [http://a, {url: http://b, ranks: 4}]\n"),
              "ok");
    CHECK_STR(outcome("limits: {backends: 5}\n"
                      "backends:\n- url: http://a\n  ranks: 4\n- url: http://b\n  ranks: 2\n"
                      "- http://c\n"),
              "f:5:3: 7 ranks of backends are more than limits.backends, which is 5");
}

TEST(without_pools_there_is_one_with_the_global_policy)
{
    CHECK_STR(outcome(BACKEND), "ok");
    CHECK_EQ(config->pool_count, 1);
    CHECK_STR(config->pools[0].name, "default");
    CHECK_STR(config->pools[0].policy, "warm");
    CHECK_EQ(config->pools[0].models.count, 0);
    CHECK_EQ(config->backends[0].pool, 0);
    CHECK_STR(outcome("backends: [{url: http://a, pool: default}]\n"), "ok");
}

TEST(a_backend_finds_its_pool_wherever_that_is_defined)
{
    CHECK_STR(outcome("backends:\n"
                      "  - {url: http://a, pool: q}\n"
                      "  - http://b\n"
                      "pools:\n"
                      "  - p\n"
                      "  - {name: q, policy: round_robin, models: [m]}\n"),
              "ok");
    CHECK_EQ(config->pool_count, 2);
    CHECK_EQ(config->backends[0].pool, 1);
    CHECK_EQ(config->backends[1].pool, 0);
    CHECK_STR(config->pools[0].policy, "warm");
    CHECK_STR(config->pools[1].models.items[0], "m");
}

TEST(a_pool_that_does_not_exist_is_refused_with_the_nearest)
{
    CHECK_STR(outcome("pools: [chat, embed]\nbackends:\n  - url: http://a\n    pool: chta\n"),
              "f:4:11: backends.pool: unknown pool \"chta\"");
    CHECK_STR(outcome("pools: [chat, embed]\nbackends:\n  - url: http://a\n    pool: embeds\n"),
              "f:4:11: backends.pool: unknown pool \"embeds\"; did you mean \"embed\"?");
}

TEST(pools_have_names_and_models_of_their_own)
{
    CHECK_STR(outcome(BACKEND "pools:\n  - a\n  - name: a\n"),
              "f:4:11: pools.name: there are two pools \"a\"");
    CHECK_STR(outcome(BACKEND "pools:\n  - {name: a, models: [m, n]}\n"
                              "  - {name: b, models: [o, n]}\n"),
              "f:4:23: pools.models: \"n\" already belongs to pool \"a\"");
}

TEST(a_policy_must_exist_everywhere)
{
    CHECK_STR(outcome(BACKEND "policy: round-robin\n"),
              "f:2:9: policy: \"round-robin\" is not a policy; did you mean \"round_robin\"?");
    CHECK_STR(outcome(BACKEND "pools:\n  - name: a\n    policy: roundrobin\n"),
              "f:4:13: pools.policy: \"roundrobin\" is not a policy; did you mean "
              "\"round_robin\"?");
}

TEST(replacing_keys_needs_keys)
{
    CHECK_STR(outcome("authorization: replace\n" BACKEND),
              "f:1:16: authorization: replace needs api_key or api_key_file, for all or for each "
              "backend; \"http://a\" has none");
    CHECK_STR(outcome("authorization: replace\napi_key: k\n" BACKEND), "ok");
    CHECK_STR(outcome("authorization: replace\nbackends: [{url: http://a, api_key: k}]\n"), "ok");
    CHECK_STR(outcome("authorization: replace\nbackends:\n  - {url: http://a, api_key: k}\n"
                      "  - http://b\n"),
              "f:1:16: authorization: replace needs api_key or api_key_file, for all or for each "
              "backend; \"http://b\" has none");
    CHECK_STR(outcome("authorization: replace\nadmin: {listen: ':9', token: t}\n"),
              "f:1:16: authorization: replace needs api_key or api_key_file");
    CHECK_STR(outcome("authorization: strip\n" BACKEND), "ok");
}

TEST(a_tokenizer_is_a_directory_or_a_map)
{
    CHECK_STR(outcome(BACKEND "tokenizers: [/models/a]\n"), "ok");
    CHECK_EQ(config->tokenizer_count, 1);
    CHECK_STR(config->tokenizers[0].path, "/models/a");
    CHECK_EQ(config->tokenizers[0].models.count, 0);
    CHECK_EQ(config->tokenizers[0].engine, CONFIG_ENGINE_VLLM);
    CHECK(!config->tokenizers[0].trust);
    CHECK_STR(outcome(BACKEND
                      "tokenizers:\n"
                      "  - {path: /a, models: [m, n], engine: sglang, content_format: openai,\n"
                      "     utc_offset: '-05:30', trust: true, forward_ids: true,\n"
                      "     template_kwargs: '{}', chat_template: /t}\n"
                      "  - {path: /b, models: o}\n"),
              "ok");
    CHECK_EQ(config->tokenizer_count, 2);
    CHECK_EQ(config->tokenizers[0].engine, CONFIG_ENGINE_SGLANG);
    CHECK_EQ(config->tokenizers[0].content_format, CONFIG_CONTENT_OPENAI);
    CHECK_EQ(config->tokenizers[0].utc_offset, -(5 * 3600 + 30 * 60));
    CHECK(config->tokenizers[0].trust && config->tokenizers[0].forward_ids);
    CHECK_STR(config->tokenizers[0].chat_template, "/t");
    CHECK_STR(config->tokenizers[1].models.items[0], "o");
}

TEST(a_model_has_one_tokenizer)
{
    CHECK_STR(outcome(BACKEND "tokenizers:\n  - {path: /a, models: [m, n]}\n"
                              "  - {path: /b, models: [n]}\n"),
              "f:4:24: tokenizers.models: \"n\" has a tokenizer already");
    CHECK_STR(outcome(BACKEND "tokenizers: [/a, /b]\n"),
              "f:2:14: tokenizers.models: name them where there are several tokenizers");
}

TEST(a_time_zone_is_hours_and_minutes)
{
    CHECK_STR(outcome(BACKEND "tokenizers:\n  - {path: /a, utc_offset: 2h}\n"),
              "f:3:28: tokenizers.utc_offset: \"2h\" is not a time zone: write hours and minutes "
              "east of UTC such as +02:00");
    CHECK_STR(outcome(BACKEND "tokenizers:\n  - {path: /a, utc_offset: '+15:00'}\n"),
              "f:3:28: tokenizers.utc_offset: \"+15:00\" is not a time zone: write hours and "
              "minutes east of UTC such as +02:00");
}

TEST(the_cluster_has_one_link_and_one_identity)
{
    CHECK_STR(
        outcome(BACKEND "cluster: {listen: ':7', store: 'redis://s', secret: 0123456789abcdef}\n"),
        "f:2:19: cluster.listen and cluster.store exclude each other");
    CHECK_STR(outcome(BACKEND "cluster: {peers: ['b:7']}\n"),
              "f:2:18: cluster.peers needs cluster.listen");
    CHECK_STR(outcome(BACKEND "cluster: {listen: ':7', secret: 0123456789abcde}\n"),
              "f:2:33: cluster.secret has 15 characters; it needs at least 16");
    CHECK_STR(outcome(BACKEND "cluster: {listen: ':7', certificate: c, key: k}\n"),
              "f:2:38: cluster.certificate, cluster.key and cluster.ca need each other");
    CHECK_STR(outcome(BACKEND "cluster:\n  listen: ':7'\n  certificate: c\n  key: k\n  ca: a\n"
                              "  secret: 0123456789abcdef\n"),
              "f:4:16: cluster.certificate takes the place of cluster.secret: set one of the two");
    CHECK_STR(outcome(BACKEND "cluster: {listen: ':7'}\n"),
              "f:2:19: cluster.listen needs cluster.secret_file, or cluster.certificate, "
              "cluster.key and cluster.ca: strangers must not steer requests");
}

TEST(a_cluster_needs_no_more_than_a_link_and_an_identity)
{
    CHECK_STR(outcome(BACKEND "cluster: {listen: ':7', secret: 0123456789abcdef}\n"), "ok");
    CHECK(config_has_cluster(config));
    CHECK_STR(outcome(BACKEND "cluster: {listen: ':7', certificate: c, key: k, ca: a}\n"), "ok");
    CHECK_STR(outcome(BACKEND "cluster: {store: 'redis://s'}\n"), "ok");
    CHECK(config_has_cluster(config));
    CHECK_STR(outcome(BACKEND), "ok");
    CHECK(!config_has_cluster(config));
}
