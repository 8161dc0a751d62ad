// SPDX-License-Identifier: Apache-2.0

#include "kvevent/kv_follower.h"

#include "base/base.h"

#include <math.h>
#include <stdlib.h>

// A live message behind a replay.
struct waiting_message {
    struct waiting_message *next;
    uint64_t number;
    size_t size;
    uint8_t bytes[];
};

enum replay_phase {
    PHASE_FOLLOWING, // no message is known to be missing
    PHASE_DUE,       // a replay is requested at due_ms
    PHASE_REPLAYING,
};

struct kv_follower {
    struct kv_holdings *holdings;
    struct kv_reader *reader;
    double seconds; // when the engine made the last batch; NAN: unknown
    struct kv_follower_counts counts;
    bool has_replay;
    uint64_t capacity_tokens; // 0: unknown

    // Knowledge of the engine's cache.
    uint64_t next;
    uint64_t since;        // the first number that was applied since everything was forgotten
    uint64_t refused_base; // blocks that had been refused then
    bool is_heard;         // an event was applied, ever
    bool has_zero;         // a message had number 0, ever
    bool is_complete;      // since the engine's first message
    bool is_full;          // the engine has stored its whole capacity since
    bool is_polled;        // `next` counts events of documents, not messages
    uint64_t full_from;    // tokens that had been stored when it last showed an older block
    uint64_t orphans;      // events without a known parent until then
    uint64_t orphans_lost; // events whose parent never came, until then

    // The live socket.
    uint64_t live_next; // behind the last that came; if has_live
    bool has_live;
    bool was_connected;
    bool is_cut;
    bool is_asked_back; // a replay was requested since the last message
    uint64_t spoke_ms;  // when the last came
    struct waiting_message *first;
    struct waiting_message **last;
    uint32_t waiting_count;
    size_t waiting_bytes;

    // The replay.
    enum replay_phase phase;
    bool is_behind; // messages are missing; otherwise the replay only makes sure
    bool is_late;   // if is_behind: for too long
    bool is_begun;  // its first message has come
    bool drops;     // the next action says drops_replay
    uint32_t attempts;
    uint64_t behind_ms; // since when, if is_behind
    uint64_t replay_next;
    uint64_t asked_from;
    uint64_t asked_ms; // when the last replay was requested; the next is spaced from there
    uint64_t moved_ms;
    uint64_t due_ms;
    uint64_t pause_ms;
    uint64_t rests_until_ms; // given up until then
    uint64_t drained_until_ms;
};

struct kv_follower *kv_follower_create(const struct kv_follower_options *options)
{
    struct kv_follower *follower = calloc(1, sizeof(*follower));
    if (follower == NULL) {
        return NULL;
    }
    follower->reader = options->reader;
    follower->seconds = NAN;
    follower->has_replay = options->has_replay;
    follower->last = &follower->first;
    follower->pause_ms = kv_replay_pause_ms;
    follower->holdings = kv_holdings_create(&options->holdings);
    if (follower->holdings == NULL) {
        kv_follower_destroy(&follower);
    }
    return follower;
}

static void pop_waiting(struct kv_follower *follower)
{
    ASSERT(follower->first != NULL && follower->waiting_count > 0);
    struct waiting_message *first = follower->first;
    follower->first = first->next;
    if (follower->first == NULL) {
        follower->last = &follower->first;
    }
    follower->waiting_count--;
    follower->waiting_bytes -= first->size;
    free(first);
}

static void drop_waiting(struct kv_follower *follower)
{
    while (follower->first != NULL) {
        pop_waiting(follower);
    }
}

void kv_follower_destroy(struct kv_follower **follower_ptr)
{
    struct kv_follower *follower = *follower_ptr;
    *follower_ptr = NULL;

    if (follower == NULL) {
        return;
    }
    drop_waiting(follower);
    if (follower->holdings != NULL) {
        kv_holdings_destroy(&follower->holdings);
    }
    free(follower);
}

// A message that overflows is not lost: this replay brings it, or the next one.
static void push_waiting(struct kv_follower *follower, const struct kv_numbered *message)
{
    ASSERT(follower->is_behind && follower->waiting_bytes <= kv_waiting_bytes_max);
    size_t size = message->payload.size;
    bool fits = follower->waiting_count < kv_waiting_max &&
                size <= kv_waiting_bytes_max - follower->waiting_bytes;
    struct waiting_message *waiting = fits ? malloc(sizeof(*waiting) + size) : NULL;
    if (waiting == NULL) {
        follower->counts.overflows++;
        drop_waiting(follower);
        return;
    }
    *waiting = (struct waiting_message){.number = message->number, .size = size};
    if (size > 0) {
        memcpy(waiting->bytes, message->payload.bytes, size);
    }
    *follower->last = waiting;
    follower->last = &waiting->next;
    follower->waiting_count++;
    follower->waiting_bytes += size;
}

// Forgets all; the next message is number `next`.
static void forget_holdings(struct kv_follower *follower, uint64_t next)
{
    if (follower->is_heard) {
        kv_holdings_purge(follower->holdings);
        follower->counts.purges++;
    }
    follower->next = next;
    follower->since = next;
    follower->refused_base = kv_holdings_counts(follower->holdings)->refused;
    follower->is_complete = false;
    follower->is_full = false;
    follower->full_from = 0;
    follower->orphans_lost = kv_holdings_counts(follower->holdings)->orphans_lost;
}

// Messages before this one cannot be had any more.  If it has number 1 and the publisher never sent
// a number 0, it counts from 1, and none is missing.  A publisher whose number 0 was lost looks
// alike: orphans and responses then show what is missing.
static void skip_to(struct kv_follower *follower, uint64_t number)
{
    bool is_whole = follower->next == 0 && number == 1 && !follower->has_zero;
    forget_holdings(follower, number);
    follower->is_complete = is_whole;
    follower->since = is_whole ? 0 : number;
}

// Blocks that are used again stay cached, however much is stored since.  But a block stored
// behind one of them has a parent that no event named: an orphan.  One whose parent never comes
// shows that the record was not complete either, whatever number it began with.
static void note_fullness(struct kv_follower *follower)
{
    uint64_t stored = kv_holdings_tokens_stored(follower->holdings);
    uint64_t orphans = kv_holdings_counts(follower->holdings)->orphans;
    uint64_t orphans_lost = kv_holdings_counts(follower->holdings)->orphans_lost;

    if (orphans_lost != follower->orphans_lost) {
        follower->orphans_lost = orphans_lost;
        follower->is_complete = false;
        follower->full_from = stored;
        follower->is_full = false;
    }
    if (orphans != follower->orphans) {
        follower->orphans = orphans;
        follower->full_from = stored;
        follower->is_full = false;
    }
    // The count of stored tokens begins again after a purge.
    follower->full_from = follower->full_from < stored ? follower->full_from : stored;
    follower->is_full |=
        follower->capacity_tokens > 0 && stored - follower->full_from >= follower->capacity_tokens;
}

static void apply_message(struct kv_follower *follower, const struct kv_numbered *message,
                          uint64_t now_ms)
{
    ASSERT(message->number == follower->next);
    struct kv_notice notice;
    enum status status = kv_reader_begin(follower->reader, message->payload);
    kv_reader_prefetch(follower->reader, kv_holdings_prefetch, follower->holdings);
    follower->seconds = status == STATUS_OK ? kv_reader_seconds(follower->reader) : NAN;

    follower->next++;
    follower->is_heard = true;
    follower->has_zero |= message->number == 0;
    follower->is_complete |= message->number == 0;
    while (status == STATUS_OK) {
        status = kv_reader_next(follower->reader, &notice);
        if (status == STATUS_OK) {
            kv_holdings_apply(follower->holdings, &notice, now_ms);
        }
    }
    kv_holdings_settle(follower->holdings);
    if (status != STATUS_CLOSED) {
        // The lost events may have been removals, and a replay would bring the same bytes.
        follower->counts.malformed++;
        forget_holdings(follower, follower->next);
    }
    note_fullness(follower);
}

static bool may_replay(const struct kv_follower *follower, uint64_t now_ms)
{
    return follower->has_replay && now_ms >= follower->rests_until_ms;
}

static void plan_replay(struct kv_follower *follower, uint64_t soonest_ms)
{
    ASSERT(follower->has_replay && follower->phase != PHASE_REPLAYING);
    uint64_t spaced_ms =
        follower->asked_ms == 0 ? soonest_ms : follower->asked_ms + follower->pause_ms;
    follower->phase = PHASE_DUE;
    follower->due_ms = spaced_ms > soonest_ms ? spaced_ms : soonest_ms;
}

static void stop_replay(struct kv_follower *follower)
{
    follower->drops |= follower->phase == PHASE_REPLAYING;
    follower->phase = PHASE_FOLLOWING;
}

// Applies waiting messages up to the next gap.  With `skips` also those behind gaps, each of
// which forgets all.
static void drain_waiting(struct kv_follower *follower, bool skips, uint64_t now_ms)
{
    while (follower->first != NULL) {
        struct waiting_message *first = follower->first;
        struct kv_numbered message = {first->number, slice_of(first->bytes, first->size)};
        if (message.number > follower->next && !skips) {
            return;
        }
        if (message.number > follower->next) {
            skip_to(follower, message.number);
        }
        if (message.number < follower->next) {
            follower->counts.duplicates++;
        } else {
            apply_message(follower, &message, now_ms);
        }
        pop_waiting(follower);
    }
}

static bool has_caught_up(const struct kv_follower *follower)
{
    return !follower->has_live || follower->live_next <= follower->next;
}

// The missing messages cannot be had: go on with live messages alone.
static void give_up_replay(struct kv_follower *follower, uint64_t now_ms)
{
    follower->phase = PHASE_FOLLOWING;
    follower->is_behind = false;
    follower->attempts = 0;
    follower->rests_until_ms = now_ms + kv_replay_pause_max_ms;
    drain_waiting(follower, true, now_ms);
    if (!has_caught_up(follower)) {
        forget_holdings(follower, follower->live_next); // the queue overflowed
    }
}

// A replay is over and some messages are still missing.  If it brought any, the next is
// `pause_ms` behind it.
static void ask_again(struct kv_follower *follower, uint64_t pause_ms, uint64_t now_ms)
{
    ASSERT(follower->phase == PHASE_FOLLOWING);
    bool has_progress = follower->next > follower->asked_from;

    if (!has_progress && follower->pause_ms < kv_replay_pause_ms) {
        follower->pause_ms = kv_replay_pause_ms;
    }
    follower->counts.replays_failed += !has_progress;
    follower->attempts = has_progress ? 0 : follower->attempts + 1;
    follower->pause_ms = has_progress ? pause_ms : follower->pause_ms * 2;
    if (follower->pause_ms > kv_replay_pause_max_ms) {
        follower->pause_ms = kv_replay_pause_max_ms;
    }
    if (follower->attempts >= kv_replay_attempts) {
        give_up_replay(follower, now_ms);
    } else {
        plan_replay(follower, now_ms);
    }
}

static void end_catching_up(struct kv_follower *follower)
{
    follower->phase = PHASE_FOLLOWING;
    follower->is_behind = false;
    follower->attempts = 0;
    follower->pause_ms = kv_replay_pause_ms;
}

static void fail_replay(struct kv_follower *follower, uint64_t now_ms)
{
    ASSERT(follower->phase == PHASE_REPLAYING);
    stop_replay(follower);
    follower->drained_until_ms = now_ms + kv_drained_ms;
    if (follower->is_behind) {
        ask_again(follower, kv_replay_pause_ms, now_ms);
    } else {
        follower->counts.replays_failed++;
    }
}

// If messages keep getting lost, the ledger stays wrong for this pause.  An engine that replays
// at once is asked again soon.
static uint64_t pause_after_answer_ms(const struct kv_follower *follower, uint64_t now_ms)
{
    uint64_t pause_ms = 4 * (now_ms - follower->asked_ms);
    pause_ms = pause_ms > kv_replay_pause_min_ms ? pause_ms : kv_replay_pause_min_ms;
    return pause_ms < kv_replay_pause_ms ? pause_ms : kv_replay_pause_ms;
}

void kv_follower_replay_ended(struct kv_follower *follower, uint64_t now_ms)
{
    uint64_t pause_ms = pause_after_answer_ms(follower, now_ms);

    if (follower->phase != PHASE_REPLAYING) {
        return;
    }
    follower->drained_until_ms = now_ms + kv_drained_ms;
    follower->phase = PHASE_FOLLOWING;
    drain_waiting(follower, false, now_ms);
    if (has_caught_up(follower)) {
        // An engine with nothing to replay from 0 that has sent nothing holds nothing.
        follower->is_complete |= follower->next == 0 && !follower->has_live;
        end_catching_up(follower);
        follower->pause_ms = pause_ms;
    } else {
        ask_again(follower, pause_ms, now_ms);
    }
}

void kv_follower_replayed(struct kv_follower *follower, const struct kv_numbered *message,
                          uint64_t now_ms)
{
    uint64_t number = message->number;

    if (follower->phase != PHASE_REPLAYING) {
        return;
    }
    follower->counts.replayed++;
    follower->moved_ms = now_ms;
    if (follower->is_begun && number != follower->replay_next) {
        fail_replay(follower, now_ms); // it left some out
        return;
    }
    if (!follower->is_begun && number > follower->next) {
        skip_to(follower, number);
    }
    follower->is_begun = true;
    follower->replay_next = number + 1;
    if (number < follower->next) {
        follower->counts.duplicates++;
    } else {
        apply_message(follower, message, now_ms);
    }
}

// Another process, whose holdings are unknown.
static void begin_anew(struct kv_follower *follower)
{
    follower->counts.restarts++;
    stop_replay(follower);
    drop_waiting(follower);
    forget_holdings(follower, 0);
    end_catching_up(follower);
    follower->has_live = false;
    follower->is_polled = false;
    follower->rests_until_ms = 0;
}

// Requests all messages that the engine keeps, before it sends any.
static void ask_from_start(struct kv_follower *follower, uint64_t soonest_ms)
{
    if (follower->has_replay) {
        follower->is_behind = true;
        follower->is_late = true; // from the start
        plan_replay(follower, soonest_ms);
    }
}

// Whether a message of this number must be of another process.  Taking an old message for a new
// process costs a replay; the opposite mistake would leave the ledger wrong.
static bool is_back(const struct kv_follower *follower, uint64_t number, uint64_t now_ms)
{
    if (follower->has_live && number < follower->live_next) {
        return true;
    }
    bool is_drained = number > 0 && now_ms < follower->drained_until_ms;
    return number < follower->next && !is_drained;
}

void kv_follower_live(struct kv_follower *follower, const struct kv_numbered *message,
                      uint64_t now_ms)
{
    uint64_t number = message->number;

    if (number == UINT64_MAX) { // the mark that ends a replay, not a message number
        follower->counts.malformed++;
        return;
    }
    if (follower->is_polled || is_back(follower, number, now_ms)) {
        begin_anew(follower);
    }
    follower->counts.messages++;
    follower->spoke_ms = now_ms;
    follower->is_asked_back = false;
    follower->has_live = true;
    follower->live_next = number + 1;
    if (number < follower->next) {
        follower->counts.duplicates++;
        return;
    }
    if (number == follower->next) {
        // No message is missing, whatever was requested; a replay under way brings only
        // duplicates.
        apply_message(follower, message, now_ms);
        follower->is_behind = false;
        follower->phase = follower->phase == PHASE_DUE ? PHASE_FOLLOWING : follower->phase;
        return;
    }
    if (!follower->is_behind && follower->next > 0) {
        follower->counts.gaps++;
        follower->counts.lost += number - follower->next;
    }
    if (follower->phase == PHASE_FOLLOWING && !may_replay(follower, now_ms)) {
        skip_to(follower, number);
        apply_message(follower, message, now_ms);
        return;
    }
    if (follower->phase == PHASE_FOLLOWING) {
        plan_replay(follower, now_ms);
    }
    if (!follower->is_behind) {
        follower->is_late = false;
        follower->behind_ms = now_ms;
    }
    follower->is_behind = true;
    push_waiting(follower, message);
}

void kv_follower_malformed(struct kv_follower *follower)
{
    follower->counts.malformed++;
}

void kv_follower_begin_polled(struct kv_follower *follower, uint64_t first, uint64_t last)
{
    bool is_published =
        follower->was_connected || follower->has_live || follower->phase != PHASE_FOLLOWING;
    if (is_published) {
        return; // two counts cannot both be followed, and a replay relies on `next`
    }
    follower->is_polled = true;
    if (first < follower->next) {
        follower->counts.restarts++;
    } else if (first > follower->next && follower->next > 0) {
        follower->counts.gaps++;
        follower->counts.lost += first - follower->next;
    }
    if (first != follower->next) {
        skip_to(follower, first);
    }
    follower->is_complete |= first == 0;
    follower->next = last + 1;
}

void kv_follower_apply(struct kv_follower *follower, const struct kv_notice *notice,
                       uint64_t now_ms)
{
    follower->is_heard = true;
    kv_holdings_apply(follower->holdings, notice, now_ms);
    kv_holdings_settle(follower->holdings);
    note_fullness(follower);
}

void kv_follower_connected(struct kv_follower *follower, uint64_t now_ms)
{
    bool is_first = !follower->was_connected;

    follower->was_connected = true;
    follower->is_cut = false;
    if (is_first && (follower->has_live || follower->phase != PHASE_FOLLOWING)) {
        return; // earlier messages came over this very connection
    }
    if (!is_first || follower->is_polled) {
        begin_anew(follower);
    }
    ask_from_start(follower, now_ms + kv_settle_ms);
}

void kv_follower_disconnected(struct kv_follower *follower)
{
    follower->is_cut = true;
    stop_replay(follower);
    drop_waiting(follower);
}

void kv_follower_restarted(struct kv_follower *follower, uint64_t now_ms)
{
    begin_anew(follower);
    if (!follower->is_cut) {
        ask_from_start(follower, now_ms);
    }
}

void kv_follower_distrust(struct kv_follower *follower)
{
    if (follower->is_behind) {
        return; // a replay is under way
    }
    // No replay: an engine that was emptied without events would replay its stores.
    stop_replay(follower);
    forget_holdings(follower, follower->next);
}

// When the silence is long enough to request a replay; UINT64_MAX: it need not.
static uint64_t quiet_ms(const struct kv_follower *follower)
{
    bool may_ask = follower->phase == PHASE_FOLLOWING && follower->has_live && !follower->is_cut &&
                   follower->has_replay && !follower->is_asked_back;
    if (!may_ask) {
        return UINT64_MAX;
    }
    uint64_t ms = follower->spoke_ms + kv_quiet_ms;
    return ms > follower->rests_until_ms ? ms : follower->rests_until_ms;
}

static uint64_t silent_until_ms(const struct kv_follower *follower)
{
    uint64_t idle_ms = follower->moved_ms + kv_replay_idle_ms;
    uint64_t whole_ms = follower->asked_ms + kv_replay_whole_ms;
    return idle_ms < whole_ms ? idle_ms : whole_ms;
}

static void begin_replay(struct kv_follower *follower, uint64_t now_ms)
{
    ASSERT(follower->has_replay && follower->phase == PHASE_DUE);
    follower->phase = PHASE_REPLAYING;
    follower->counts.replays++;
    follower->is_begun = false;
    follower->asked_from = follower->next;
    follower->asked_ms = now_ms == 0 ? 1 : now_ms;
    follower->moved_ms = now_ms;
    follower->drained_until_ms = UINT64_MAX; // until it has ended
}

struct kv_follower_action kv_follower_next_action(struct kv_follower *follower, uint64_t now_ms)
{
    struct kv_follower_action action = {.until_ms = UINT64_MAX};

    if (follower->phase == PHASE_REPLAYING && now_ms >= silent_until_ms(follower)) {
        fail_replay(follower, now_ms);
    }
    if (now_ms >= quiet_ms(follower)) {
        follower->is_asked_back = true;
        plan_replay(follower, now_ms);
    }
    if (follower->phase == PHASE_DUE && now_ms >= follower->due_ms) {
        begin_replay(follower, now_ms);
        action.wants_replay = true;
        action.from = follower->next;
    }
    follower->is_late |= follower->is_behind && now_ms - follower->behind_ms >= kv_late_ms;
    action.drops_replay = follower->drops;
    follower->drops = false;
    switch (follower->phase) {
    case PHASE_FOLLOWING:
        action.until_ms = quiet_ms(follower);
        break;
    case PHASE_DUE:
        action.until_ms = follower->due_ms;
        break;
    case PHASE_REPLAYING:
        action.until_ms = silent_until_ms(follower);
        break;
    }
    return action;
}

enum kv_follower_state kv_follower_state(const struct kv_follower *follower)
{
    if (!follower->is_heard) {
        return KV_SILENT;
    }
    bool is_refused = kv_holdings_counts(follower->holdings)->refused > follower->refused_base;
    bool is_late = follower->is_behind && follower->is_late;
    bool knows_all = follower->is_complete || follower->is_full;
    return knows_all && !is_late && !follower->is_cut && !is_refused ? KV_LIVE : KV_LEARNING;
}

void kv_follower_set_capacity(struct kv_follower *follower, uint64_t tokens)
{
    follower->capacity_tokens = tokens;
    note_fullness(follower);
}

struct kv_holdings *kv_follower_holdings(const struct kv_follower *follower)
{
    return follower->holdings;
}

double kv_follower_seconds(const struct kv_follower *follower)
{
    return follower->seconds;
}

uint64_t kv_follower_next(const struct kv_follower *follower)
{
    return follower->next;
}

uint64_t kv_follower_since(const struct kv_follower *follower)
{
    return follower->since;
}

const struct kv_follower_counts *kv_follower_counts(const struct kv_follower *follower)
{
    return &follower->counts;
}
