// SPDX-License-Identifier: Apache-2.0

#include "sim/engine/zmtp.h"

#include "base/text.h"
#include "test.h"

#define ZERO_4 "\0\0\0\0"
#define ZERO_16 ZERO_4 ZERO_4 ZERO_4 ZERO_4
// As the library sends it, and as a plain reading of the protocol has it.
#define GREETING_1                                                                                 \
    "\xff\0\0\0\0\0\0\0\1\x7f\3\1NULL" ZERO_16 "\0" ZERO_16 ZERO_4 ZERO_4 ZERO_4 "\0\0\0"
#define GREETING_0                                                                                 \
    "\xff\0\0\0\0\0\0\0\0\x7f\3\0NULL" ZERO_16 "\0" ZERO_16 ZERO_4 ZERO_4 ZERO_4 "\0\0\0"
#define BYTES(literal) slice_of(literal, sizeof(literal) - 1)

// Feeds the bytes in portions and notes every frame as text: (greeting) [command:body] <message+>.
static const char *read_all(struct slice bytes, size_t portion, enum status *end)
{
    static struct zmtp_reader reader;
    static char notes[4096];
    struct text out = text_over(notes, sizeof(notes) - 1);
    struct zmtp_frame frame;

    reader = (struct zmtp_reader){0};
    *end = STATUS_AGAIN;
    for (size_t at = 0; *end == STATUS_AGAIN;) {
        while ((*end = zmtp_reader_next(&reader, &frame)) == STATUS_OK) {
            if (frame.kind == ZMTP_GREETING) {
                text_add_str(&out, "()");
            } else if (frame.kind == ZMTP_COMMAND) {
                text_add_format(&out, "[%.*s:", (int)frame.name.size,
                                (const char *)frame.name.bytes);
                text_add_format(&out, "%zu]", frame.body.size);
            } else {
                text_add_format(&out, "<%.*s%s>", (int)frame.body.size,
                                (const char *)frame.body.bytes, frame.has_more ? "+" : "");
            }
        }
        if (*end != STATUS_AGAIN || at == bytes.size) {
            break;
        }
        size_t capacity = 0;
        uint8_t *space = zmtp_reader_space(&reader, &capacity);
        size_t size = bytes.size - at < portion ? bytes.size - at : portion;
        size = size < capacity ? size : capacity;
        memcpy(space, bytes.bytes + at, size);
        zmtp_reader_filled(&reader, size);
        at += size;
    }
    ASSERT(!out.overflow);
    notes[out.size] = '\0';
    return notes;
}

TEST(frames_are_the_same_in_any_portions)
{
    static const char bytes[] = GREETING_1 "\4\x19\5READY\13Socket-Type\0\0\0\3SUB"
                                           "\1\0\0\3abc\2\0\0\0\0\0\0\0\4long\3\0\0\0\0\0\0\0\1m"
                                           "\4\5\4PING\6\0\0\0\0\0\0\0\5\4PING\0\0";
    for (size_t portion = 1; portion < sizeof(bytes); portion++) {
        enum status end;
        CHECK_STR(read_all(BYTES(bytes), portion, &end),
                  "()[READY:19]<+><abc><long><m+>[PING:0][PING:0]<>");
        CHECK_EQ(end, STATUS_AGAIN);
    }
}

TEST(greetings_of_either_minor_version_are_good)
{
    enum status end;
    CHECK_EQ(sizeof(GREETING_0), 65);
    CHECK_STR(read_all(BYTES(GREETING_0), 64, &end), "()");
    CHECK_STR(read_all(BYTES(GREETING_1), 64, &end), "()");
}

TEST(a_greeting_is_refused_at_its_first_wrong_byte)
{
    static const uint8_t checked[] = {0, 9, 12, 13, 14, 15, 16, 31};
    uint8_t greeting[] = GREETING_1;
    enum status end;

    for (size_t i = 0; i < ARRAY_COUNT(checked); i++) {
        uint8_t at = checked[i];
        greeting[at] ^= 0x20;
        CHECK_STR(read_all(slice_of(greeting, at), 64, &end), "");
        CHECK_EQ(end, STATUS_AGAIN);
        CHECK_STR(read_all(slice_of(greeting, at + 1), 64, &end), "");
        CHECK_EQ(end, STATUS_MALFORMED);
        greeting[at] ^= 0x20;
    }
    greeting[10] = 2;
    read_all(slice_of(greeting, 64), 64, &end);
    CHECK_EQ(end, STATUS_MALFORMED);
    read_all(slice_str("GET / HTTP/1.1\r\n"), 64, &end);
    CHECK_EQ(end, STATUS_MALFORMED);
}

TEST(frames_that_cannot_be_are_malformed)
{
    const struct {
        struct slice bytes;
        enum status status;
    } cases[] = {
        {BYTES(GREETING_1 "\10"), STATUS_MALFORMED},      // a flag that nobody has defined
        {BYTES(GREETING_1 "\5"), STATUS_MALFORMED},       // a command in parts
        {BYTES(GREETING_1 "\4\0"), STATUS_MALFORMED},     // a command without a name
        {BYTES(GREETING_1 "\4\1\0"), STATUS_MALFORMED},   // an empty one
        {BYTES(GREETING_1 "\4\3\3AB"), STATUS_MALFORMED}, // one that ends behind the frame
        {BYTES(GREETING_1 "\2\0\0\0\0\0\0\4\1"), STATUS_TOO_LARGE},
        {BYTES(GREETING_1 "\2\xff\xff\xff\xff\xff\xff\xff\xff"), STATUS_TOO_LARGE},
        {BYTES(GREETING_1 "\6\0\0\0\1\0\0\0\0"), STATUS_TOO_LARGE},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        enum status end;
        read_all(cases[i].bytes, 100, &end);
        CHECK_EQ(end, cases[i].status);
    }
}

TEST(the_largest_frame_fits_behind_anything)
{
    static uint8_t bytes[zmtp_greeting_size + 3 + 9 + zmtp_frame_size_max] = GREETING_1;
    enum status end;

    static const uint8_t heads[] = {0, 1, 'a', 2, 0, 0, 0, 0, 0, 0, 4, 0};
    memcpy(bytes + 64, heads, sizeof(heads));
    memset(bytes + 76, 'b', zmtp_frame_size_max);
    for (size_t portion = 1; portion < sizeof(bytes); portion += 37) {
        CHECK_EQ(strlen(read_all(slice_of(bytes, sizeof(bytes)), portion, &end)),
                 2 + 3 + 2 + zmtp_frame_size_max);
        CHECK_EQ(end, STATUS_AGAIN);
    }
}

static struct zmtp_frame command(const char *name, struct slice body)
{
    return (struct zmtp_frame){.kind = ZMTP_COMMAND, .name = slice_str(name), .body = body};
}

TEST(ready_tells_the_kind_of_socket)
{
    struct zmtp_ready ready;
    struct zmtp_frame frame =
        command("READY", BYTES("\10Identity\0\0\0\2me\13socket-TYPE\0\0\0\6DEALER\3X-A\0\0\0\0"));
    CHECK(zmtp_ready_read(&frame, &ready) == STATUS_OK);
    CHECK(slice_is(ready.socket_type, "DEALER"));
    CHECK(slice_is(ready.identity, "me"));

    frame = command("READY", BYTES(""));
    CHECK(zmtp_ready_read(&frame, &ready) == STATUS_OK);
    CHECK_EQ(ready.socket_type.size, 0);
}

TEST(a_ready_that_is_cut_is_malformed)
{
    static const char body[] = "\13Socket-Type\0\0\0\3SUB";
    struct zmtp_ready ready;
    for (size_t size = 1; size < sizeof(body) - 1; size++) {
        struct zmtp_frame frame = command("READY", slice_of(body, size));
        CHECK(zmtp_ready_read(&frame, &ready) == STATUS_MALFORMED);
    }
    struct zmtp_frame frames[] = {
        command("HELLO", BYTES(body)),
        command("READY", BYTES("\0\0\0\0\0")),
        {.kind = ZMTP_MESSAGE, .body = BYTES(body)},
    };
    for (size_t i = 0; i < ARRAY_COUNT(frames); i++) {
        CHECK(zmtp_ready_read(&frames[i], &ready) == STATUS_MALFORMED);
    }
}

TEST(a_ping_has_a_time_and_a_short_context)
{
    struct slice context;
    struct zmtp_frame frame = command("PING", BYTES("\0\12context"));
    CHECK(zmtp_ping_read(&frame, &context) == STATUS_OK);
    CHECK(slice_is(context, "context"));
    frame.body = BYTES("\0");
    CHECK(zmtp_ping_read(&frame, &context) == STATUS_MALFORMED);
    frame.body = BYTES("\0\12" ZERO_16);
    CHECK(zmtp_ping_read(&frame, &context) == STATUS_OK);
    frame.body = BYTES("\0\12" ZERO_16 "\0");
    CHECK(zmtp_ping_read(&frame, &context) == STATUS_MALFORMED);
}

TEST(subscriptions_come_as_commands_or_as_messages)
{
    const struct {
        struct zmtp_frame frame;
        bool is_one;
        bool is_cancelled;
        const char *topic;
    } cases[] = {
        {{.kind = ZMTP_COMMAND, .name = BYTES("SUBSCRIBE"), .body = BYTES("kv")},
         true,
         false,
         "kv"},
        {{.kind = ZMTP_COMMAND, .name = BYTES("CANCEL"), .body = BYTES("")}, true, true, ""},
        {{.kind = ZMTP_COMMAND, .name = BYTES("OTHER"), .body = BYTES("\1kv")}, false, false, ""},
        {{.kind = ZMTP_MESSAGE, .body = BYTES("\1kv")}, true, false, "kv"},
        {{.kind = ZMTP_MESSAGE, .body = BYTES("\1")}, true, false, ""},
        {{.kind = ZMTP_MESSAGE, .body = BYTES("\0kv")}, true, true, "kv"},
        {{.kind = ZMTP_MESSAGE, .body = BYTES("\2kv")}, false, false, ""},
        {{.kind = ZMTP_MESSAGE, .body = BYTES("")}, false, false, ""},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct zmtp_subscription subscription = {0};
        CHECK_EQ(zmtp_subscription_read(&cases[i].frame, &subscription), cases[i].is_one);
        CHECK_EQ(subscription.is_cancelled, cases[i].is_cancelled);
        CHECK(slice_is(subscription.topic, cases[i].topic));
    }
}

TEST(what_we_write_is_what_the_protocol_says)
{
    uint8_t space[512];
    struct text out = text_over(space, sizeof(space));
    zmtp_greeting_write(&out);
    zmtp_ready_write("PUB", &out);
    zmtp_ready_write("ROUTER", &out);
    zmtp_pong_write(BYTES("abc"), &out);
    zmtp_head_write(0, true, &out);
    zmtp_head_write(255, false, &out);
    zmtp_head_write(256, true, &out);
    zmtp_head_write((size_t)1 << 33, false, &out);
    CHECK(
        slice_equal(text_slice(&out),
                    BYTES(GREETING_1 "\4\x19\5READY\13Socket-Type\0\0\0\3PUB"
                                     "\4\x29\5READY\13Socket-Type\0\0\0\6ROUTER\10Identity\0\0\0\0"
                                     "\4\10\4PONGabc"
                                     "\1\0\0\xff\3\0\0\0\0\0\0\1\0\2\0\0\0\2\0\0\0\0")));
}
