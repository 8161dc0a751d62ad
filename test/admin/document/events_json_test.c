// SPDX-License-Identifier: Apache-2.0

#include "admin/document/events_json.h"

#include "base/text.h"
#include "feed/kv/kv_feeder.h"
#include "fleet/backend.h"
#include "test.h"

static char space[4096];

static const char *write(const struct backend *backend, const struct kv_feed_status *heard)
{
    struct text text = text_over(space, sizeof(space) - 1);
    events_json_add(backend, heard, &text);
    ASSERT(!text.overflow);
    space[text.size] = '\0';
    return space;
}

TEST(a_backend_without_events_says_so)
{
    struct backend backend = {.rank_count = 1};
    CHECK_STR(write(&backend, NULL),
              "{\"state\":\"none\",\"endpoint\":null,\"rank\":0,\"ranks\":1}");
}

TEST(what_is_heard_is_told_with_every_count)
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

TEST(who_was_never_heard_has_been_silent_for_no_time)
{
    struct backend backend = {.rank_count = 1};
    struct kv_feed_status status = {.last_ms = UINT64_MAX};
    CHECK(strstr(write(&backend, &status), "\"silent_ms\":null,") != NULL);
}
