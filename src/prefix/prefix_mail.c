// SPDX-License-Identifier: Apache-2.0
//
// A ring is an array of words.  Positions only grow; a letter lies in one piece from its position
// modulo ring_words on, and so may reach into the room behind the ring, of which the array has as
// much as the longest letter needs.  The words at the beginning that it would have covered stay
// unused.

#include "prefix/prefix_mail.h"

#include "base/base.h"
#include "prefix/prefix_mail_internal.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    ring_words = 1 << 15, // 256 KiB: four of the longest letters, thousands of usual ones
    head_words = 3,
    letter_words_max = head_words + prefix_letter_keys_max,
};

struct sender {
    uint64_t *words;
    struct {
        _Alignas(64) _Atomic uint64_t written; // by the sender
        _Atomic uint64_t lost;                 // by the sender
        _Alignas(64) _Atomic uint64_t read;    // by the thread with the role
    } shared;
};

struct prefix_mail {
    struct prefix_index *index;
    uint32_t sender_count;
    struct {
        _Alignas(64) _Atomic uint32_t is_taken; // the role of writer
    } shared;
    struct sender senders[];
};

void prefix_mail_destroy(struct prefix_mail **mail)
{
    for (uint32_t i = 0; *mail != NULL && i < (*mail)->sender_count; i++) {
        free((*mail)->senders[i].words);
    }
    free(*mail);
    *mail = NULL;
}

struct prefix_mail *prefix_mail_create(struct prefix_index *index, uint32_t sender_count)
{
    size_t size = sizeof(struct prefix_mail) + sender_count * sizeof(struct sender);
    struct prefix_mail *mail = aligned_alloc(64, size);
    if (mail == NULL) {
        return NULL;
    }
    memset((void *)mail, 0, size);
    mail->index = index;
    mail->sender_count = sender_count;
    for (uint32_t i = 0; i < sender_count; i++) {
        mail->senders[i].words = malloc((ring_words + letter_words_max) * sizeof(uint64_t));
        if (mail->senders[i].words == NULL) {
            prefix_mail_destroy(&mail);
            return NULL;
        }
    }
    return mail;
}

static uint32_t low(uint64_t word)
{
    return (uint32_t)word;
}

static uint32_t high(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

static uint64_t pair(uint32_t high, uint32_t low)
{
    return (uint64_t)high << 32 | low;
}

static bool put_letter(struct sender *sender, const struct prefix_letter *letter)
{
    uint64_t written = atomic_load_explicit(&sender->shared.written, memory_order_relaxed);
    uint64_t read = atomic_load_explicit(&sender->shared.read, memory_order_acquire);
    uint64_t size = head_words + letter->key_count;
    if (written + size - read > ring_words) {
        return false;
    }
    uint64_t *words = sender->words + written % ring_words;
    words[0] = pair(letter->backend, (uint32_t)letter->verb << 8 | (uint32_t)letter->residency);
    words[1] =
        pair(letter->verb == PREFIX_FORGET_OLDER ? letter->age : letter->from, letter->now_s);
    words[2] = pair(letter->block_tokens, letter->key_count);
    if (letter->key_count > 0) {
        memcpy(words + head_words, letter->keys, letter->key_count * sizeof(letter->keys[0]));
    }
    // In one order with the role: see deliver_all().
    atomic_store_explicit(&sender->shared.written, written + size, memory_order_seq_cst);
    return true;
}

static void mail_deliver(struct prefix_index *index, const struct prefix_letter *letter)
{
    switch (letter->verb) {
    case PREFIX_STORE:
        prefix_index_store(index, &(struct prefix_span){.keys = letter->keys,
                                                        .key_count = letter->key_count,
                                                        .block_tokens = letter->block_tokens,
                                                        .backend = letter->backend,
                                                        .now_s = letter->now_s,
                                                        .residency = letter->residency});
        break;
    case PREFIX_DROP:
        prefix_index_drop(index, letter->backend, letter->residency, letter->keys,
                          letter->key_count, letter->from);
        break;
    case PREFIX_FORGET:
        prefix_index_forget(index, letter->backend);
        break;
    case PREFIX_FORGET_OLDER:
        prefix_index_forget_older(index, letter->backend, letter->age);
        break;
    }
}

static struct prefix_letter letter_at(const uint64_t *words)
{
    return (struct prefix_letter){
        .verb = (enum prefix_verb)(words[0] >> 8 & 0xff),
        .residency = (enum prefix_residency)(words[0] & 0xff),
        .backend = high(words[0]),
        .now_s = low(words[1]),
        .block_tokens = high(words[2]),
        .age = high(words[1]),
        .from = high(words[1]),
        .key_count = low(words[2]),
        .keys = words + head_words,
    };
}

static void empty_ring(struct prefix_index *index, struct sender *sender)
{
    uint64_t written = atomic_load_explicit(&sender->shared.written, memory_order_acquire);
    uint64_t read = atomic_load_explicit(&sender->shared.read, memory_order_relaxed);
    while (read != written) {
        struct prefix_letter letter = letter_at(sender->words + read % ring_words);
        mail_deliver(index, &letter);
        read += head_words + letter.key_count;
        atomic_store_explicit(&sender->shared.read, read, memory_order_release);
    }
}

static bool has_letters(struct prefix_mail *mail)
{
    for (uint32_t i = 0; i < mail->sender_count; i++) {
        struct sender *sender = &mail->senders[i];
        if (atomic_load_explicit(&sender->shared.written, memory_order_seq_cst) !=
            atomic_load_explicit(&sender->shared.read, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

bool prefix_mail_take_role(struct prefix_mail *mail)
{
    return atomic_exchange_explicit(&mail->shared.is_taken, 1, memory_order_seq_cst) == 0;
}

static void empty_rings(struct prefix_mail *mail)
{
    for (uint32_t i = 0; i < mail->sender_count; i++) {
        empty_ring(mail->index, &mail->senders[i]);
    }
}

// A sender writes its letter and then looks at the role; the thread with the role gives it back and
// then looks for letters.  All four are in the one order of sequential consistency, so at least one
// of the two sees the other, and no letter stays behind.
static bool give_role(struct prefix_mail *mail)
{
    atomic_store_explicit(&mail->shared.is_taken, 0, memory_order_seq_cst);
    return !has_letters(mail);
}

static void deliver_all(struct prefix_mail *mail)
{
    bool is_done = false;
    while (!is_done && prefix_mail_take_role(mail)) {
        empty_rings(mail);
        is_done = give_role(mail);
    }
}

void prefix_mail_give_role(struct prefix_mail *mail)
{
    if (!give_role(mail)) {
        deliver_all(mail);
    }
}

// Mostly the role is free, and the letter is delivered without the ring.  Letters of the same
// sender that are still in its ring come first.
static bool deliver_own(struct prefix_mail *mail, const struct prefix_letter *letter)
{
    if (!prefix_mail_take_role(mail)) {
        return false;
    }
    empty_rings(mail);
    mail_deliver(mail->index, letter);
    prefix_mail_give_role(mail);
    return true;
}

bool prefix_mail_send(struct prefix_mail *mail, uint32_t sender, const struct prefix_letter *letter)
{
    ASSERT(sender < mail->sender_count);
    ASSERT(letter->key_count <= prefix_letter_keys_max);
    if (deliver_own(mail, letter)) {
        return true;
    }
    struct sender *own = &mail->senders[sender];
    bool is_put = put_letter(own, letter);
    if (!is_put) {
        uint64_t lost = atomic_load_explicit(&own->shared.lost, memory_order_relaxed);
        atomic_store_explicit(&own->shared.lost, lost + 1, memory_order_relaxed);
    }
    deliver_all(mail);
    return is_put;
}

uint64_t prefix_mail_lost(const struct prefix_mail *mail)
{
    uint64_t lost = 0;
    for (uint32_t i = 0; i < mail->sender_count; i++) {
        lost += atomic_load_explicit(&mail->senders[i].shared.lost, memory_order_relaxed);
    }
    return lost;
}
