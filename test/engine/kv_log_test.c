// SPDX-License-Identifier: Apache-2.0

#include "engine/kv_log.h"

#include "test.h"

#include <stdlib.h>

static enum status append(struct kv_log *log, uint64_t sequence, size_t size)
{
    struct kv_message *message = malloc(sizeof(*message) + size);
    ASSERT(message != NULL);
    *message = (struct kv_message){.sequence = sequence, .size = size};
    memset(message->bytes, (int)sequence, size);
    enum status status = kv_log_append(log, &message);
    ASSERT(message == NULL);
    return status;
}

TEST(the_oldest_go_when_there_are_too_many)
{
    struct kv_log log;
    CHECK(kv_log_init(&log, 3, 1000) == STATUS_OK);
    for (uint64_t i = 0; i < 10; i++) {
        CHECK(append(&log, i, 10) == STATUS_OK);
        CHECK_EQ(log.end, i + 1);
        CHECK_EQ(log.oldest, i < 3 ? 0 : i - 2);
    }
    CHECK_EQ(log.size, 30);
    kv_log_fini(&log);
}

TEST(the_oldest_go_when_they_are_too_large)
{
    struct kv_log log;
    CHECK(kv_log_init(&log, 100, 100) == STATUS_OK);
    CHECK(append(&log, 0, 40) == STATUS_OK);
    CHECK(append(&log, 1, 60) == STATUS_OK);
    CHECK_EQ(log.oldest, 0);
    CHECK(append(&log, 2, 1) == STATUS_OK);
    CHECK_EQ(log.oldest, 1);
    CHECK(append(&log, 3, 100) == STATUS_OK);
    CHECK_EQ(log.oldest, 3);
    CHECK(append(&log, 4, 101) == STATUS_TOO_LARGE);
    CHECK_EQ(log.oldest, 3);
    CHECK_EQ(log.end, 4);
    CHECK_EQ(log.size, 100);
    kv_log_fini(&log);
}

TEST(messages_are_found_by_their_position)
{
    struct kv_log log;
    CHECK(kv_log_init(&log, 2, 1000) == STATUS_OK);
    for (uint64_t sequence = 7; sequence < 10; sequence++) {
        CHECK(append(&log, sequence, 10) == STATUS_OK);
    }
    CHECK_EQ(log.oldest, 1);
    CHECK_EQ(kv_log_at(&log, 1)->sequence, 8);
    CHECK_EQ(kv_log_at(&log, 2)->bytes[9], 9);
    kv_log_fini(&log);
}

TEST(a_sequence_number_is_found_or_the_next_one_is)
{
    struct kv_log log;
    CHECK(kv_log_init(&log, 4, 1000) == STATUS_OK);
    CHECK_EQ(kv_log_find(&log, 0), 0);
    for (uint64_t sequence = 10; sequence < 30; sequence += 3) { // 10 13 16 19 22 25 28
        CHECK(append(&log, sequence, 1) == STATUS_OK);
    }
    CHECK_EQ(log.oldest, 3);
    for (uint64_t sequence = 0; sequence < 40; sequence++) {
        uint64_t position = log.oldest;
        while (position < log.end && 10 + 3 * position < sequence) {
            position++;
        }
        CHECK_EQ(kv_log_find(&log, sequence), position);
    }
    CHECK_EQ(kv_log_find(&log, UINT64_MAX), log.end);
    kv_log_fini(&log);
}

TEST(a_cleared_log_is_empty_and_begins_anew)
{
    struct kv_log log;
    CHECK(kv_log_init(&log, 4, 1000) == STATUS_OK);
    CHECK(append(&log, 5, 10) == STATUS_OK);
    CHECK(append(&log, 6, 10) == STATUS_OK);
    kv_log_clear(&log);
    CHECK_EQ(log.size, 0);
    CHECK_EQ(kv_log_find(&log, 0), 2);
    CHECK_EQ(log.end, 2);
    CHECK(append(&log, 0, 10) == STATUS_OK);
    CHECK_EQ(kv_log_find(&log, 0), 2);
    CHECK_EQ(log.end, 3);
    kv_log_fini(&log);
}
