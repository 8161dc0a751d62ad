// SPDX-License-Identifier: Apache-2.0
//
// Replies are written as bytes and read by the codec, as those of a store.

#include "cluster/store_inbox.h"

#include "base/base.h"
#include "test.h"

enum { us = 1, peer = 2, log_size = 4096 };

static struct store_inbox inbox;
static uint8_t reply_bytes[1 << 20];
static struct text reply_text;
static char told[log_size];
static size_t told_size;
static uint64_t now = 1000;

static void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void tell(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    told_size += (size_t)vsnprintf(told + told_size, sizeof(told) - told_size, format, args);
    va_end(args);
    ASSERT(told_size < sizeof(told));
}

static void note_came(void *owner, uint64_t router, const char *name, struct slice hello)
{
    (void)owner;
    tell("came %" PRIu64 " %s %.*s;", router, name, (int)hello.size, (const char *)hello.bytes);
}

static void note_left(void *owner, uint64_t router)
{
    (void)owner;
    tell("left %" PRIu64 ";", router);
}

static void note_frame(void *owner, uint64_t router, struct slice frame)
{
    (void)owner;
    tell("%" PRIu64 ":%.*s;", router, (int)frame.size, (const char *)frame.bytes);
}

static const struct link_events events = {note_came, note_left, note_frame};

static const char *take_told(void)
{
    static char text[log_size];
    memcpy(text, told, sizeof(text));
    told_size = 0;
    told[0] = '\0';
    return text;
}

static void begin(void)
{
    store_inbox_init(
        &inbox, &(struct store_inbox_options){.cluster = "c", .events = &events, .router = us});
    take_told();
    reply_text = text_over(reply_bytes, sizeof(reply_bytes));
}

static void put_bulk(struct slice bytes)
{
    text_add_format(&reply_text, "$%zu\r\n", bytes.size);
    text_add(&reply_text, bytes);
    text_add_str(&reply_text, "\r\n");
}

static void put_value(uint64_t to, enum store_kind kind, uint64_t counter, struct slice body)
{
    static uint8_t value[store_envelope_size_max];
    struct store_envelope envelope = {.from = peer, .to = to, .kind = kind, .counter = counter};
    envelope.body = body;
    put_bulk(slice_of(value, store_envelope_write(&envelope, NULL, value)));
}

static struct store_reply *parse(void)
{
    static const struct store_codec_bounds bounds = {1 << 16, 1 << 22, 1 << 16};
    struct store_codec *codec = NULL;
    struct store_reply *reply = NULL;
    ASSERT(!reply_text.overflow && store_codec_create(&bounds, &codec) == STATUS_OK);
    ASSERT(store_codec_feed(codec, text_slice(&reply_text)) == STATUS_OK);
    ASSERT(store_codec_next(codec, &reply) == STATUS_OK);
    store_codec_destroy(&codec);
    reply_text.size = 0;
    return reply;
}

static void hear_peer(uint64_t counter, bool lists_us)
{
    uint8_t body[store_hello_size_max];
    bool is_newly_heard = false;
    struct store_hello hello = {.name = "p", .hello = slice_str("hi"), .seen_count = lists_us};
    hello.seen[0] = us;
    text_add_str(&reply_text, "*2\r\n");
    put_bulk(slice_str("0000000000000002"));
    put_value(0, STORE_HELLO, counter, slice_of(body, store_hello_write(&hello, body)));
    struct store_reply *reply = parse();
    ASSERT(store_inbox_take_hellos(&inbox, reply, now, &is_newly_heard) == STATUS_OK);
    store_reply_free(&reply);
}

static enum status take_entries(void)
{
    struct store_reply *reply = parse();
    enum status status = store_inbox_take_entries(&inbox, reply, now);
    store_reply_free(&reply);
    return status;
}

static void put_stream(const char *key, uint32_t entry_count)
{
    text_add_format(&reply_text, "*2\r\n");
    put_bulk(slice_str(key));
    text_add_format(&reply_text, "*%u\r\n", entry_count);
}

static void put_entry(uint64_t to, uint64_t counter, const char *body)
{
    char id[32];
    snprintf(id, sizeof(id), "%" PRIu64 "-0", counter);
    text_add_str(&reply_text, "*2\r\n");
    put_bulk(slice_str(id));
    text_add_str(&reply_text, "*2\r\n");
    put_bulk(slice_str("b"));
    put_value(to, STORE_FRAME, counter, slice_str(body));
}

static const char to_all[] = "warmpath:{c}:d:0000000000000002";
static const char to_us[] = "warmpath:{c}:d:0000000000000002:0000000000000001";

// The words of the next read, joined.
static const char *next_read(void)
{
    static char line[8192];
    struct slice words[store_read_word_count_max];
    struct text text = text_over(line, sizeof(line) - 1);
    uint32_t count = store_inbox_write_read(&inbox, 100, words);
    for (uint32_t i = 0; i < count; i++) {
        text_add_str(&text, i > 0 ? " " : "");
        text_add(&text, words[i]);
    }
    line[text.size] = '\0';
    return line;
}

static const char *positions(void)
{
    const char *line = next_read();
    return strstr(line, to_us) + strlen(to_us) + 1;
}

TEST(a_router_comes_with_its_name_and_is_read_from_its_first_hello)
{
    begin();
    CHECK_STR(next_read(), "");
    hear_peer(10, false);
    CHECK_STR(take_told(), "");
    CHECK_STR(next_read(), "");
    hear_peer(11, true);
    CHECK_STR(take_told(), "came 2 p hi;");
    CHECK_STR(next_read(), "XREAD COUNT 31 BLOCK 100 STREAMS warmpath:{c}:d:0000000000000002 "
                           "warmpath:{c}:d:0000000000000002:0000000000000001 10-0 10-0");
    now += link_silence_ms + 1;
    store_inbox_expire(&inbox, now);
    CHECK_STR(take_told(), "left 2;");
    store_inbox_fini(&inbox);
}

TEST(frames_to_all_and_to_us_are_taken_in_the_order_of_their_counters)
{
    begin();
    hear_peer(10, true);
    take_told();
    next_read();
    text_add_str(&reply_text, "*2\r\n");
    put_stream(to_us, 3);
    put_entry(us, 12, "b");
    put_entry(us, 13, "c");
    put_entry(us, 20, "f");
    put_stream(to_all, 3);
    put_entry(0, 11, "a");
    put_entry(0, 15, "d");
    put_entry(0, 19, "e");
    CHECK_EQ(take_entries(), STATUS_OK);
    CHECK_STR(take_told(), "2:a;2:b;2:c;2:d;2:e;2:f;");
    CHECK_STR(positions(), "19-0 20-0");
    CHECK_EQ(inbox.skipped_count, 0);
    CHECK_EQ(inbox.taken_count, 6);
    store_inbox_fini(&inbox);
}

TEST(a_stream_that_was_cut_holds_back_later_entries_of_the_other)
{
    begin();
    hear_peer(10, true);
    take_told();
    next_read();
    inbox.read_count = 2; // as if so many were asked for
    text_add_str(&reply_text, "*2\r\n");
    put_stream(to_all, 2);
    put_entry(0, 11, "a");
    put_entry(0, 13, "c");
    put_stream(to_us, 2);
    put_entry(us, 12, "b");
    put_entry(us, 20, "x");
    CHECK_EQ(take_entries(), STATUS_OK);
    CHECK_STR(take_told(), "2:a;2:b;2:c;");
    CHECK_STR(positions(), "13-0 12-0");
    store_inbox_fini(&inbox);
}

TEST(a_router_that_says_that_it_leaves_is_gone_and_its_old_hello_changes_nothing)
{
    begin();
    hear_peer(10, true);
    take_told();
    next_read();
    text_add_str(&reply_text, "*1\r\n");
    put_stream(to_all, 3);
    put_entry(0, 11, "a");
    text_add_str(&reply_text, "*2\r\n$4\r\n12-0\r\n*2\r\n$1\r\nb\r\n");
    put_value(0, STORE_LEAVE, 12, (struct slice){0});
    put_entry(0, 13, "z");
    CHECK_EQ(take_entries(), STATUS_OK);
    CHECK_STR(take_told(), "2:a;left 2;");
    hear_peer(11, true);
    hear_peer(12, true);
    CHECK_STR(take_told(), "");
    hear_peer(14, true);
    CHECK_STR(take_told(), "came 2 p hi;");
    store_inbox_fini(&inbox);
}

TEST(foreign_and_repeated_entries_are_skipped_and_spoil_their_stream)
{
    uint64_t from = 0;
    uint64_t to = 7;
    begin();
    hear_peer(10, true);
    take_told();
    next_read();
    text_add_str(&reply_text, "*1\r\n");
    put_stream(to_all, 5);
    put_entry(0, 11, "a");
    // An old value under a new id; another form; a value for us in the stream to all.
    text_add_str(&reply_text, "*2\r\n$4\r\n12-0\r\n*2\r\n$1\r\nb\r\n");
    put_value(0, STORE_FRAME, 11, slice_str("a"));
    text_add_str(&reply_text, "*2\r\n$4\r\n13-0\r\n*-1\r\n");
    text_add_str(&reply_text, "*2\r\n$6\r\n1700-5\r\n*2\r\n$1\r\nx\r\n$1\r\ny\r\n");
    text_add_str(&reply_text, "*2\r\n$6\r\n1700-6\r\n*2\r\n$1\r\nb\r\n");
    put_value(0, STORE_FRAME, 1700, slice_str("other minor"));
    CHECK_EQ(take_entries(), STATUS_OK);
    CHECK_STR(take_told(), "2:a;");
    CHECK_EQ(inbox.skipped_count, 4);
    CHECK(store_inbox_spoiled(&inbox, &from, &to));
    CHECK_EQ(from, peer);
    CHECK_EQ(to, 0);
    CHECK(!store_inbox_spoiled(&inbox, &from, &to));
    CHECK_STR(positions(), "1700-6 10-0");
    hear_peer(20, true);
    CHECK_STR(positions(), "11-0 10-0");
    store_inbox_spoil_all(&inbox);
    CHECK(store_inbox_spoiled(&inbox, &from, &to) && store_inbox_spoiled(&inbox, &from, &to));
    CHECK_EQ(to, us);
    store_inbox_fini(&inbox);
}

TEST(entries_that_were_read_before_are_passed_over)
{
    begin();
    hear_peer(10, true);
    take_told();
    next_read();
    text_add_str(&reply_text, "*1\r\n");
    put_stream(to_all, 2);
    put_entry(0, 9, "old");
    put_entry(0, 10, "old");
    CHECK_EQ(take_entries(), STATUS_OK);
    CHECK_STR(take_told(), "");
    CHECK_EQ(inbox.taken_count, 0);
    CHECK_EQ(inbox.skipped_count, 0);
    store_inbox_fini(&inbox);
}

TEST(replies_of_another_form_are_malformed_and_unknown_streams_are_passed_over)
{
    static const struct {
        const char *reply;
        enum status status;
    } rows[] = {
        {"*-1\r\n", STATUS_OK},
        {"*0\r\n", STATUS_OK},
        {"*1\r\n*2\r\n$1\r\nx\r\n*0\r\n", STATUS_OK},
        {"*1\r\n*2\r\n$31\r\nwarmpath:{c}:d:0000000000000002\r\n*0\r\n", STATUS_OK},
        {":1\r\n", STATUS_MALFORMED},
        {"+OK\r\n", STATUS_MALFORMED},
        {"*1\r\n:1\r\n", STATUS_MALFORMED},
        {"*1\r\n*1\r\n$1\r\nx\r\n", STATUS_MALFORMED},
        {"*1\r\n*2\r\n$1\r\nx\r\n:1\r\n", STATUS_MALFORMED},
        {"*1\r\n*2\r\n$31\r\nwarmpath:{c}:d:0000000000000002\r\n*1\r\n:1\r\n", STATUS_MALFORMED},
        {"*1\r\n*2\r\n$31\r\nwarmpath:{c}:d:0000000000000002\r\n*1\r\n*2\r\n$2\r\n11\r\n*0\r\n",
         STATUS_MALFORMED},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        begin();
        hear_peer(10, true);
        next_read();
        text_add_str(&reply_text, rows[i].reply);
        enum status status = take_entries();
        if (status != rows[i].status) {
            test_fail(__FILE__, __LINE__, "%s: %s", rows[i].reply, status_text(status));
        }
        store_inbox_fini(&inbox);
    }
}

TEST(hellos_that_are_none_are_skipped_and_take_no_place)
{
    bool is_newly_heard = true;
    begin();
    text_add_str(&reply_text, "*10\r\n");
    put_bulk(slice_str("x"));
    put_bulk(slice_str("y"));
    put_bulk(slice_str("00000000000000AA")); // capital letters
    put_bulk(slice_str("y"));
    put_bulk(slice_str("00000000000000aa"));
    put_bulk(slice_str("y"));
    put_bulk(slice_str("0000000000000001")); // our own
    put_bulk(slice_str("y"));
    put_bulk(slice_str("00000000000000ab"));
    text_add_str(&reply_text, "*0\r\n");
    struct store_reply *reply = parse();
    CHECK_EQ(store_inbox_take_hellos(&inbox, reply, now, &is_newly_heard), STATUS_OK);
    store_reply_free(&reply);
    CHECK(!is_newly_heard);
    CHECK_EQ(inbox.skipped_count, 4);
    CHECK(store_members_find(&inbox.members, 0xaa) == NULL);
    text_add_str(&reply_text, "*1\r\n:1\r\n");
    reply = parse();
    CHECK_EQ(store_inbox_take_hellos(&inbox, reply, now, &is_newly_heard), STATUS_MALFORMED);
    store_reply_free(&reply);
    text_add_str(&reply_text, "*-1\r\n");
    reply = parse();
    CHECK_EQ(store_inbox_take_hellos(&inbox, reply, now, &is_newly_heard), STATUS_MALFORMED);
    store_reply_free(&reply);
    store_inbox_fini(&inbox);
}

TEST(with_32_routers_a_read_names_all_streams_and_asks_for_few_entries)
{
    struct store_hello hello = {.seen_count = 1};
    struct slice words[store_read_word_count_max];
    begin();
    hello.seen[0] = us;
    for (uint64_t i = 0; i < link_peer_count_max; i++) {
        struct store_member *member = store_members_claim(&inbox.members, UINT64_MAX - i, now);
        CHECK_EQ(store_members_hear(&inbox.members, member, UINT64_MAX, &hello, now), STORE_CAME);
    }
    CHECK_EQ(store_inbox_write_read(&inbox, 100, words), store_read_word_count_max);
    CHECK_EQ(inbox.read_count, 1);
    store_inbox_fini(&inbox);
}
