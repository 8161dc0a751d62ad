// SPDX-License-Identifier: Apache-2.0

#include "cluster/store_inbox.h"

#include "base/base.h"

void store_inbox_init(struct store_inbox *inbox, const struct store_inbox_options *options)
{
    memset(inbox, 0, sizeof(*inbox));
    inbox->options = *options;
    store_members_init(&inbox->members, options->router);
}

void store_inbox_fini(struct store_inbox *inbox)
{
    store_members_fini(&inbox->members);
}

static void inbox_leave(struct store_inbox *inbox, struct store_member *member)
{
    bool was_there = member->state == STORE_THERE;

    store_members_leave(&inbox->members, member);
    if (was_there) {
        inbox->options.events->left(inbox->options.owner, member->router);
    }
}

// ---- hellos

// Reads a hello with the key of its sender, or, if the sender is new, with a key made for this.
// The hello is in `inbox->plain` or in `value`.
static bool inbox_open_hello(struct store_inbox *inbox, struct slice value, struct seal *seal,
                             struct store_envelope *envelope, struct store_hello *hello)
{
    return store_envelope_read(value, seal, inbox->plain, envelope) &&
           envelope->kind == STORE_HELLO && store_hello_read(envelope->body, hello);
}

static void inbox_hear(struct store_inbox *inbox, struct store_member *member, uint64_t counter,
                       const struct store_hello *hello, uint64_t now_ms)
{
    enum store_news news = store_members_hear(&inbox->members, member, counter, hello, now_ms);

    inbox->crowded_count += news == STORE_NO_ROOM;
    inbox->heard_count += news == STORE_NEWLY_HEARD || news == STORE_CAME;
    if (news == STORE_CAME) {
        inbox->options.events->came(inbox->options.owner, member->router, member->name,
                                    slice_of(member->hello, member->hello_size));
    }
}

// A router gets a place when a hello of it was read, so that values of others cost nobody's place.
static void inbox_take_hello(struct store_inbox *inbox, uint64_t from, struct slice value,
                             uint64_t now_ms)
{
    struct store_member *member = store_members_find(&inbox->members, from);
    struct store_envelope envelope = {.from = from};
    struct store_hello hello;
    struct seal *seal = NULL;
    const uint8_t *secret = inbox->options.secret;

    if (member == NULL && secret != NULL &&
        store_envelope_key(secret, inbox->options.cluster, from, &seal) != STATUS_OK) {
        return;
    }
    if (!inbox_open_hello(inbox, value, member != NULL ? member->seal : seal, &envelope, &hello)) {
        inbox->skipped_count++;
        goto out;
    }
    if (member == NULL) {
        member = store_members_claim(&inbox->members, from, now_ms);
        if (member == NULL) {
            inbox->crowded_count++;
            goto out;
        }
        member->seal = seal;
        seal = NULL; // now the member's
    }
    inbox_hear(inbox, member, envelope.counter, &hello, now_ms);

out:
    seal_destroy(&seal);
}

enum status store_inbox_take_hellos(struct store_inbox *inbox, const struct store_reply *reply,
                                    uint64_t now_ms, bool *is_newly_heard)
{
    uint32_t count = store_reply_count(reply) / 2;

    if (store_reply_kind(reply) != STORE_REPLY_ARRAY || store_reply_count(reply) % 2 != 0) {
        return STATUS_MALFORMED;
    }
    uint64_t heard_count = inbox->heard_count;
    for (uint32_t i = 0; i < count && i < store_hello_count_max; i++) {
        uint64_t from = 0;
        if (!store_key_read_router(store_reply_text(store_reply_at(reply, 2 * i)), &from)) {
            inbox->skipped_count++;
        } else if (from != inbox->options.router) {
            inbox_take_hello(inbox, from, store_reply_text(store_reply_at(reply, 2 * i + 1)),
                             now_ms);
        }
    }
    *is_newly_heard = inbox->heard_count != heard_count;
    return STATUS_OK;
}

// ---- reading streams

static uint32_t inbox_read_count(uint32_t stream_count)
{
    uint32_t count = (uint32_t)store_read_size_max / store_envelope_size_max / stream_count;
    if (count > store_read_count_max) {
        return store_read_count_max;
    }
    return count > 0 ? count : 1;
}

// The bytes that `text` got since it had `start`.
static struct slice text_since(const struct text *text, size_t start)
{
    return slice_of(text->bytes + start, text->size - start);
}

static struct slice inbox_write_key(struct store_inbox *inbox, struct text *text, uint64_t from,
                                    uint32_t name)
{
    size_t start = text->size;
    store_key_stream(inbox->options.cluster, from, name == STORE_TO_US ? inbox->options.router : 0,
                     text);
    return text_since(text, start);
}

static struct slice inbox_write_position(struct text *text, struct store_position position)
{
    size_t start = text->size;
    text_add_format(text, "%" PRIu64 "-%" PRIu64, position.major, position.minor);
    return text_since(text, start);
}

static struct slice inbox_write_number(struct text *text, uint64_t number)
{
    size_t start = text->size;
    text_add_u64(text, number);
    return text_since(text, start);
}

uint32_t store_inbox_write_read(struct store_inbox *inbox, uint32_t block_ms,
                                struct slice words[store_read_word_count_max])
{
    struct text text = text_over(inbox->word_space, sizeof(inbox->word_space));
    uint32_t stream_count = inbox->members.there_count * STORE_FEED_COUNT;
    uint32_t count = 0;

    if (stream_count == 0) {
        return 0;
    }
    inbox->read_count = inbox_read_count(stream_count);
    words[count++] = slice_str("XREAD");
    words[count++] = slice_str("COUNT");
    words[count++] = inbox_write_number(&text, inbox->read_count);
    words[count++] = slice_str("BLOCK");
    words[count++] = inbox_write_number(&text, block_ms);
    words[count++] = slice_str("STREAMS");
    uint32_t end = count + stream_count; // of the keys
    for (uint32_t i = 0; i < store_member_count_max; i++) {
        const struct store_member *member = &inbox->members.places[i];
        for (uint32_t f = 0; f < STORE_FEED_COUNT && member->state == STORE_THERE; f++) {
            words[count + stream_count] = inbox_write_position(&text, member->feeds[f].read);
            words[count++] = inbox_write_key(inbox, &text, member->router, f);
        }
    }
    ASSERT(count == end && !text.overflow);
    return count + stream_count;
}

// ---- entries

static int position_compare(struct store_position a, struct store_position b)
{
    if (a.major != b.major) {
        return a.major < b.major ? -1 : 1;
    }
    return (a.minor > b.minor) - (a.minor < b.minor);
}

static bool entry_read_position(const struct store_reply *entry, struct store_position *out)
{
    if (store_reply_count(entry) != 2) {
        return false;
    }
    struct slice id = store_reply_text(store_reply_at(entry, 0));
    const uint8_t *dash = id.size > 0 ? memchr(id.bytes, '-', id.size) : NULL;
    if (dash == NULL) {
        return false;
    }
    size_t size = (size_t)(dash - id.bytes);
    return slice_parse_u64(slice_of(id.bytes, size), &out->major) &&
           slice_parse_u64(slice_of(dash + 1, id.size - size - 1), &out->minor);
}

// The value of an entry of ours: its only field is `b`.
static struct slice entry_value(const struct store_reply *entry)
{
    const struct store_reply *fields = store_reply_at(entry, 1);

    if (store_reply_count(fields) != 2 ||
        !slice_is(store_reply_text(store_reply_at(fields, 0)), "b")) {
        return (struct slice){0};
    }
    return store_reply_text(store_reply_at(fields, 1));
}

// False: foreign.
static bool inbox_take_value(struct store_inbox *inbox, struct store_member *member,
                             enum store_feed_name name, const struct store_reply *entry,
                             uint64_t now_ms)
{
    struct store_feed *feed = &member->feeds[name];
    struct store_envelope envelope = {
        .from = member->router,
        .to = name == STORE_TO_US ? inbox->options.router : 0,
    };
    if (!store_envelope_read(entry_value(entry), member->seal, inbox->plain, &envelope) ||
        envelope.kind == STORE_HELLO || feed->read.minor != 0 ||
        envelope.counter != feed->read.major || envelope.counter <= feed->valid) {
        return false;
    }
    feed->valid = envelope.counter;
    member->heard_ms = now_ms;
    if (envelope.kind == STORE_FRAME) {
        member->bytes_in += envelope.body.size;
        inbox->options.events->frame(inbox->options.owner, member->router, envelope.body);
    } else if (envelope.kind == STORE_LEAVE) {
        // Its last hello may still be in the store.
        member->counter = envelope.counter > member->counter ? envelope.counter : member->counter;
        inbox_leave(inbox, member);
    }
    return true;
}

// Up to where both streams are known: a stream that was cut may have more below the other's end.
static bool inbox_find_end(struct store_inbox *inbox, const struct store_reply *const *entries,
                           struct store_position *end)
{
    *end = (struct store_position){UINT64_MAX, UINT64_MAX};
    for (uint32_t f = 0; f < STORE_FEED_COUNT; f++) {
        uint32_t count = entries[f] != NULL ? store_reply_count(entries[f]) : 0;
        struct store_position last;
        if (count < inbox->read_count) {
            continue;
        }
        if (!entry_read_position(store_reply_at(entries[f], count - 1), &last)) {
            return false;
        }
        if (position_compare(last, *end) < 0) {
            *end = last;
        }
    }
    return true;
}

// Takes the entries of both streams of a member in the order of their ids.
static enum status inbox_merge(struct store_inbox *inbox, struct store_member *member,
                               const struct store_reply *const *entries, uint64_t now_ms)
{
    uint32_t at[STORE_FEED_COUNT] = {0};
    struct store_position end;

    if (!inbox_find_end(inbox, entries, &end)) {
        return STATUS_MALFORMED;
    }
    while (member->state == STORE_THERE) {
        struct store_position lowest = end;
        int next = -1;
        for (int f = 0; f < STORE_FEED_COUNT; f++) {
            struct store_position position;
            if (entries[f] == NULL || at[f] == store_reply_count(entries[f])) {
                continue;
            }
            if (!entry_read_position(store_reply_at(entries[f], at[f]), &position)) {
                return STATUS_MALFORMED;
            }
            if (position_compare(position, lowest) <= 0) {
                lowest = position;
                next = f;
            }
        }
        if (next == -1) {
            return STATUS_OK;
        }
        struct store_feed *feed = &member->feeds[next];
        const struct store_reply *entry = store_reply_at(entries[next], at[next]);
        at[next]++;
        // A router that left and came again while the read was on its way is read from later on.
        if (position_compare(lowest, feed->read) <= 0) {
            continue;
        }
        feed->read = lowest;
        inbox->taken_count++;
        if (!inbox_take_value(inbox, member, (enum store_feed_name)next, entry, now_ms)) {
            inbox->skipped_count++;
            feed->is_spoiled = true;
        }
    }
    return STATUS_OK;
}

// Where the entries of the stream with this key belong; NULL: not to a router that is there.
static const struct store_reply **inbox_find_feed(struct store_inbox *inbox, struct slice key)
{
    char space[store_key_size_max];
    struct text text = text_over(space, sizeof(space));
    uint64_t from = 0;

    store_key_stream(inbox->options.cluster, inbox->options.router, 0, &text);
    size_t head_size = text.size - store_router_digits;
    if (key.size < text.size ||
        !store_key_read_router(slice_of(key.bytes + head_size, store_router_digits), &from)) {
        return NULL;
    }
    const struct store_member *member = store_members_find(&inbox->members, from);
    if (member == NULL || member->state != STORE_THERE) {
        return NULL;
    }
    for (uint32_t f = 0; f < STORE_FEED_COUNT; f++) {
        text.size = 0;
        if (slice_equal(inbox_write_key(inbox, &text, from, f), key)) {
            return &inbox->entries[member - inbox->members.places][f];
        }
    }
    return NULL;
}

static enum status inbox_sort_streams(struct store_inbox *inbox, const struct store_reply *reply)
{
    memset(inbox->entries, 0, sizeof(inbox->entries));
    for (uint32_t i = 0; i < store_reply_count(reply); i++) {
        const struct store_reply *stream = store_reply_at(reply, i);
        if (store_reply_count(stream) != 2 ||
            store_reply_kind(store_reply_at(stream, 1)) != STORE_REPLY_ARRAY) {
            return STATUS_MALFORMED;
        }
        // A router may have left while the read was on its way.
        const struct store_reply **entries =
            inbox_find_feed(inbox, store_reply_text(store_reply_at(stream, 0)));
        if (entries != NULL) {
            *entries = store_reply_at(stream, 1);
        }
    }
    return STATUS_OK;
}

enum status store_inbox_take_entries(struct store_inbox *inbox, const struct store_reply *reply,
                                     uint64_t now_ms)
{
    if (store_reply_kind(reply) == STORE_REPLY_NIL) {
        return STATUS_OK;
    }
    if (store_reply_kind(reply) != STORE_REPLY_ARRAY) {
        return STATUS_MALFORMED;
    }
    enum status status = inbox_sort_streams(inbox, reply);
    for (uint32_t i = 0; i < store_member_count_max && status == STATUS_OK; i++) {
        if (inbox->entries[i][STORE_TO_ALL] != NULL || inbox->entries[i][STORE_TO_US] != NULL) {
            status = inbox_merge(inbox, &inbox->members.places[i], inbox->entries[i], now_ms);
        }
    }
    return status;
}

// ----

void store_inbox_expire(struct store_inbox *inbox, uint64_t now_ms)
{
    struct store_member *member = NULL;

    while ((member = store_members_silent(&inbox->members, now_ms)) != NULL) {
        inbox_leave(inbox, member);
    }
}

bool store_inbox_spoiled(struct store_inbox *inbox, uint64_t *from, uint64_t *to)
{
    for (uint32_t i = 0; i < store_member_count_max; i++) {
        struct store_member *member = &inbox->members.places[i];
        for (uint32_t f = 0; f < STORE_FEED_COUNT && member->router != 0; f++) {
            struct store_feed *feed = &member->feeds[f];
            if (feed->is_spoiled && !feed->is_cleared) {
                feed->is_cleared = true;
                *from = member->router;
                *to = f == STORE_TO_US ? inbox->options.router : 0;
                return true;
            }
        }
    }
    return false;
}

void store_inbox_spoil_all(struct store_inbox *inbox)
{
    for (uint32_t i = 0; i < store_member_count_max; i++) {
        struct store_member *member = &inbox->members.places[i];
        for (uint32_t f = 0; f < STORE_FEED_COUNT && member->state == STORE_THERE; f++) {
            member->feeds[f].is_spoiled = true;
            member->feeds[f].is_cleared = false;
        }
    }
}
