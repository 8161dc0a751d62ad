// SPDX-License-Identifier: Apache-2.0
//
// A round is HSET, PEXPIRE, HGETALL, and while the link is not up also a probe of XADD.  The link
// is up when a round ended without an error and XREAD was obeyed; the first error ends that.

#include "cluster/store_link.h"

#include "base/base.h"
#include "base/rng.h"
#include "cluster/store_connection.h"
#include "cluster/store_inbox.h"
#include "cluster/store_sentinel.h"
#include "net/dns.h"
#include "net/tls.h"
#include "sys/clock.h"
#include "sys/log.h"
#include "sys/log_state.h"
#include "sys/loop.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    tick_ms = 50,
    answer_ms = 20, // a router that is newly heard gets a hello so soon
    stalled_beat_ms = 1000,
    silent_command_ms = link_silence_ms / 2,
    // An XREAD that waits does not see streams of routers that come meanwhile.
    block_ms = 100,
    expire_ms = 60000,
    left_expire_ms = 5000,
    retry_min_ms = 50,
    retry_max_ms = 1000,
    refused_retry_ms = 5000,
    soon_ms = 1,
    // Bytes of frames in a stream, more or less.
    stream_size_to_all = 16 << 20,
    stream_size_to_one = 4 << 20,
    stream_length_max = 8192,
    entry_extra_size = 128,
    // XADD around a frame: words, lengths, key and id.
    frame_extra_size = 384,
    dns_timeout_ms = 500,
    dns_tries = 2,
};

enum store_what {
    STORE_ASKS_HSET = 1,
    STORE_ASKS_HGETALL,
    STORE_ASKS_PROBE,
    STORE_ASKS_FRAME, // about: the addressee
    STORE_ASKS_READ,
    STORE_ASKS_OTHER,
};

enum { LOG_UP = 1, LOG_DOWN = 2 };

struct store_link {
    struct link link; // first: the caller's handle
    struct link_options options;
    uint8_t hello[link_hello_size_max];
    char cluster[store_cluster_size_max + 1];
    uint8_t secret[link_secret_size];
    struct store_url url;
    char name[store_name_size];
    struct store_login login;
    struct dns *dns;
    struct tls_context *tls; // NULL: plain
    struct store_connection *writer;
    struct store_connection *reader;
    struct store_sentinel *sentinel; // NULL: none
    struct store_inbox inbox;
    struct seal *seal; // NULL: plain
    struct rng rng;
    struct timer tick;
    struct timer retry;
    struct store_host host;  // to connect to
    struct store_host moved; // no name: not moved
    bool has_host;           // the Sentinels gave `host`

    uint64_t counter; // of the last value
    uint64_t round;   // number of the last one
    uint64_t round_ms;
    bool round_failed;
    bool round_ok;   // some round since connecting ended well
    bool reader_ok;  // XREAD was obeyed since connecting
    bool is_reading; // a read waits for its reply
    bool is_stalled; // connected, but the store refuses for a while
    uint64_t read_ms;
    uint64_t read_after_ms; // not before

    bool is_up;
    bool was_judged;   // `is_up` is the outcome of an attempt
    bool lost_streams; // to be deleted after connecting: a reply of XREAD was too large
    bool lost_members; // the same of HGETALL
    struct log_state log;
    char why[link_error_size];
    uint32_t retry_ms;
    uint32_t unanswered; // frames
    size_t mean_size[2]; // of frames to all, to one
    uint64_t frames_dropped;
    uint64_t skipped_told;
    uint64_t crowded_told;
    uint8_t value[store_envelope_size_max];
};

static struct store_link *store_link_of(struct link *link)
{
    return (struct store_link *)link;
}

static uint64_t store_now_ms(const struct store_link *link)
{
    return loop_now_ms(link->options.loop);
}

// ---- up and down

// Called again and again, so that the last line is true.
static void store_tell(struct store_link *link)
{
    uint32_t skipped = 0;

    if (!link->was_judged || !log_state_tells(&link->log, link->is_up ? LOG_UP : LOG_DOWN,
                                              store_now_ms(link), &skipped)) {
        return;
    }
    if (link->is_up) {
        log_info("cluster: store %s: connected", link->name);
    } else {
        log_warn("cluster: store %s: lost: %s", link->name, link->why);
    }
}

static void store_set_down(struct store_link *link, const char *why)
{
    (void)snprintf(link->why, sizeof(link->why), "%s", why);
    link->is_up = false;
    link->was_judged = true;
    store_tell(link);
}

static void store_judge(struct store_link *link)
{
    if (!link->is_up && link->round_ok && link->reader_ok) {
        link->is_up = true;
        link->was_judged = true;
        link->is_stalled = false;
        link->retry_ms = 0;
        link->why[0] = '\0';
        store_tell(link);
    }
}

// Routers that lost the store together must not come back together.
static uint32_t store_next_delay(struct store_link *link, enum store_remedy remedy)
{
    uint32_t delay = link->retry_ms * 2;

    if (remedy == STORE_REFUSED) {
        return refused_retry_ms - refused_retry_ms / 10 +
               rng_below(&link->rng, refused_retry_ms / 5);
    }
    delay = delay < retry_min_ms ? retry_min_ms : delay;
    delay = delay > retry_max_ms ? retry_max_ms : delay;
    link->retry_ms = delay;
    uint32_t jittered = delay / 2 + rng_below(&link->rng, delay / 2 + 1);
    return jittered > retry_min_ms ? jittered : retry_min_ms;
}

// Both connections end, since either is of no use without the other.
static void store_fail(struct store_link *link, const char *why, enum store_remedy remedy)
{
    store_connection_close(link->writer);
    store_connection_close(link->reader);
    link->frames_dropped += link->unanswered;
    link->unanswered = 0;
    link->round_ok = false;
    link->reader_ok = false;
    link->is_reading = false;
    link->is_stalled = false;
    link->has_host = false;
    if (remedy != STORE_MOVE) {
        link->moved.name[0] = '\0';
    }
    store_set_down(link, why);
    loop_arm(link->options.loop, &link->retry, store_next_delay(link, remedy));
}

// ---- commands

static bool store_send(struct store_link *link, const struct slice *words, uint32_t word_count,
                       enum store_what what, uint64_t about)
{
    return store_connection_send(link->writer, &(struct store_command){
                                                   .words = words,
                                                   .word_count = word_count,
                                                   .what = what,
                                                   .about = about,
                                                   .timeout_ms = silent_command_ms,
                                               });
}

static void store_send_expire(struct store_link *link, struct slice key, uint32_t after_ms)
{
    char digits[16];

    (void)snprintf(digits, sizeof(digits), "%u", after_ms);
    struct slice words[] = {slice_str("PEXPIRE"), key, slice_str(digits)};
    (void)store_send(link, words, ARRAY_COUNT(words), STORE_ASKS_OTHER, 0);
}

static void store_delete(struct store_link *link, struct slice key)
{
    struct slice words[] = {slice_str("DEL"), key};
    (void)store_send(link, words, ARRAY_COUNT(words), STORE_ASKS_OTHER, 0);
}

static void store_delete_stream(struct store_link *link, uint64_t from, uint64_t to)
{
    char space[store_key_size_max];
    struct text key = text_over(space, sizeof(space));

    store_key_stream(link->cluster, from, to, &key);
    store_delete(link, text_slice(&key));
}

static void store_delete_members(struct store_link *link)
{
    char space[store_key_size_max];
    struct text key = text_over(space, sizeof(space));

    store_key_members(link->cluster, &key);
    store_delete(link, text_slice(&key));
}

static void store_delete_spoiled(struct store_link *link)
{
    uint64_t from = 0;
    uint64_t to = 0;

    while (store_inbox_spoiled(&link->inbox, &from, &to)) {
        store_delete_stream(link, from, to);
    }
}

// Seals a value into `link->value`; empty: no memory.
static struct slice store_seal(struct store_link *link, enum store_kind kind, uint64_t to,
                               struct slice body)
{
    link->counter++;
    size_t size = store_envelope_write(&(struct store_envelope){.from = link->options.router,
                                                                .to = to,
                                                                .kind = kind,
                                                                .counter = link->counter,
                                                                .body = body},
                                       link->seal, link->value);
    return slice_of(link->value, size);
}

// The number of entries to keep: a stream is bounded by its length only, so the length follows the
// size of frames.  Of the largest frames it is 510 to all and 127 to one.
static uint32_t store_stream_length(struct store_link *link, uint64_t to, size_t frame_size)
{
    size_t *mean = &link->mean_size[to != 0];
    size_t size_max = to == 0 ? stream_size_to_all : stream_size_to_one;

    *mean = *mean - *mean / 8 + frame_size / 8;
    size_t length = size_max / (*mean + entry_extra_size);
    return length < stream_length_max ? (uint32_t)length : stream_length_max;
}

// An entry of our stream to all, or to one router.  Its id is the counter of its value.
static bool store_add(struct store_link *link, enum store_kind kind, uint64_t to, struct slice body)
{
    char key_space[store_key_size_max];
    char id[32];
    char length[16];
    struct text key = text_over(key_space, sizeof(key_space));
    bool is_frame = kind == STORE_FRAME;

    struct slice value = store_seal(link, kind, to, body);
    if (value.size == 0) {
        return false;
    }
    store_key_stream(link->cluster, link->options.router, to, &key);
    (void)snprintf(id, sizeof(id), "%" PRIu64 "-0", link->counter);
    (void)snprintf(length, sizeof(length), "%u", store_stream_length(link, to, body.size));
    struct slice words[] = {
        slice_str("XADD"), text_slice(&key), slice_str("MAXLEN"), slice_str("~"),
        slice_str(length), slice_str(id),    slice_str("b"),      value,
    };
    bool was_sent = store_connection_send(
        link->writer, &(struct store_command){
                          .words = words,
                          .word_count = ARRAY_COUNT(words),
                          .what = is_frame ? STORE_ASKS_FRAME : STORE_ASKS_PROBE,
                          .about = to,
                          .timeout_ms = silent_command_ms,
                          .is_frame = is_frame,
                          .has_successor = true,
                      });
    if (was_sent) {
        store_send_expire(link, text_slice(&key), kind == STORE_LEAVE ? left_expire_ms : expire_ms);
    }
    return was_sent;
}

// ---- rounds

static void store_say_hello(struct store_link *link, struct slice key)
{
    uint8_t body[store_hello_size_max];
    char router[store_router_digits + 1];
    struct text field = text_over(router, sizeof(router));
    struct store_hello hello = {.hello = link->options.hello};

    memcpy(hello.name, link->options.name, sizeof(hello.name));
    hello.seen_count = store_members_list(&link->inbox.members, hello.seen);
    struct slice value =
        store_seal(link, STORE_HELLO, 0, slice_of(body, store_hello_write(&hello, body)));
    if (value.size == 0) {
        return;
    }
    store_key_router(link->options.router, &field);
    struct slice words[] = {slice_str("HSET"), key, text_slice(&field), value};
    (void)store_send(link, words, ARRAY_COUNT(words), STORE_ASKS_HSET, 0);
}

static void store_begin_round(struct store_link *link)
{
    char space[store_key_size_max];
    struct text key = text_over(space, sizeof(space));

    store_key_members(link->cluster, &key);
    link->round++;
    link->round_ms = store_now_ms(link);
    link->round_failed = false;
    store_say_hello(link, text_slice(&key));
    store_send_expire(link, text_slice(&key), expire_ms);
    if (!link->is_up) {
        (void)store_add(link, STORE_PROBE, 0, (struct slice){0});
    }
    struct slice words[] = {slice_str("HGETALL"), text_slice(&key)};
    (void)store_send(link, words, ARRAY_COUNT(words), STORE_ASKS_HGETALL, link->round);
}

static void store_end_round(struct store_link *link, uint64_t round,
                            const struct store_reply *reply)
{
    bool is_newly_heard = false;
    uint64_t now_ms = store_now_ms(link);

    if (store_inbox_take_hellos(&link->inbox, reply, now_ms, &is_newly_heard) != STATUS_OK) {
        store_fail(link, "HGETALL: sent an invalid reply", STORE_WAIT);
        return;
    }
    // More than the members: hellos of a third party, among which ours are not seen and which
    // nobody removes.  Routers write theirs again within a beat.
    if (store_reply_count(reply) / 2 > store_member_count_max) {
        store_delete_members(link);
    }
    if (is_newly_heard) {
        uint64_t due_ms = link->round_ms + answer_ms;
        link->round_ms = due_ms - link_beat_ms;
        loop_arm(link->options.loop, &link->tick, due_ms > now_ms ? due_ms - now_ms : soon_ms);
    }
    if (round == link->round && !link->round_failed) {
        link->round_ok = true;
        store_judge(link);
    }
}

// ---- reading

static void store_read(struct store_link *link)
{
    struct slice words[store_read_word_count_max];
    char space[store_key_size_max];
    char id[32];
    struct text key = text_over(space, sizeof(space));
    uint32_t count = 0;

    if (link->is_reading || !store_connection_is_ready(link->reader) ||
        store_now_ms(link) < link->read_after_ms) {
        return;
    }
    if (!link->reader_ok) {
        // Does not wait: shows whether we may read at all.
        store_key_stream(link->cluster, link->options.router, 0, &key);
        (void)snprintf(id, sizeof(id), "%" PRIu64 "-0", link->counter);
        words[count++] = slice_str("XREAD");
        words[count++] = slice_str("STREAMS");
        words[count++] = text_slice(&key);
        words[count++] = slice_str(id);
    } else if (link->is_up) {
        count = store_inbox_write_read(&link->inbox, block_ms, words);
    }
    if (count > 0) {
        link->read_ms = store_now_ms(link);
        link->is_reading =
            store_connection_send(link->reader, &(struct store_command){
                                                    .words = words,
                                                    .word_count = count,
                                                    .what = STORE_ASKS_READ,
                                                    .timeout_ms = block_ms + silent_command_ms,
                                                });
    }
}

static void store_take_read(struct store_link *link, const struct store_reply *reply)
{
    uint64_t taken_count = link->inbox.taken_count;
    uint64_t now_ms = store_now_ms(link);

    if (!link->reader_ok) {
        link->reader_ok = true;
        store_judge(link);
    } else if (store_inbox_take_entries(&link->inbox, reply, now_ms) != STATUS_OK) {
        store_fail(link, "XREAD: sent an invalid reply", STORE_WAIT);
        return;
    } else {
        store_delete_spoiled(link);
        // A store that neither waits nor sends entries must not keep us busy.
        if (link->inbox.taken_count == taken_count && now_ms - link->read_ms < tick_ms) {
            link->read_after_ms = now_ms + tick_ms;
        }
    }
    store_read(link);
}

// ---- errors

static const char *store_command_name(enum store_what what)
{
    switch (what) {
    case STORE_ASKS_HSET:
        return "HSET";
    case STORE_ASKS_HGETALL:
        return "HGETALL";
    case STORE_ASKS_PROBE:
    case STORE_ASKS_FRAME:
        return "XADD";
    case STORE_ASKS_READ:
        return "XREAD";
    default:
        return "PEXPIRE, DEL or HDEL";
    }
}

// A third party changed a key of ours.
static void store_clear(struct store_link *link, enum store_what what, uint64_t about)
{
    if (what == STORE_ASKS_READ) {
        store_inbox_spoil_all(&link->inbox);
        store_delete_spoiled(link);
        store_delete_stream(link, link->options.router, 0);
        link->read_after_ms = store_now_ms(link) + tick_ms;
    } else if (what == STORE_ASKS_FRAME || what == STORE_ASKS_PROBE) {
        store_delete_stream(link, link->options.router, about);
    } else {
        store_delete_members(link);
    }
}

static void store_take_error(struct store_link *link, enum store_what what, uint64_t about,
                             const struct store_reply *reply)
{
    struct store_error error;
    char why[link_error_size];

    store_error_read(store_reply_text(reply), &error);
    bool is_quoted = link->login.has_password && strstr(error.text, link->login.password) != NULL;
    (void)snprintf(why, sizeof(why), "%s: %s", store_command_name(what),
                   is_quoted ? "an error that quotes the password" : error.text);
    link->round_failed = true;
    switch (error.remedy) {
    case STORE_CLEAR:
        store_clear(link, what, about);
        break;
    case STORE_MOVE:
        if (error.host.name[0] == '\0') {
            memcpy(error.host.name, link->host.name, sizeof(error.host.name));
        }
        link->moved = error.host;
        store_fail(link, why, STORE_MOVE);
        break;
    case STORE_RELOCATE:
    case STORE_REFUSED:
        store_fail(link, why, error.remedy);
        break;
    default:
        link->is_stalled = true;
        link->round_ok = false;
        if (what == STORE_ASKS_READ) {
            link->reader_ok = false;
            link->read_after_ms = store_now_ms(link) + stalled_beat_ms;
        }
        store_set_down(link, why);
        break;
    }
}

// ---- connections

static void store_writer_ready(void *owner)
{
    struct store_link *link = owner;

    if (link->lost_members) {
        link->lost_members = false;
        store_delete_members(link);
    }
    if (link->lost_streams) {
        link->lost_streams = false;
        store_inbox_spoil_all(&link->inbox);
        store_delete_spoiled(link);
    }
    store_begin_round(link);
}

static void store_writer_reply(void *owner, uint32_t what, uint64_t about,
                               const struct store_reply *reply)
{
    struct store_link *link = owner;
    bool is_error = store_reply_kind(reply) == STORE_REPLY_ERROR;

    if (what == STORE_ASKS_FRAME && link->unanswered > 0) {
        link->unanswered--;
        link->frames_dropped += is_error;
    }
    if (is_error) {
        store_take_error(link, what, about, reply);
    } else if (what == STORE_ASKS_HGETALL) {
        store_end_round(link, about, reply);
        store_read(link);
    }
}

static void store_writer_lost(void *owner, const char *why, const struct store_error *error)
{
    struct store_link *link = owner;
    enum store_remedy remedy = error != NULL ? error->remedy : STORE_WAIT;

    link->lost_members |= remedy == STORE_CLEAR;
    if (remedy == STORE_MOVE) {
        link->moved = error->host;
    }
    store_fail(link, why, remedy);
}

static void store_reader_ready(void *owner)
{
    struct store_link *link = owner;

    link->read_after_ms = 0;
    store_read(link);
}

static void store_reader_reply(void *owner, uint32_t what, uint64_t about,
                               const struct store_reply *reply)
{
    struct store_link *link = owner;

    link->is_reading = false;
    if (store_reply_kind(reply) == STORE_REPLY_ERROR) {
        store_take_error(link, what, about, reply);
    } else {
        store_take_read(link, reply);
    }
}

static void store_reader_lost(void *owner, const char *why, const struct store_error *error)
{
    struct store_link *link = owner;
    enum store_remedy remedy = error != NULL ? error->remedy : STORE_WAIT;

    link->lost_streams |= remedy == STORE_CLEAR;
    store_fail(link, why, remedy);
}

static void store_sentinel_found(void *owner, const struct store_host *host)
{
    struct store_link *link = owner;

    link->host = *host;
    link->has_host = true;
    loop_arm(link->options.loop, &link->retry, soon_ms);
}

static void store_sentinel_failed(void *owner, const char *why)
{
    store_fail(owner, why, STORE_WAIT);
}

static void store_retry(struct timer *timer)
{
    struct store_link *link = CONTAINER_OF(timer, struct store_link, retry);

    if (link->moved.name[0] != '\0') {
        link->host = link->moved;
    } else if (link->sentinel != NULL && !link->has_host) {
        store_sentinel_ask(link->sentinel);
        return;
    } else if (link->sentinel == NULL) {
        link->host = link->url.hosts[0];
    }
    store_connection_open(link->writer, &link->host);
    store_connection_open(link->reader, &link->host);
}

// ---- time

static void store_remove_forgotten(struct store_link *link)
{
    char key_space[store_key_size_max];
    char router[store_router_digits + 1];
    struct text key = text_over(key_space, sizeof(key_space));
    struct text field = text_over(router, sizeof(router));
    const struct store_member *member =
        store_members_forgotten(&link->inbox.members, store_now_ms(link));

    if (member != NULL) {
        store_key_members(link->cluster, &key);
        store_key_router(member->router, &field);
        struct slice words[] = {slice_str("HDEL"), text_slice(&key), text_slice(&field)};
        (void)store_send(link, words, ARRAY_COUNT(words), STORE_ASKS_OTHER, 0);
    }
}

static void store_tick(struct timer *timer)
{
    struct store_link *link = CONTAINER_OF(timer, struct store_link, tick);
    uint64_t now_ms = store_now_ms(link);
    uint32_t beat_ms = link->is_stalled ? stalled_beat_ms : link_beat_ms;

    loop_arm(link->options.loop, timer, tick_ms);
    if (store_connection_is_ready(link->writer)) {
        if (now_ms - link->round_ms >= beat_ms) {
            store_begin_round(link);
        }
        store_remove_forgotten(link);
    }
    store_read(link);
    store_inbox_expire(&link->inbox, now_ms);
    if (link->inbox.skipped_count != link->skipped_told) {
        link->skipped_told = link->inbox.skipped_count;
        log_warn_seldom(0, "cluster: store %s: skipped values that no router of cluster %s wrote",
                        link->name, link->cluster);
    }
    if (link->inbox.crowded_count != link->crowded_told) {
        link->crowded_told = link->inbox.crowded_count;
        log_warn_seldom(0,
                        "cluster: store %s: more than %d routers are in cluster %s; ignored some",
                        link->name, link_peer_count_max + 1, link->cluster);
    }
    store_tell(link);
}

// ---- the verbs

static void store_link_close(struct link **link_ptr)
{
    struct store_link *link = store_link_of(*link_ptr);
    *link_ptr = NULL;

    if (link->writer != NULL && store_connection_is_ready(link->writer)) {
        char key_space[store_key_size_max];
        char router[store_router_digits + 1];
        struct text key = text_over(key_space, sizeof(key_space));
        struct text field = text_over(router, sizeof(router));
        (void)store_add(link, STORE_LEAVE, 0, (struct slice){0});
        store_key_members(link->cluster, &key);
        store_key_router(link->options.router, &field);
        struct slice words[] = {slice_str("HDEL"), text_slice(&key), text_slice(&field)};
        (void)store_send(link, words, ARRAY_COUNT(words), STORE_ASKS_OTHER, 0);
    }
    loop_disarm(link->options.loop, &link->tick);
    loop_disarm(link->options.loop, &link->retry);
    dns_destroy(&link->dns);
    store_connection_destroy(&link->writer);
    store_connection_destroy(&link->reader);
    store_sentinel_destroy(&link->sentinel);
    tls_context_destroy(&link->tls);
    store_inbox_fini(&link->inbox);
    seal_destroy(&link->seal);
    explicit_bzero(link->secret, sizeof(link->secret));
    explicit_bzero(&link->login, sizeof(link->login));
    explicit_bzero(&link->url, sizeof(link->url));
    free(link);
}

// Counts a sent or a dropped frame for its addressees.
static void store_count_frame(struct store_link *link, struct store_member *only, size_t size)
{
    for (uint32_t i = 0; i < store_member_count_max; i++) {
        struct store_member *member = &link->inbox.members.places[i];
        if (member->state == STORE_THERE && (only == NULL || only == member)) {
            member->bytes_out += size;
            member->frames_dropped += size == 0;
        }
    }
}

static bool store_link_send(struct link *base, uint64_t to, struct slice frame)
{
    struct store_link *link = store_link_of(base);
    struct store_member *only = to != 0 ? store_members_find(&link->inbox.members, to) : NULL;

    ASSERT(frame.size <= link_frame_size_max);
    if (to == 0 && link->inbox.members.there_count == 0) {
        return true;
    }
    bool is_there = to == 0 || (only != NULL && only->state == STORE_THERE);
    if (!is_there || !link->is_up || !store_add(link, STORE_FRAME, to, frame)) {
        link->frames_dropped++;
        store_count_frame(link, only, 0);
        return false;
    }
    link->unanswered++;
    store_count_frame(link, only, frame.size);
    return true;
}

static size_t store_link_room(const struct link *base, uint64_t to)
{
    const struct store_link *link = (const struct store_link *)base;
    size_t room = link->is_up ? store_connection_room(link->writer) : 0;

    (void)to; // all share the queue to the store
    return room > frame_extra_size ? room - frame_extra_size : 0;
}

static void store_link_status(const struct link *base, struct link_status *out)
{
    const struct store_link *link = (const struct store_link *)base;

    *out = (struct link_status){
        .kind = "redis",
        .is_up = link->is_up,
        .bytes_in =
            store_connection_bytes_in(link->writer) + store_connection_bytes_in(link->reader),
        .bytes_out =
            store_connection_bytes_out(link->writer) + store_connection_bytes_out(link->reader),
        .frames_dropped = link->frames_dropped,
    };
    memcpy(out->why, link->why, sizeof(out->why));
    for (uint32_t i = 0; i < store_member_count_max; i++) {
        const struct store_member *member = &link->inbox.members.places[i];
        if (member->state != STORE_THERE || out->peer_count == link_peer_count_max) {
            continue;
        }
        struct link_peer_status *peer = &out->peers[out->peer_count++];
        *peer = (struct link_peer_status){
            .router = member->router,
            .is_there = true,
            .heard_ms = member->heard_ms,
            .bytes_in = member->bytes_in,
            .bytes_out = member->bytes_out,
            .frames_dropped = member->frames_dropped,
        };
        memcpy(peer->name, member->name, sizeof(peer->name));
    }
}

static const struct link_kind store_link_kind = {
    .close = store_link_close,
    .send = store_link_send,
    .room = store_link_room,
    .status = store_link_status,
};

uint64_t store_link_skipped(const struct link *link)
{
    return ((const struct store_link *)link)->inbox.skipped_count;
}

// ---- open

static bool is_cluster_name(const char *name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t size = strlen(name);
    return size > 0 && size <= store_cluster_size_max && strspn(name, allowed) == size;
}

static enum status store_read_options(struct store_link *link, const struct store_options *options,
                                      char error[link_error_size])
{
    _Static_assert((int)store_url_error_size == (int)link_error_size, "one error is the other");

    if (!is_cluster_name(options->cluster)) {
        (void)snprintf(error, link_error_size,
                       "the name of the cluster must be 1 to %d letters, digits, '.', '_' or '-'",
                       store_cluster_size_max);
        return STATUS_MALFORMED;
    }
    enum status status = store_url_read(options->url, &link->url, error);
    if (status != STATUS_OK) {
        return status;
    }
    store_url_name(&link->url, link->name);
    memcpy(link->cluster, options->cluster, strlen(options->cluster) + 1);
    link->login.has_password = link->url.has_password;
    link->login.database = link->url.database;
    link->login.must_be_master = link->url.is_sentinel;
    memcpy(link->login.user, link->url.user, sizeof(link->login.user));
    memcpy(link->login.password, link->url.password, sizeof(link->login.password));
    (void)snprintf(link->login.client_name, sizeof(link->login.client_name), "warmpath-%016" PRIx64,
                   options->link.router);
    link->options = options->link;
    memcpy(link->hello, options->link.hello.bytes, options->link.hello.size);
    link->options.hello = slice_of(link->hello, options->link.hello.size);
    return STATUS_OK;
}

static enum status store_open_keys(struct store_link *link, const uint8_t *secret)
{
    if (secret != NULL) {
        memcpy(link->secret, secret, sizeof(link->secret));
    }
    store_inbox_init(&link->inbox, &(struct store_inbox_options){
                                       .cluster = link->cluster,
                                       .secret = secret != NULL ? link->secret : NULL,
                                       .events = link->options.events,
                                       .owner = link->options.owner,
                                       .router = link->options.router,
                                   });
    if (secret == NULL) {
        return STATUS_OK;
    }
    return store_envelope_key(link->secret, link->cluster, link->options.router, &link->seal);
}

static enum status store_open_connections(struct store_link *link)
{
    static const struct store_connection_events writer_events = {
        .ready = store_writer_ready,
        .reply = store_writer_reply,
        .lost = store_writer_lost,
    };
    static const struct store_connection_events reader_events = {
        .ready = store_reader_ready,
        .reply = store_reader_reply,
        .lost = store_reader_lost,
    };
    static const struct store_sentinel_events sentinel_events = {
        .found = store_sentinel_found,
        .failed = store_sentinel_failed,
    };
    struct store_connection_options options = {
        .loop = link->options.loop,
        .dns = link->dns,
        .tls = link->tls,
        .login = &link->login,
        .events = &writer_events,
        .owner = link,
        .out_size_max = link->options.out_size_max,
        // Foreign fields beside those of all routers fit.
        .bounds = {.bulk_size_max = 64 << 10, .reply_size_max = 1 << 20, .node_count_max = 8192},
        .connect_timeout_ms = silent_command_ms,
    };
    enum status status = store_connection_create(&options, &link->writer);
    if (status == STATUS_OK) {
        options.events = &reader_events;
        options.out_size_max = 0;
        options.bounds = (struct store_codec_bounds){
            .bulk_size_max = 64 << 10,
            .reply_size_max = store_read_size_max + (1 << 20),
            .node_count_max = 16384,
        };
        status = store_connection_create(&options, &link->reader);
    }
    if (status == STATUS_OK && link->url.is_sentinel) {
        status = store_sentinel_create(
            &(struct store_sentinel_options){
                .loop = link->options.loop,
                .dns = link->dns,
                .tls = link->tls,
                .url = &link->url,
                .events = &sentinel_events,
                .owner = link,
                .timeout_ms = silent_command_ms / 2,
            },
            &link->sentinel);
    }
    return status;
}

enum status store_link_open(const struct store_options *options, struct link **out,
                            char error[link_error_size])
{
    _Static_assert((int)tls_error_size == (int)link_error_size, "one error is the other");
    struct link *handle = NULL;
    enum status status = STATUS_EXHAUSTED;

    ASSERT(options->link.router != 0 && options->link.hello.size <= link_hello_size_max);
    ASSERT(memchr(options->link.name, '\0', link_name_size) != NULL);

    (void)snprintf(error, link_error_size, "no memory");
    struct store_link *link = calloc(1, sizeof(*link));
    if (link == NULL) {
        goto out;
    }
    handle = &link->link;
    link->link.kind = &store_link_kind;
    link->options.loop = options->link.loop;
    link->tick.fire = store_tick;
    link->retry.fire = store_retry;
    link->rng.state = clock_entropy();
    status = store_read_options(link, options, error);
    if (status == STATUS_OK) {
        status = dns_create(link->options.loop,
                            &(struct dns_options){.servers = options->dns_servers,
                                                  .timeout_ms = dns_timeout_ms,
                                                  .tries = dns_tries},
                            &link->dns);
    }
    if (status == STATUS_OK && link->url.is_tls) {
        status = tls_client_create(
            &(struct tls_client_options){.ca = options->ca, .verify = options->verify}, &link->tls,
            error);
    }
    if (status == STATUS_OK) {
        status = store_open_keys(link, options->secret);
    }
    if (status == STATUS_OK) {
        status = store_open_connections(link);
    }
    if (status != STATUS_OK) {
        goto out;
    }
    error[0] = '\0';
    loop_arm(link->options.loop, &link->retry, soon_ms);
    loop_arm(link->options.loop, &link->tick, tick_ms);
    *out = handle;
    handle = NULL; // now the caller's

out:
    link_close(&handle);
    return status;
}
