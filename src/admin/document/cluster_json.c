// SPDX-License-Identifier: Apache-2.0

#include "admin/document/cluster_json.h"

#include "admin/admin.h"
#include "base/base.h"
#include "cluster/cluster.h"
#include "json/json_writer.h"

#include <inttypes.h>
#include <stdio.h>

static void put_router(const char *key, uint64_t router, struct json_writer *json)
{
    char text[17];
    snprintf(text, sizeof(text), "%016" PRIx64, router);
    json_put_str(json, key, router != 0 ? text : NULL);
}

// A name of another router, or a reason that may quote it.
static void put_text_or_null(const char *key, const char *text, struct json_writer *json)
{
    if (text[0] != '\0') {
        json_put_foreign(json, key, slice_str(text));
    } else {
        json_put_null(json, key);
    }
}

static const struct replica_peer_status *replica_peer_of(const struct cluster_status *status,
                                                         uint64_t router)
{
    for (uint32_t i = 0; i < status->replica.peer_count; i++) {
        if (status->replica.peers[i].router == router) {
            return &status->replica.peers[i];
        }
    }
    return NULL;
}

static uint64_t cluster_age(const struct cluster_status *status, uint64_t at_ms)
{
    return status->now_ms > at_ms ? status->now_ms - at_ms : 0;
}

static void put_peer(const struct cluster_status *status, const struct link_peer_status *peer,
                     struct json_writer *json)
{
    const struct replica_peer_status *shared =
        peer->router != 0 ? replica_peer_of(status, peer->router) : NULL;

    json_begin_object(json, NULL);
    put_router("router", peer->router, json);
    put_text_or_null("name", peer->name, json);
    put_text_or_null("address", peer->address, json);
    json_put_bool(json, "there", peer->is_there);
    put_text_or_null("why", peer->why, json);
    json_put_known(json, "heard_ms", peer->heard_ms != 0, cluster_age(status, peer->heard_ms));
    json_put_u64(json, "bytes_in", peer->bytes_in);
    json_put_u64(json, "bytes_out", peer->bytes_out);
    json_put_u64(json, "frames_dropped", peer->frames_dropped);
    if (shared != NULL) {
        json_put_u64(json, "lag_ms", shared->lag_ms);
        json_put_u64(json, "in_flight", shared->requests);
        json_put_u64(json, "batches", shared->batches);
        json_put_u64(json, "records", shared->records);
        json_put_u64(json, "gaps", shared->gaps);
        json_put_bool(json, "complete", !shared->has_gap);
    }
    json_end(json);
}

static void put_counts(const struct cluster_status *status, struct json_writer *json)
{
    const struct replica_status *replica = &status->replica;
    const struct {
        const char *key;
        uint64_t value;
    } counts[] = {
        {"notes", replica->notes},
        {"notes_dropped", status->notes_dropped},
        {"batches_sent", replica->batches_sent},
        {"batches_dropped", replica->batches_dropped},
        {"batches_taken", replica->batches_taken},
        {"batch_bytes", replica->bytes_sent},
        {"repeated", replica->repeated},
        {"gaps", replica->gaps},
        {"orphans", replica->orphans},
        {"malformed", replica->malformed},
        {"foreign", replica->foreign},
        {"lives_ended", replica->eras},
        {"snapshots_asked", replica->snapshots_asked},
        {"snapshots_taken", replica->snapshots_taken},
        {"snapshots_given", replica->snapshots_given},
        {"snapshot_ms", replica->snapshot_ms},
        {"snapshot_records", replica->snapshot_records},
        {"open_predictions", replica->open_predictions},
        {"memory", replica->memory},
        {"bytes_in", status->link.bytes_in},
        {"bytes_out", status->link.bytes_out},
        {"frames_dropped", status->link.frames_dropped},
    };
    for (size_t i = 0; i < ARRAY_COUNT(counts); i++) {
        json_put_u64(json, counts[i].key, counts[i].value);
    }
    json_put_known(json, "snapshot_age_ms", replica->snapshot_at_ms != 0,
                   cluster_age(status, replica->snapshot_at_ms));
}

void cluster_json_put(const struct cluster_status *status, struct json_writer *json)
{
    json_begin_object(json, "cluster");
    put_router("router", status->router, json);
    put_text_or_null("name", status->name, json);
    json_put_str(json, "kind", status->link.kind);
    json_put_bool(json, "up", status->link.is_up);
    put_text_or_null("why", status->link.why, json);
    json_put_bool(json, "joining", status->replica.is_joining);
    put_counts(status, json);
    json_begin_array(json, "peers");
    for (uint32_t i = 0; i < status->link.peer_count; i++) {
        put_peer(status, &status->link.peers[i], json);
    }
    json_end(json);
    json_end(json);
}

void cluster_json_put_own(const struct admin_options *options, struct json_writer *json)
{
    struct cluster *cluster = admin_cluster(options);
    static struct cluster_status status; // too large for the stack; the keeper is the only caller

    if (cluster != NULL) {
        cluster_read_status(cluster, &status);
        cluster_json_put(&status, json);
    }
}
