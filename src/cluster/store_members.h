// SPDX-License-Identifier: Apache-2.0
//
// store_members.h -- which routers are there, judged from hellos in a store.
//
//                  a hello whose counter grew              ... that lists us
//     ABSENT ----------------------------------> HEARD ----------------------> THERE
//        ^                                         |                              |
//        +----- nothing for link_silence_ms -------+------------------------------+-- it says that
//                                                                                     it leaves
//
// A stored hello may be old, or repeated by a third party, so its presence proves nothing: its
// counter must grow, by the receiver's clock.  No two routers need to agree about time.
//
// Each hello lists the routers that its sender has heard.  A router is announced when it lists us,
// which shows two things: it is alive now, as our id is new with our process; and it knows since
// when to read our frames, so the first frame that we send to it is not lost.  We remember the
// counter at which it was first heard and read its frames from there.
//
// Pure: time is an argument.  Memory: part of its owner, but for the seals, which it frees.
#pragma once

#include "cluster/store_envelope.h"

enum {
    // More than may be there: hellos of dead routers and foreign ones need places too.
    store_member_count_max = 64,
    // A router that was silent for so long is removed from the store.
    store_member_forget_ms = 60000,
    // Without a secret anyone can write a counter that the sender will never reach.  After so many
    // smaller ones that grow, 250 ms apart, these are the sender's.
    store_lower_max = 8,
};

enum store_member_state { STORE_ABSENT, STORE_HEARD, STORE_THERE };

enum store_feed_name { STORE_TO_ALL, STORE_TO_US, STORE_FEED_COUNT };

// Entries of a stream are read in the order of their ids, which have two parts.
struct store_position {
    uint64_t major;
    uint64_t minor;
};

struct store_feed {
    struct store_position read; // up to here
    uint64_t valid;             // counter of the last entry that was the sender's own
    uint64_t valid_before;      // the same, when the newest hello was read
    bool is_spoiled;            // a foreign entry is in it
    bool is_cleared;            // and its deletion was asked for
};

struct store_member {
    uint64_t router; // 0: the place is free
    enum store_member_state state;
    uint64_t counter;     // of the newest hello; 0: none was read
    uint64_t lower;       // counter of the last hello that was not newer
    uint32_t lower_count; // so many of these have grown
    uint64_t heard_ms;    // when the counter grew last, or a frame came
    uint64_t first_ms;    // when the place was taken
    bool was_there;
    bool is_told;      // the removal from the store was asked for
    struct seal *seal; // NULL: plain
    char name[link_name_size];
    uint8_t hello[link_hello_size_max];
    size_t hello_size;
    struct store_feed feeds[STORE_FEED_COUNT];
    uint64_t bytes_in;
    uint64_t bytes_out;
    uint64_t frames_dropped;
};

struct store_members {
    uint64_t self; // our router
    struct store_member places[store_member_count_max];
    uint32_t there_count;
};

void store_members_init(struct store_members *members, uint64_t self);
void store_members_fini(struct store_members *members);

// NULL: not known.
struct store_member *store_members_find(struct store_members *members, uint64_t router);

// A place for a router that is not known: a free one, or that of the absent router that has been
// silent for longest, one that was never there first.  A forgotten router's old hellos count as new
// again, so routers that knew us are kept for as long as possible.  NULL: all are heard or there.
struct store_member *store_members_claim(struct store_members *members, uint64_t router,
                                         uint64_t now_ms);

// The place is free afterwards.  The router must not be there.
void store_members_release(struct store_members *members, struct store_member *member);

enum store_news {
    STORE_NO_NEWS,
    STORE_NEWLY_HEARD, // it should hear soon that we have heard it
    STORE_CAME,
    STORE_NO_ROOM, // link_peer_count_max others are there
};

// A hello with this counter was read.
enum store_news store_members_hear(struct store_members *members, struct store_member *member,
                                   uint64_t counter, const struct store_hello *hello,
                                   uint64_t now_ms);

// It was there, or heard, and is not any more.
void store_members_leave(struct store_members *members, struct store_member *member);

// A member that is heard or there and has been silent for too long; NULL: none.
struct store_member *store_members_silent(struct store_members *members, uint64_t now_ms);

// A member whose hello should be removed from the store, once; NULL: none.
struct store_member *store_members_forgotten(struct store_members *members, uint64_t now_ms);

// The routers to list in our hello; those that are there first.
uint32_t store_members_list(const struct store_members *members, uint64_t out[link_peer_count_max]);
