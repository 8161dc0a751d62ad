// SPDX-License-Identifier: Apache-2.0
//
// engine_peer.h -- an engine that publishes KV events and replays missed ones, in the thread of the
// test.
//
// Its message n stores block n + 1 of batch_fixture.h.
#pragma once

#include "feed/kv/zmq_peer.h"
#include "kvevent/batch_fixture.h"

enum engine_layout { REPLAY_WITHOUT_TOPIC, REPLAY_WITH_TOPIC };

struct engine_peer {
    struct zmq_peer live;
    struct zmq_peer replay;
    const char *topic;
    enum engine_layout layout;
    uint64_t next;   // number
    uint64_t oldest; // that it remembers
    uint32_t asked;  // how often
    bool is_mute;    // does not answer
};

static inline void engine_open(struct engine_peer *engine, const char *topic)
{
    *engine = (struct engine_peer){.topic = topic};
    peer_bind(&engine->live, ZMQ_XPUB, NULL);
    peer_bind(&engine->replay, ZMQ_ROUTER, NULL);
}

static inline void engine_close(struct engine_peer *engine)
{
    peer_close(&engine->live);
    peer_close(&engine->replay);
}

// Another process on the same ports.
static inline void engine_restart(struct engine_peer *engine)
{
    char live[peer_address_size];
    char replay[peer_address_size];

    memcpy(live, engine->live.address, sizeof(live));
    memcpy(replay, engine->replay.address, sizeof(replay));
    engine_close(engine);
    engine->next = 0;
    engine->oldest = 0;
    peer_bind(&engine->live, ZMQ_XPUB, live);
    peer_bind(&engine->replay, ZMQ_ROUTER, replay);
}

static inline uint64_t engine_number(uint64_t number)
{
    return __builtin_bswap64(number);
}

static inline void engine_send(struct zmq_peer *peer, const char *topic, uint64_t number)
{
    struct batch batch;
    uint64_t wire = engine_number(number);
    const struct slice frames[] = {slice_str(topic), slice_of(&wire, sizeof(wire)),
                                   batch_write(&batch, KV_EVENT_STORED, number + 1, 0)};
    peer_send(peer, frames, 3);
}

static inline void engine_publish(struct engine_peer *engine, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        engine_send(&engine->live, engine->topic, engine->next++);
    }
}

// Publishes into the void.
static inline void engine_lose(struct engine_peer *engine, uint32_t count)
{
    engine->next += count;
}

// Whether a peer has subscribed since the last call.
static inline bool engine_has_subscriber(struct engine_peer *engine)
{
    uint8_t subscription[64];
    int size = peer_receive(&engine->live, subscription, sizeof(subscription));
    return size > 0 && subscription[0] == 1;
}

static inline void engine_reply(struct engine_peer *engine, struct slice identity, uint64_t number,
                                struct slice payload)
{
    uint64_t wire = engine_number(number);
    struct slice frames[5];
    uint32_t count = 0;

    frames[count++] = identity;
    frames[count++] = (struct slice){0};
    if (engine->layout == REPLAY_WITH_TOPIC) {
        frames[count++] = number == UINT64_MAX ? (struct slice){0} : slice_str(engine->topic);
    }
    frames[count++] = slice_of(&wire, sizeof(wire));
    frames[count++] = payload;
    peer_send(&engine->replay, frames, count);
}

// Answers one question, if there is any.
static inline void engine_answer(struct engine_peer *engine)
{
    uint8_t identity[64];
    uint64_t from = 0;
    int size = peer_receive(&engine->replay, identity, sizeof(identity));

    if (size == -1) {
        return;
    }
    engine->asked++;
    ASSERT(peer_receive(&engine->replay, &from, sizeof(from)) == 0);
    ASSERT(peer_receive(&engine->replay, &from, sizeof(from)) == sizeof(from));
    from = engine_number(from);
    if (engine->is_mute) {
        return;
    }
    struct slice peer = slice_of(identity, (size_t)size);
    for (uint64_t i = from > engine->oldest ? from : engine->oldest; i < engine->next; i++) {
        struct batch batch;
        engine_reply(engine, peer, i, batch_write(&batch, KV_EVENT_STORED, i + 1, 0));
    }
    engine_reply(engine, peer, UINT64_MAX, (struct slice){0});
}
