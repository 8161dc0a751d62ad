// SPDX-License-Identifier: Apache-2.0

#include "sim/workload/session.h"

#include "base/base.h"
#include "base/hash.h"
#include "sim/workload/mooncake.h"

#include <stdlib.h>

// Separate the uses of one seed.
enum salt { SALT_SESSION = 1, SALT_COMMON, SALT_GROUP, SALT_ANSWER, SALT_REST };

static uint64_t hash_three(uint64_t a, uint64_t b, uint64_t c)
{
    return hash_pair(hash_pair(a, b), c);
}

void script_init(struct script *script, const struct work_kind *kind, double share, uint64_t seed)
{
    *script = (struct script){.kind = kind, .seed = seed, .share = share};
    for (int i = 0; i < work_prompt_max; i++) {
        const struct work_prompt *prompt = &kind->prompts[i];
        if (prompt->groups > 0) {
            zipf_init(&script->groups[i], prompt->groups, prompt->exponent);
        }
    }
}

void script_fini(struct script *script)
{
    for (int i = 0; i < work_prompt_max; i++) {
        zipf_fini(&script->groups[i]);
    }
}

static uint32_t session_tokens_of(double value)
{
    return (uint32_t)(value + 0.5);
}

static uint32_t draw_tokens(const struct draw *draw, double scale, struct rng *rng)
{
    uint32_t tokens = session_tokens_of(draw_value(draw, rng) * scale);
    return tokens > 0 ? tokens : 1;
}

static void session_add_piece(struct session *session, uint64_t id, uint32_t tokens)
{
    if (tokens > 0) {
        session->pieces[session->piece_count++] = (struct piece){.id = id, .tokens = tokens};
        session->prompt_tokens += tokens;
    }
}

// The user's message, and the response behind it.
static void add_turn(struct session *session)
{
    uint64_t name = hash_pair(session->stream, session->turn);
    uint32_t own = draw_tokens(&session->prompt->own_tokens, session->own_scale, &session->rng);
    session_add_piece(session, name, own);
    session->output_tokens = draw_tokens(&session->prompt->output_tokens, 1, &session->rng);
    session->pieces[session->piece_count] =
        (struct piece){.id = hash_pair(name, SALT_ANSWER), .tokens = session->output_tokens};
}

static uint32_t pick_prompt(const struct work_kind *kind, struct rng *rng)
{
    uint32_t wanted = rng_below(rng, 100);
    uint32_t i = 0;
    for (uint32_t sum = kind->prompts[0].percent; sum <= wanted; sum += kind->prompts[i].percent) {
        i++;
        ASSERT(i < work_prompt_max);
    }
    return i;
}

// The prompt of a group has one length in all its sessions.
static void add_shared(const struct script *script, struct session *session, uint32_t index)
{
    const struct work_prompt *prompt = &script->kind->prompts[index];
    uint64_t group = hash_pair(session->stream, SALT_GROUP);
    if (prompt->groups > 0) {
        uint32_t number = zipf_pick(&script->groups[index], &session->rng);
        group = hash_three(script->seed, SALT_GROUP, (uint64_t)index << 32 | number);
    }
    struct rng rng = {.state = group};
    double shared = draw_value(&prompt->shared_tokens, &rng);
    session->own_scale = 1;
    if (script->share > 0) {
        double own = draw_mean(&prompt->own_tokens);
        double total = shared + own;
        shared = script->share * total;
        session->own_scale = (total - shared) / own;
    }
    session_add_piece(session, group, session_tokens_of(shared));
}

static struct session *session_allocate(size_t piece_max)
{
    struct session *session = calloc(1, sizeof(*session) + piece_max * sizeof(session->pieces[0]));
    ASSERT(session != NULL);
    return session;
}

struct session *session_create(const struct script *script, uint64_t number)
{
    const struct work_kind *kind = script->kind;
    uint64_t stream = hash_three(script->seed, SALT_SESSION, number);
    struct rng rng = {.state = stream};
    uint32_t turns = draw_between(kind->turns_min, kind->turns_max, &rng);
    uint32_t index = pick_prompt(kind, &rng);

    // The common and the shared piece, and two of each turn.
    struct session *session = session_allocate(2 + 2 * (size_t)turns);
    session->prompt = &kind->prompts[index];
    session->number = number;
    session->stream = stream;
    session->rng = rng;
    session->id = kind->turns_max > 1 ? stream | 1 : 0; // 0 would mean no session
    session->turn_count = turns;
    session_add_piece(session, hash_pair(script->seed, SALT_COMMON), kind->common_tokens);
    add_shared(script, session, index);
    add_turn(session);
    return session;
}

// The ids name blocks, the last of which may be shorter.  Tokens without an id are unique to the
// request; ids beyond the end are ignored.
static void session_add_blocks(struct session *session, const struct mooncake_request *request,
                               const uint64_t *ids, uint32_t copy)
{
    // An engine has nothing to do for an empty prompt.
    uint32_t left = request->input_tokens > 0 ? request->input_tokens : 1;
    for (uint32_t i = 0; i < request->id_count && left > 0; i++) {
        uint32_t tokens = left < request->block_tokens ? left : request->block_tokens;
        session_add_piece(session, hash_pair(ids[request->first + i], copy), tokens);
        left -= tokens;
    }
    session_add_piece(session, hash_pair(session->stream, SALT_REST), left);
}

struct session *session_of_trace(const struct mooncake_trace *trace, uint32_t index, uint32_t copy)
{
    const struct mooncake_request *request = &trace->requests[index];
    // The tokens without an id, and the response.
    struct session *session = session_allocate((size_t)request->id_count + 2);
    session->stream = hash_three(SALT_SESSION, index, copy);
    session->turn = request->turn;
    session->turn_count = request->turn + 1;
    if (request->session != 0) {
        session->id = copy == 0 ? request->session : hash_pair(request->session, copy) | 1;
    }
    session_add_blocks(session, request, trace->ids, copy);
    session->output_tokens = request->output_tokens > 0 ? request->output_tokens : 1;
    session->pieces[session->piece_count] = (struct piece){
        .id = hash_pair(session->stream, SALT_ANSWER), .tokens = session->output_tokens};
    return session;
}

void session_destroy(struct session **session)
{
    free(*session);
    *session = NULL;
}

bool session_go_on(struct session *session)
{
    if (session->turn + 1 >= session->turn_count) {
        return false;
    }
    session->turn++;
    session->prompt_tokens += session->output_tokens;
    session->history_tokens = session->prompt_tokens;
    session->piece_count++; // the response is a piece of the prompt now
    add_turn(session);
    return true;
}

double session_pause_s(const struct script *script, struct session *session)
{
    return draw_value(&script->kind->pause_s, &session->rng);
}
