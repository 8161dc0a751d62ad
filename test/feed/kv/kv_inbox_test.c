// SPDX-License-Identifier: Apache-2.0

#include "feed/kv/kv_inbox.h"

#include "sys/thread.h"
#include "test.h"

#include <stdlib.h>

static bool takes(struct kv_inbox *inbox, uint64_t id, const char *text)
{
    struct kv_document *document = kv_inbox_take(inbox);
    bool is_it = document != NULL && document->backend_id == id && slice_is(document->bytes, text);
    if (document != NULL) {
        kv_inbox_give_back(inbox, &document);
    }
    return is_it && document == NULL;
}

TEST(documents_are_taken_in_the_order_they_were_put)
{
    struct kv_inbox space;
    struct kv_inbox *inbox = &space;
    kv_inbox_init(inbox);
    CHECK(kv_inbox_take(inbox) == NULL);
    CHECK_EQ(kv_inbox_put(inbox, 7, slice_str("first")), STATUS_OK);
    CHECK_EQ(kv_inbox_put(inbox, 8, slice_str("")), STATUS_OK);
    CHECK(takes(inbox, 7, "first"));
    CHECK(takes(inbox, 8, ""));
    CHECK(kv_inbox_take(inbox) == NULL);
    kv_inbox_fini(inbox);
}

TEST(the_number_of_waiting_documents_is_bounded)
{
    struct kv_inbox space;
    struct kv_inbox *inbox = &space;
    kv_inbox_init(inbox);
    for (uint32_t i = 0; i < kv_inbox_max; i++) {
        CHECK_EQ(kv_inbox_put(inbox, i, slice_str("x")), STATUS_OK);
    }
    CHECK_EQ(kv_inbox_put(inbox, 0, slice_str("x")), STATUS_EXHAUSTED);
    CHECK(takes(inbox, 0, "x"));
    CHECK_EQ(kv_inbox_put(inbox, 64, slice_str("x")), STATUS_OK);
    kv_inbox_fini(inbox);
}

TEST(the_bytes_of_waiting_documents_are_bounded)
{
    struct kv_inbox space;
    struct kv_inbox *inbox = &space;
    kv_inbox_init(inbox);
    size_t size = kv_inbox_bytes_max / 2;
    uint8_t *bytes = calloc(1, size + 1);
    CHECK(bytes != NULL);
    CHECK_EQ(kv_inbox_put(inbox, 1, slice_of(bytes, size)), STATUS_OK);
    CHECK_EQ(kv_inbox_put(inbox, 1, slice_of(bytes, size + 1)), STATUS_EXHAUSTED);
    CHECK_EQ(kv_inbox_put(inbox, 1, slice_of(bytes, size)), STATUS_OK);
    CHECK_EQ(kv_inbox_put(inbox, 1, slice_of(bytes, 1)), STATUS_EXHAUSTED);
    struct kv_document *document = kv_inbox_take(inbox);
    kv_inbox_give_back(inbox, &document);
    CHECK_EQ(kv_inbox_put(inbox, 1, slice_of(bytes, size)), STATUS_OK);
    free(bytes);
    kv_inbox_fini(inbox);
}

enum { sent = 20000 };

static void put_all(void *owner)
{
    struct kv_inbox *inbox = owner;
    for (uint64_t i = 0; i < sent; i++) {
        while (kv_inbox_put(inbox, i, slice_of(&i, sizeof(i))) != STATUS_OK) {
        }
    }
}

TEST(one_thread_puts_while_another_takes)
{
    struct kv_inbox space;
    struct kv_inbox *inbox = &space;
    kv_inbox_init(inbox);
    struct thread *thread = NULL;
    uint64_t wrong = 0;
    CHECK_EQ(thread_start("put", put_all, inbox, &thread), STATUS_OK);
    for (uint64_t i = 0; i < sent;) {
        struct kv_document *document = kv_inbox_take(inbox);
        if (document != NULL) {
            wrong +=
                document->backend_id != i || !slice_equal(document->bytes, slice_of(&i, sizeof(i)));
            kv_inbox_give_back(inbox, &document);
            i++;
        }
    }
    thread_join(&thread);
    CHECK_EQ(wrong, 0);
    kv_inbox_fini(inbox);
}
