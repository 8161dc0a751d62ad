// SPDX-License-Identifier: Apache-2.0

#include "admin/document/cluster_json.h"

#include "base/text.h"
#include "cluster/cluster.h"
#include "json/json_writer.h"
#include "test.h"

static char written[16384];

static const char *document(const struct cluster_status *status)
{
    struct text text = text_over(written, sizeof(written) - 1);
    struct json_writer json = json_writer_over(&text);
    json_begin_object(&json, NULL);
    cluster_json_put(status, &json);
    json_end(&json);
    written[text.size] = '\0';
    return written;
}

static bool has(const char *part)
{
    return strstr(written, part) != NULL;
}

TEST(a_router_without_peers_shows_itself)
{
    struct cluster_status status = {
        .router = 0x1f, .name = "host/1", .link = {.kind = "mesh", .is_up = true}};
    document(&status);
    CHECK(has("\"router\":\"000000000000001f\",\"name\":\"host/1\",\"kind\":\"mesh\",\"up\":true,"
              "\"why\":null"));
    CHECK(has("\"snapshot_age_ms\":null"));
    CHECK(has("\"peers\":[]"));
}

TEST(a_store_that_is_down_says_why)
{
    struct cluster_status status = {.router = 1,
                                    .link = {.kind = "redis", .why = "connection \"refused\""}};
    document(&status);
    CHECK(has("\"up\":false,\"why\":\"connection \\\"refused\\\"\""));
}

TEST(a_peer_has_the_counts_of_its_batches)
{
    struct cluster_status status = {
        .router = 1,
        .now_ms = 5000,
        .replica =
            {.snapshot_at_ms = 4000,
             .peer_count = 1,
             .peers = {{.router = 2, .batches = 7, .gaps = 1, .has_gap = true, .requests = 3}}},
        .link = {.kind = "mesh",
                 .is_up = true,
                 .peer_count = 1,
                 .peers = {{.router = 2,
                            .name = "host/2",
                            .address = "10.0.0.2:7946",
                            .is_there = true,
                            .heard_ms = 4988}}},
    };
    document(&status);
    CHECK(has("\"router\":\"0000000000000002\",\"name\":\"host/2\",\"address\":\"10.0.0.2:7946\","
              "\"there\":true,\"why\":null,\"heard_ms\":12"));
    CHECK(has("\"in_flight\":3,\"batches\":7,\"records\":0,\"gaps\":1,\"complete\":false"));
    CHECK(has("\"snapshot_age_ms\":1000"));
}

TEST(an_address_without_a_router_shows_its_last_failure)
{
    struct cluster_status status = {
        .router = 1,
        .link = {.kind = "mesh",
                 .is_up = true,
                 .peer_count = 1,
                 .peers = {{.address = "10.0.0.9:7946", .why = "refused"}}},
    };
    document(&status);
    CHECK(has("{\"router\":null,\"name\":null,\"address\":\"10.0.0.9:7946\",\"there\":false,"
              "\"why\":\"refused\",\"heard_ms\":null"));
    CHECK(!has("\"batches\":"));
}
