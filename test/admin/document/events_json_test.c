// SPDX-License-Identifier: Apache-2.0

#include "admin/document/events_json.h"

#include "feed/kv/kv_feeder.h"
#include "fleet/backend.h"
#include "json/json_writer.h"
#include "test.h"

static char space[4096];

static const char *write(const struct backend *backend, const struct kv_feed_status *status)
{
    struct text text = text_over(space, sizeof(space) - 1);
    struct json_writer json = json_writer_over(&text);
    json_begin_object(&json, NULL);
    events_json_put(backend, status, &json);
    ASSERT(!text.overflow);
    space[text.size] = '\0';
    return space + strlen("{\"events\":");
}

TEST(a_backend_without_events_says_so)
{
    struct backend backend = {.rank_count = 1};
    CHECK_STR(write(&backend, NULL),
              "{\"state\":\"none\",\"endpoint\":null,\"rank\":0,\"ranks\":1}");
}

TEST(a_feed_is_shown_with_every_count)
{
    char endpoint[] = "tcp://10.0.0.7:5558";
    struct backend backend = {.rank = 1, .rank_count = 2, .events = endpoint};
    struct kv_feed_status status = {.is_connected = true,
                                    .next_number = 7,
                                    .block_count = 30,
                                    .block_tokens = 16,
                                    .last_ms = 9,
                                    .lag_ms = 3};
    atomic_store(&backend.shared.events, BACKEND_EVENTS_LIVE);
    status.follower.gaps = 3;
    status.holdings.orphans = 4;
    const char *json = write(&backend, &status);
    CHECK(strstr(json, "{\"state\":\"live\",\"endpoint\":\"tcp://10.0.0.7:5558\",\"rank\":1,"
                       "\"ranks\":2,\"connected\":true,\"block_tokens\":16,") == json);
    CHECK(strstr(json, "\"silent_ms\":9,\"lag_ms\":3,\"stream\":{\"number\":7,") != NULL);
    CHECK(strstr(json, ",\"gaps\":3,") != NULL);
    CHECK(strstr(json, "},\"told\":{\"blocks\":30,") != NULL);
    CHECK(strstr(json, ",\"orphans\":4,") != NULL);
    CHECK_STR(json + strlen(json) - 2, "}}");
}

TEST(a_feed_without_a_message_has_no_silence)
{
    struct backend backend = {.rank_count = 1};
    struct kv_feed_status status = {.last_ms = UINT64_MAX};
    CHECK(strstr(write(&backend, &status), "\"silent_ms\":null,") != NULL);
}
