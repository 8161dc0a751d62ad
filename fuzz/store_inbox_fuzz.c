// SPDX-License-Identifier: Apache-2.0
//
// Any replies, by turns as hellos and as entries: events alternate as they should, a router's
// frames come only while it is there, and no position goes back without a new hello.

#include "base/base.h"
#include "cluster/store_inbox.h"
#include "fuzz.h"

#include <stdlib.h>

enum { router = 1, there_count_max = 256 };

static uint64_t there[there_count_max];
static uint32_t there_count;

static uint32_t find(uint64_t id)
{
    uint32_t at = 0;
    while (at < there_count && there[at] != id) {
        at++;
    }
    return at;
}

static void came(void *owner, uint64_t id, const char *name, struct slice hello)
{
    (void)owner;
    ASSERT(id != 0 && id != router && find(id) == there_count && there_count < there_count_max);
    ASSERT(memchr(name, '\0', link_name_size) != NULL && hello.size <= link_hello_size_max);
    there[there_count++] = id;
}

static void left(void *owner, uint64_t id)
{
    uint32_t at = find(id);
    (void)owner;
    ASSERT(at < there_count);
    there[at] = there[--there_count];
}

static void frame(void *owner, uint64_t id, struct slice bytes)
{
    (void)owner;
    ASSERT(find(id) < there_count && bytes.size <= link_frame_size_max);
}

static void take(struct store_inbox *inbox, const struct store_reply *reply, uint64_t now_ms)
{
    struct slice words[store_read_word_count_max];
    uint64_t from = 0;
    uint64_t to = 0;
    bool is_newly_heard = false;

    if (now_ms % 2 == 0) {
        (void)store_inbox_take_hellos(inbox, reply, now_ms, &is_newly_heard);
    } else if (store_inbox_write_read(inbox, 100, words) > 0) {
        (void)store_inbox_take_entries(inbox, reply, now_ms);
    }
    while (store_inbox_spoiled(inbox, &from, &to)) {
        ASSERT(from != 0 && (to == 0 || to == router));
    }
    ASSERT(inbox->members.there_count == there_count);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const struct store_codec_bounds bounds = {1 << 16, 1 << 20, 4096};
    static const struct link_events events = {.came = came, .left = left, .frame = frame};
    static struct store_inbox inbox;
    struct store_codec *codec = NULL;
    struct store_reply *reply = NULL;
    uint64_t now_ms = 1000;

    there_count = 0;
    store_inbox_init(
        &inbox, &(struct store_inbox_options){.cluster = "c", .events = &events, .router = router});
    ASSERT(store_codec_create(&bounds, &codec) == STATUS_OK);
    if (store_codec_feed(codec, slice_of(bytes, size)) == STATUS_OK) {
        while (store_codec_next(codec, &reply) == STATUS_OK) {
            take(&inbox, reply, now_ms++);
            store_reply_free(&reply);
        }
    }
    store_inbox_expire(&inbox, now_ms + link_silence_ms + 1);
    ASSERT(there_count == 0);
    store_codec_destroy(&codec);
    store_inbox_fini(&inbox);
    return 0;
}
