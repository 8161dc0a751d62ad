// SPDX-License-Identifier: Apache-2.0

#include "admin/document/cluster_json.h"

#include "cluster/cluster.h"
#include "json/json_writer.h"
#include "test.h"

static struct cluster_status status;
static char bytes[65536];

static void set_up(void)
{
    status = (struct cluster_status){.router = 0x5f3a, .name = "host/1", .now_ms = 5000};
    status.link.kind = "mesh";
    status.link.is_up = true;
}

static const char *document(void)
{
    struct text text = text_over(bytes, sizeof(bytes) - 1);
    struct json_writer json = json_writer_over(&text);
    json_begin_object(&json, NULL);
    cluster_json_put(&status, &json);
    json_end(&json);
    ASSERT(!text.overflow);
    bytes[text.size] = '\0';
    return bytes;
}

static bool has(const char *part)
{
    return strstr(document(), part) != NULL;
}

TEST(a_router_alone_has_an_id_a_name_and_no_peers)
{
    set_up();
    CHECK(has("{\"cluster\":{\"router\":\"0000000000005f3a\",\"name\":\"host/1\","
              "\"kind\":\"mesh\",\"up\":true,\"why\":null,\"joining\":false,\"notes\":0,"));
    CHECK(has("\"snapshot_age_ms\":null,\"peers\":[]}}"));
}

TEST(a_link_that_is_down_says_why)
{
    set_up();
    status.link.kind = "redis";
    status.link.is_up = false;
    snprintf(status.link.why, sizeof(status.link.why), "connection \"refused\"");
    status.replica.is_joining = true;
    CHECK(has("\"kind\":\"redis\",\"up\":false,\"why\":\"connection \\\"refused\\\"\","
              "\"joining\":true,"));
}

TEST(every_count_has_its_own_name)
{
    static const char *const names[] = {"notes",
                                        "notes_dropped",
                                        "batches_sent",
                                        "batches_dropped",
                                        "batches_taken",
                                        "batch_bytes",
                                        "repeated",
                                        "gaps",
                                        "orphans",
                                        "malformed",
                                        "foreign",
                                        "lives_ended",
                                        "snapshots_asked",
                                        "snapshots_taken",
                                        "snapshots_given",
                                        "snapshot_ms",
                                        "snapshot_records",
                                        "open_predictions",
                                        "memory",
                                        "bytes_in",
                                        "bytes_out",
                                        "frames_dropped"};
    set_up();
    struct replica_status *replica = &status.replica;
    *replica = (struct replica_status){.notes = 101,
                                       .batches_sent = 103,
                                       .batches_dropped = 104,
                                       .batches_taken = 105,
                                       .bytes_sent = 106,
                                       .repeated = 107,
                                       .gaps = 108,
                                       .orphans = 109,
                                       .malformed = 110,
                                       .foreign = 111,
                                       .eras = 112,
                                       .snapshots_asked = 113,
                                       .snapshots_taken = 114,
                                       .snapshots_given = 115,
                                       .snapshot_ms = 116,
                                       .snapshot_records = 117,
                                       .open_predictions = 118,
                                       .memory = 119,
                                       .snapshot_at_ms = 4000};
    status.notes_dropped = 102;
    status.link.bytes_in = 120;
    status.link.bytes_out = 121;
    status.link.frames_dropped = 122;
    for (uint32_t i = 0; i < ARRAY_COUNT(names); i++) {
        char part[64];
        snprintf(part, sizeof(part), "\"%s\":%u,", names[i], 101 + i);
        if (!has(part)) {
            test_fail(__FILE__, __LINE__, "no %s in %s", part, bytes);
            return;
        }
    }
    CHECK(has("\"snapshot_age_ms\":1000,"));
}

TEST(a_peer_has_what_its_connection_and_its_batches_say)
{
    set_up();
    status.link.peer_count = 1;
    status.link.peers[0] = (struct link_peer_status){.router = UINT64_MAX,
                                                     .name = "other/2",
                                                     .address = "10.0.0.2:7946",
                                                     .is_there = true,
                                                     .heard_ms = 4988,
                                                     .bytes_in = 5,
                                                     .bytes_out = 6,
                                                     .frames_dropped = 7};
    status.replica.peer_count = 2;
    status.replica.peers[0] = (struct replica_peer_status){.router = 3, .batches = 9};
    status.replica.peers[1] = (struct replica_peer_status){
        .router = UINT64_MAX, .requests = 3, .batches = 388, .records = 1000, .gaps = 2};
    CHECK(has("\"peers\":[{\"router\":\"ffffffffffffffff\",\"name\":\"other/2\","
              "\"address\":\"10.0.0.2:7946\",\"there\":true,\"why\":null,\"heard_ms\":12,"
              "\"bytes_in\":5,\"bytes_out\":6,\"frames_dropped\":7,\"lag_ms\":0,\"in_flight\":3,"
              "\"batches\":388,\"records\":1000,\"gaps\":2,\"complete\":true}]"));
    status.replica.peers[1].has_gap = true;
    CHECK(has("\"complete\":false"));
}

TEST(an_address_without_a_router_has_only_what_its_connection_says)
{
    set_up();
    status.link.peer_count = 1;
    status.link.peers[0] =
        (struct link_peer_status){.address = "10.0.0.3:7946", .why = "connection refused"};
    // A row of an empty place must not be taken for it.
    status.replica.peer_count = 1;
    CHECK(has("\"peers\":[{\"router\":null,\"name\":null,\"address\":\"10.0.0.3:7946\","
              "\"there\":false,\"why\":\"connection refused\",\"heard_ms\":null,\"bytes_in\":0,"
              "\"bytes_out\":0,\"frames_dropped\":0}]"));
}

TEST(names_from_outside_are_escaped)
{
    set_up();
    status.link.peer_count = 1;
    status.link.peers[0] = (struct link_peer_status){.router = 1, .name = "a\"b\\\n\xff"};
    CHECK(has("\"name\":\"a\\\"b\\\\\\n"));
    CHECK(strchr(bytes, '\n') == NULL);
    CHECK(strchr(bytes, '\xff') == NULL);
}

TEST(a_moment_in_the_future_is_now)
{
    set_up();
    status.link.peer_count = 1;
    status.link.peers[0] = (struct link_peer_status){.router = 1, .heard_ms = 6000};
    CHECK(has("\"heard_ms\":0,"));
}

TEST(all_peers_are_listed)
{
    set_up();
    status.link.peer_count = link_peer_count_max;
    for (uint32_t i = 0; i < link_peer_count_max; i++) {
        status.link.peers[i] = (struct link_peer_status){.router = i + 1};
    }
    uint32_t count = 0;
    for (const char *at = document(); (at = strstr(at, "\"there\":")) != NULL; at++) {
        count++;
    }
    CHECK_EQ(count, link_peer_count_max);
}
